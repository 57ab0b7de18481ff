"""The order of a column's values in Parquet, on their plain bytes as statistics hold them: it decides which of two
bounds is the smaller one."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from iceberg_compaction.formats.parquet import page_layout

Order: TypeAlias = Callable[[bytes], Any]
_NUMBERS = {"INT32": "<i", "INT64": "<q", "BOOLEAN": "<?"}
_FLOATS = {"FLOAT": "<f", "DOUBLE": "<d"}
_AS_BYTES = ("STRING", "ENUM", "JSON", "BSON", "UUID")


def sort_key(layout: page_layout.Layout) -> Order | None:
    """A sort key of bounds, which raises ValueError for a value that is no bound. None: bounds of such a column are not
    compared, so they are not kept."""
    kind = layout.annotation[0] if layout.annotation else None
    if layout.physical in _NUMBERS:
        is_unsigned = kind == "INT" and not layout.annotation[2]
        return None if is_unsigned else _number(_NUMBERS[layout.physical])
    if layout.physical in _FLOATS:
        return _float(_FLOATS[layout.physical])
    if layout.physical not in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        return None
    if kind == "DECIMAL":
        return lambda bound: int.from_bytes(bound, "big", signed=True)
    return _itself if kind is None or kind in _AS_BYTES else None


def _itself(bound: bytes) -> bytes:
    return bound


def _number(form: str) -> Order:
    size = struct.calcsize(form)
    return lambda bound: struct.unpack(form, _of_size(bound, size))[0]


def _of_size(bound: bytes, size: int) -> bytes:
    if len(bound) != size:
        raise ValueError(f"a bound has {len(bound)} bytes where its type has {size}")
    return bound


def _float(form: str) -> Order:
    """Floats by value, a negative zero before a positive one. A NaN has no location in the order: ValueError."""
    size = struct.calcsize(form)

    def key(bound: bytes) -> tuple[float, float]:
        value = struct.unpack(form, _of_size(bound, size))[0]
        if math.isnan(value):
            raise ValueError("NaN is no bound")
        return value, math.copysign(1.0, value)

    return key
