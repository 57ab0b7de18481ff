"""The columns of a file, and the layout of each one's pages. Two columns of the same layout may exchange their bytes:
their values, definition levels, repetition levels and bounds mean the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from iceberg_compaction.formats.parquet import format_fields, thrift

if TYPE_CHECKING:
    from collections.abc import Iterator

PHYSICAL = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_LOGICAL = {1: "STRING", 4: "ENUM", 6: "DATE", 11: "UNKNOWN", 12: "JSON", 13: "BSON", 14: "UUID", 15: "FLOAT16"}
_DECIMAL, _TIME, _TIMESTAMP, _INTEGER = 5, 7, 8, 10
_UNITS = {1: "MILLIS", 2: "MICROS", 3: "NANOS"}
# The older converted types as logical types; times that do not mention zones are in UTC.
_CONVERTED: dict[int, tuple[Any, ...]] = {
    0: ("STRING",),
    4: ("ENUM",),
    6: ("DATE",),
    7: ("TIME", True, "MILLIS"),
    8: ("TIME", True, "MICROS"),
    9: ("TIMESTAMP", True, "MILLIS"),
    10: ("TIMESTAMP", True, "MICROS"),
    **{11 + step: ("INT", bits, False) for step, bits in enumerate((8, 16, 32, 64))},
    **{15 + step: ("INT", bits, True) for step, bits in enumerate((8, 16, 32, 64))},
    19: ("JSON",),
    20: ("BSON",),
    21: ("INTERVAL",),
}
_CONVERTED_DECIMAL = 5
_DEEPEST = 100
_PLAIN = {("INT32", ("INT", 32, True)), ("INT64", ("INT", 64, True))}  # the same as no annotation


class Layout(NamedTuple):
    """The canonical description of a column's pages."""

    physical: str
    length: int  # of fixed-size values, else 0
    annotation: tuple[Any, ...]  # a logical type with its parameters; () is none
    repetitions: tuple[int, ...]  # of every element from the top down: 0 required, 1 optional, 2 repeated


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A column: its names and field ids from the top down, and the layout of its pages."""

    path: tuple[str, ...]
    ids: tuple[int | None, ...]
    layout: Layout

    @property
    def field_id(self) -> int | None:
        return self.ids[-1]


def leaves(elements: list[thrift.Struct]) -> tuple[Leaf, ...]:
    """The columns of a schema, given its elements depth first, the root first of all."""
    columns: list[Leaf] = []
    rest = iter(elements)
    if (root := next(rest, None)) is not None:
        for _ in range(format_fields.integer(root, format_fields.Element.CHILDREN, 0)):
            _walk(rest, (), (), (), columns)
    return tuple(columns)


def _walk(
    rest: Iterator[thrift.Struct],
    path: tuple[str, ...],
    ids: tuple[int | None, ...],
    repetitions: tuple[int, ...],
    columns: list[Leaf],
) -> None:
    if (element := next(rest, None)) is None or len(path) > _DEEPEST:
        raise ValueError("its schema has no right number of elements")
    number = format_fields.optional(element, format_fields.Element.FIELD_ID)
    path = (*path, format_fields.text(element, format_fields.Element.NAME) or "")
    ids = (*ids, None if number is None or number < 0 else number)
    repetitions = (*repetitions, format_fields.integer(element, format_fields.Element.REPETITION))
    count = format_fields.integer(element, format_fields.Element.CHILDREN, 0)
    if not count and format_fields.Element.TYPE in element:
        columns.append(Leaf(path=path, ids=ids, layout=_layout(element, repetitions)))
    for _ in range(count):
        _walk(rest, path, ids, repetitions, columns)


def _layout(element: thrift.Struct, repetitions: tuple[int, ...]) -> Layout:
    number = format_fields.integer(element, format_fields.Element.TYPE)
    if not 0 <= number < len(PHYSICAL):
        raise ValueError(f"the schema has an unknown physical type {number}")
    physical = PHYSICAL[number]
    length = (
        format_fields.integer(element, format_fields.Element.TYPE_LENGTH) if physical == "FIXED_LEN_BYTE_ARRAY" else 0
    )
    annotation = _annotation(element)
    return Layout(physical, length, () if (physical, annotation) in _PLAIN else annotation, repetitions)


def _annotation(element: thrift.Struct) -> tuple[Any, ...]:
    if logical := format_fields.child(element, format_fields.Element.LOGICAL):
        return _logical(logical)
    converted = format_fields.optional(element, format_fields.Element.CONVERTED)
    if converted is None:
        return ()
    if converted == _CONVERTED_DECIMAL:
        scale = format_fields.integer(element, format_fields.Element.SCALE, 0)
        return "DECIMAL", format_fields.integer(element, format_fields.Element.PRECISION), scale
    return _CONVERTED.get(converted, ("CONVERTED", converted))


def _logical(union: thrift.Struct) -> tuple[Any, ...]:
    number = min(union)
    body = format_fields.child(union, number) or {}
    if number in _LOGICAL:
        return (_LOGICAL[number],)
    if number == _DECIMAL:
        return "DECIMAL", format_fields.integer(body, 2), format_fields.integer(body, 1, 0)
    if number in (_TIME, _TIMESTAMP):
        unit = min(format_fields.child(body, 2) or [0])
        return "TIME" if number == _TIME else "TIMESTAMP", body.get(1, (0, None))[1], _UNITS.get(unit, unit)
    if number == _INTEGER:
        return "INT", body.get(1, (0, None))[1], body.get(2, (0, None))[1]
    return "LOGICAL", thrift.compose(union)  # comparable at least
