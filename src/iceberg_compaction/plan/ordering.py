"""Sorts a million files by several columns in a blink. Columns of integers come in, positions go out.

numpy sorts plain integers many times faster than it sorts positions by several keys. So each pass packs as many bits of
the columns as fit in front of the position and sorts the packed numbers: a radix sort with few, wide digits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_WORD = 64


def positions_by(columns: Sequence[NDArray[np.uint64]]) -> NDArray[np.int64]:
    """Positions sorted by the columns, the first one above all; equal rows stay in their order."""
    count = len(columns[0])
    place = max(1, count - 1).bit_length()
    order: NDArray[np.uint64] | None = None
    for digit in _digits(columns, _WORD - place):
        word = digit if order is None else digit[order]
        packed = np.sort((word << np.uint64(place)) | np.arange(count, dtype=np.uint64))
        within = packed & np.uint64((1 << place) - 1)
        order = within if order is None else order[within]
    return np.arange(count) if order is None else order.astype(np.int64)


def from_zero(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The same order in as few bits as possible."""
    if not len(values):
        return values.astype(np.uint64)
    distance: NDArray[np.int64] = values - values.min()
    return distance.view(np.uint64)  # it may have wrapped around, and is right again without the sign


def nulls_last(values: pa.ChunkedArray, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """`from_zero` of some rows of a column as two columns, so that nulls come after everything else, even after the
    greatest number that there is: whether a value is null, and the value."""
    missing = np.zeros(len(rows), np.uint64)
    if values.null_count == len(values):
        return missing, missing
    numbers = pc.fill_null(values, 0).to_numpy()[rows].astype(np.int64, copy=False)
    if not values.null_count:
        return missing, from_zero(numbers)
    null = values.is_null().to_numpy()[rows]
    found = np.zeros(len(rows), np.uint64)
    found[~null] = from_zero(numbers[~null])
    return null.astype(np.uint64), found


def _digits(columns: Sequence[NDArray[np.uint64]], width: int) -> Iterator[NDArray[np.uint64]]:
    """The columns' bits, least significant first, in digits of at most `width` bits."""
    digit, used = np.zeros(len(columns[0]), np.uint64), 0
    for column in reversed(columns):
        bits, taken = int(column.max(initial=0)).bit_length(), 0
        while taken < bits:
            room = min(bits - taken, width - used)
            piece = (column >> np.uint64(taken)) & np.uint64((1 << room) - 1)
            digit = digit | (piece << np.uint64(used))
            taken, used = taken + room, used + room
            if used == width:
                yield digit
                digit, used = np.zeros_like(digit), 0
    if used:
        yield digit
