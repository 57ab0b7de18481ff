"""Chooses the columns that are not worth a dictionary: where it would overflow, or hardly two values are equal, trying
costs a quarter of the encoding and makes a larger file. Rows of a file's first row group come in, columns go out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_SAMPLE = 1 << 14  # rows looked at
_LEAST = 1 << 12  # values; fewer are too small a sample, and their dictionary costs nothing
_UNIQUE = 0.85  # distinct values per row from which a dictionary saves nothing
_SURE = 2  # times the room that there is for a dictionary: the number of its entries is an estimate


def without_dictionary(table: pa.Table, columns: Iterable[tuple[int, ...]], room: int) -> set[tuple[int, ...]]:
    """The columns, given by their path through structs, for which a dictionary of `room` bytes is useless."""
    if table.num_rows < _LEAST:
        return set()
    # At random, since neighbours may differ where the same values come again later. The same rows in every run.
    rows = np.unique(np.random.default_rng(0).integers(0, table.num_rows, _SAMPLE))
    return {
        path for path in columns if _is_useless(_taken(table.column(path[0]), path[1:], rows), table.num_rows, room)
    }


def _taken(column: pa.ChunkedArray, below: tuple[int, ...], rows: NDArray[np.int64]) -> pa.ChunkedArray:
    parts, first = [], 0
    for chunk in column.chunks:  # one by one: taken from as a whole, chunks would be copied into one first
        inside = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + len(chunk))] - first
        part = chunk.take(pa.array(inside))
        part = pc.struct_field(part, list(below)) if below else part
        parts.append(part.storage if isinstance(part.type, pa.BaseExtensionType) else part)
        first += len(chunk)
    return pa.chunked_array(parts)


def _is_useless(sample: pa.ChunkedArray, rows: int, room: int) -> bool:
    values = sample.drop_null()
    if len(values) < _LEAST:
        return False
    there = rows * len(values) / len(sample)
    entries = 1 / (1 / distinct_values(len(values.unique()), len(values)) + 1 / there)  # no row was looked at twice
    return entries >= _UNIQUE * there or entries * values.nbytes / len(values) > _SURE * room


def distinct_values(seen: int, looked_at: int) -> float:
    """How many values there are if so many different ones were seen among so many, all being equally frequent. Fewer,
    if some are more frequent than others."""
    if seen >= looked_at:
        return math.inf
    low, high = float(seen), float(looked_at) ** 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if -middle * math.expm1(-looked_at / middle) < seen else (low, middle)
    return high
