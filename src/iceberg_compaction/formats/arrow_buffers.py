"""The buffers of Arrow arrays as numpy arrays, without a copy where that is possible."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def validity(array: pa.Array) -> npt.NDArray[np.uint8]:
    """1 where the array has a value, 0 where it is null."""
    bitmap = array.buffers()[0]
    if bitmap is None:
        return np.full(len(array), 0 if pa.types.is_null(array.type) else 1, dtype=np.uint8)
    return bits(bitmap, array.offset, len(array))


def bits(bitmap: pa.Buffer | None, offset: int, count: int) -> npt.NDArray[np.uint8]:
    """A bitmap's bits as bytes of 0 and 1."""
    if bitmap is None:
        return np.zeros(count, dtype=np.uint8)
    first = offset // 8
    packed = np.frombuffer(bitmap, dtype=np.uint8, count=(offset + count + 7) // 8 - first, offset=first)
    return np.unpackbits(packed, bitorder="little")[offset % 8 : offset % 8 + count]


def fixed(array: pa.Array, dtype: str = "") -> npt.NDArray[Any]:
    """The values of a fixed-width array, nulls with whatever bytes they hold; signed integers by default."""
    kind = np.dtype(dtype or f"<i{array.type.bit_width // 8}")
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), dtype=kind)
    return np.frombuffer(buffer, dtype=kind, count=len(array), offset=array.offset * kind.itemsize)


def offsets(array: pa.Array, dtype: str) -> npt.NDArray[Any]:
    """The offsets of a string or list array; one more than it has values."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array) + 1, dtype=dtype)
    return np.frombuffer(buffer, dtype=dtype, count=len(array) + 1, offset=array.offset * int(dtype[2]))
