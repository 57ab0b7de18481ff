"""The numbers that Parquet's format gives to the fields of its structs, and how a field is taken from a struct."""

from __future__ import annotations

from typing import Any

from iceberg_compaction.formats.parquet import thrift


class File:
    VERSION, SCHEMA, ROWS, ROW_GROUPS, KEY_VALUES, CREATED_BY, COLUMN_ORDERS, ENCRYPTION, SIGNING_KEY = range(1, 10)


class Element:
    TYPE, TYPE_LENGTH, REPETITION, NAME, CHILDREN, CONVERTED, SCALE, PRECISION, FIELD_ID, LOGICAL = range(1, 11)


class RowGroup:
    COLUMNS, UNCOMPRESSED, ROWS, SORTING, FILE_OFFSET, COMPRESSED, ORDINAL = range(1, 8)


class Sorting:
    COLUMN, DESCENDING, NULLS_FIRST = range(1, 4)


class Column:
    FILE_PATH, FILE_OFFSET, META = range(1, 4)
    OFFSET_INDEX, OFFSET_INDEX_LENGTH, COLUMN_INDEX, COLUMN_INDEX_LENGTH, CRYPTO, ENCRYPTED = range(4, 10)


class Meta:
    TYPE, ENCODINGS, PATH, CODEC, VALUES, UNCOMPRESSED, COMPRESSED, KEY_VALUES = range(1, 9)
    DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, STATISTICS, ENCODING_STATS, BLOOM, BLOOM_LENGTH = range(9, 16)


class Statistics:
    OLD_MAX, OLD_MIN, NULLS, DISTINCT, MAX, MIN, MAX_EXACT, MIN_EXACT = range(1, 9)


class Bloom:
    BYTES = 1


_INTEGERS = (thrift.I16, thrift.I32, thrift.I64)


def integer(struct: thrift.Struct, number: int, default: int | None = None) -> int:
    """A number that must be there, unless there is a default."""
    found = _field(struct, number, _INTEGERS)
    if found is None:
        found = default
    if found is None:
        raise ValueError(f"the footer lacks a number that it must have (field {number})")
    return int(found)


def optional(struct: thrift.Struct, number: int) -> int | None:
    """A number that may be missing."""
    found: int | None = _field(struct, number, _INTEGERS)
    return found


def text(struct: thrift.Struct, number: int) -> str | None:
    """A text that may be missing."""
    found = _field(struct, number, (thrift.BINARY,))
    return None if found is None else found.decode("utf-8", "replace")


def binary(struct: thrift.Struct, number: int) -> bytes | None:
    """Bytes that may be missing."""
    found: bytes | None = _field(struct, number, (thrift.BINARY,))
    return found


def child(struct: thrift.Struct, number: int) -> thrift.Struct | None:
    """A struct that may be missing."""
    found: thrift.Struct | None = _field(struct, number, (thrift.STRUCT,))
    return found


def children(struct: thrift.Struct, number: int) -> list[thrift.Struct]:
    """A list of structs; a missing one is empty."""
    found = _field(struct, number, (thrift.LIST,))
    if found is None or not found[1]:
        return []
    if found[0] != thrift.STRUCT:
        raise ValueError(f"the footer has a list of the wrong type (field {number})")
    return list(found[1])


def _field(struct: thrift.Struct, number: int, kinds: tuple[int, ...]) -> Any:
    kind, value = struct.get(number, (0, None))
    if value is not None and kind not in kinds:
        raise ValueError(f"the footer has a value of the wrong type (field {number})")
    return value
