"""Dictionaries without the values that no row has any more. An encoder writes a dictionary as it is given: what was
deleted would stay in the file, for everybody to read. Rows come in and go out, with as few values as they need."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def unified(table: pa.Table) -> pa.Table:
    """The same rows. Each column with dictionaries has a single one, whose values are all in use."""
    table = table.unify_dictionaries()
    for number, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type) and column.num_chunks:
            table = table.set_column(number, table.schema.field(number), _of_column(column))
    return table


def _of_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    dictionary = column.chunk(0).dictionary
    is_used = np.zeros(len(dictionary), bool)
    for chunk in column.chunks:
        is_used[chunk.indices.drop_null().to_numpy()] = True
    if is_used.all():
        return column
    values = dictionary.filter(pa.array(is_used))
    numbers = pa.array((np.cumsum(is_used) - 1).astype(np.int64)).cast(column.type.index_type, safe=False)
    chunks = [pa.DictionaryArray.from_arrays(numbers.take(chunk.indices), values) for chunk in column.chunks]
    return pa.chunked_array(chunks, type=column.type)
