"""Column bounds: how precise the table wants them (R41) and how values are cut without ceasing to be bounds (R24).
A bound that might not hold is left out, because readers skip files by it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyiceberg import conversions
from pyiceberg import types as iceberg
from pyiceberg.table import sorting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.schema import Schema

_PREFIX = "write.metadata.metrics."
_INFERRED = 100  # columns that have metrics by default
_CUT = (iceberg.StringType, iceberg.BinaryType)  # fixed and uuid are kept whole
_TRUNCATE = re.compile(r"truncate\((\d{1,9})\)", re.ASCII)
_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES, _LAST = 0xD7FF, 0xE000, 0x10FFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """How much is kept about a column: nothing, counts, or bounds, whole (length None) or cut."""

    counts: bool
    bounds: bool
    length: int | None = None


NONE = Mode(counts=False, bounds=False)
COUNTS = Mode(counts=True, bounds=False)
FULL = Mode(counts=True, bounds=True)
DEFAULT = Mode(counts=True, bounds=True, length=16)


def modes(schema: Schema, properties: Mapping[str, str], sort_order: str | None = None) -> dict[int, Mode]:
    """The mode of every column, by field id, as Iceberg Java finds it. Without a default of its own, a wide table keeps
    metrics of its first 100 columns only. Columns of the sort order (Iceberg JSON) have bounds unless a property of
    that very column excludes them. An unknown mode counts as not given."""
    default = _parsed(properties.get(f"{_PREFIX}default"), DEFAULT)
    numbers = list(_primitives(schema.as_struct()))
    by_column = dict.fromkeys(numbers, default)
    if f"{_PREFIX}default" not in properties and len(numbers) > (limit := _inferred(properties)):
        default = NONE
        by_column.update(dict.fromkeys(numbers[limit:], NONE))
    for number in _sorted(sort_order) & by_column.keys():
        by_column[number] = default if default.bounds else DEFAULT
    for number in numbers:
        given = properties.get(f"{_PREFIX}column.{schema.find_column_name(number)}")
        if given is not None:
            by_column[number] = _parsed(given, default)
    return by_column


def _parsed(text: str | None, fallback: Mode) -> Mode:
    """The mode of a text: none, counts, truncate(16) or full; an unknown one is ignored, as in Iceberg."""
    name = "" if text is None else text.lower()
    named = {"none": NONE, "counts": COUNTS, "full": FULL}
    if (match := _TRUNCATE.fullmatch(name)) and int(match[1]) > 0:
        return Mode(counts=True, bounds=True, length=int(match[1]))
    return named.get(name, fallback)


def _inferred(properties: Mapping[str, str]) -> int:
    text = properties.get(f"{_PREFIX}max-inferred-column-defaults", "")
    return int(text) if text.isascii() and text.isdecimal() else _INFERRED


def _sorted(order: str | None) -> set[int]:
    """Columns that a sort order keeps close together, without bucketed ones, whose bounds would be useless."""
    if order is None:
        return set()
    fields = sorting.SortOrder.model_validate_json(order).fields
    return {field.source_id for field in fields if field.transform.preserves_order}


def _primitives(kind: iceberg.IcebergType) -> Iterator[int]:
    """Field ids in the order in which Iceberg counts columns: a struct's own first, then those further inside."""
    fields: Any = getattr(kind, "fields", ())
    if isinstance(kind, iceberg.ListType):
        fields = (kind.element_field,)
    elif isinstance(kind, iceberg.MapType):
        fields = (kind.key_field, kind.value_field)
    yield from (field.field_id for field in fields if field.field_type.is_primitive)
    for field in fields:
        if not field.field_type.is_primitive:
            yield from _primitives(field.field_type)


def lower(kind: iceberg.PrimitiveType, raw: Any, mode: Mode) -> bytes | None:
    """The serialised lower bound for a footer's minimum; None: leave it out."""
    value = _value(kind, raw)
    if value is None:
        return None
    if mode.length is not None and isinstance(kind, _CUT):
        value = value[: mode.length]
    return conversions.to_bytes(kind, value)


def upper(kind: iceberg.PrimitiveType, raw: Any, mode: Mode) -> bytes | None:
    """The serialised upper bound for a footer's maximum; None: leave it out."""
    value = _value(kind, raw)
    if value is None:
        return None
    if mode.length is not None and isinstance(kind, _CUT):
        value = raised_text(value, mode.length) if isinstance(value, str) else raised_bytes(value, mode.length)
    return None if value is None else conversions.to_bytes(kind, value)


def raised_text(text: str, length: int) -> str | None:
    """At most `length` code points that are not below the text; None if there are none."""
    if len(text) <= length:
        return text
    for end in range(length, 0, -1):
        point = ord(text[end - 1])
        if point < _LAST:
            following = _FIRST_AFTER_SURROGATES if point == _LAST_BEFORE_SURROGATES else point + 1
            return text[: end - 1] + chr(following)
    return None


def raised_bytes(data: bytes, length: int) -> bytes | None:
    """At most `length` bytes that are not below the data; None if there are none."""
    if len(data) <= length:
        return data
    kept = data[:length].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _value(kind: iceberg.IcebergType, raw: Any) -> Any:
    """A footer statistic, in its physical form, as a value that Iceberg's serialisation takes."""
    if isinstance(kind, iceberg.StringType):
        try:
            return raw.decode("utf-8") if isinstance(raw, bytes) else raw
        except UnicodeDecodeError:
            return None
    if isinstance(kind, iceberg.DecimalType):
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale))
    if isinstance(raw, float) and math.isnan(raw):
        return None
    return raw
