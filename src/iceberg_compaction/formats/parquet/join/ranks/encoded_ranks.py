"""Ranks as pages of indexes, whoever has encoded them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt
    import pyarrow.parquet as pq

    from iceberg_compaction.formats.parquet import thrift
    from iceberg_compaction.formats.parquet.join import joined_column

_AT_ONCE = 2**18  # rows that are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRanks:
    """The data pages of a column. Offsets are relative to the first of them."""

    codec: str
    values: int
    order: npt.NDArray[np.int32] | None  # the rank that each index stands for; None: index and rank are the same
    pieces: Sequence[Any]  # bytes-like, in order
    uncompressed: int
    encodings: tuple[int, ...]
    page_counts: dict[tuple[int, int], int]  # by type and encoding
    locations: Sequence[joined_column.PageLocation] | None  # None: not all of them are known
    index: thrift.Struct | None  # a column index whose bounds are ranks


def check(file: pq.ParquetFile, ranks: pa.ChunkedArray) -> None:
    """ValueError: the only column of the file does not hold these ranks. It is decoded bit by bit, to save memory."""
    at = 0
    for batch in file.iter_batches(_AT_ONCE, use_threads=False):
        part = pa.chunked_array([batch.column(0)])
        if not part.equals(ranks.slice(at, len(part))):
            break
        at += len(part)
    if at != len(ranks):
        raise ValueError("indexes of a dictionary have changed while they were encoded")
