"""The numbers of the fields in Parquet's structs, and functions that take a field from a struct."""

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


class Page:
    TYPE, UNCOMPRESSED, COMPRESSED, CRC, DATA, INDEX, DICTIONARY, DATA_2 = range(1, 9)


class Bloom:
    BYTES = 1


_INTEGERS = (thrift.I16, thrift.I32, thrift.I64)


def integer(struct: thrift.Struct, number: int, default: int | None = None) -> int:
    """A number, or the default. Raises ValueError if there is neither."""
    value = _field(struct, number, _INTEGERS)
    if value is None:
        value = default
    if value is None:
        raise ValueError(f"the footer lacks a number that it must have (field {number})")
    return int(value)


def optional(struct: thrift.Struct, number: int) -> int | None:
    """A number that may be missing."""
    value: int | None = _field(struct, number, _INTEGERS)
    return value


def text(struct: thrift.Struct, number: int) -> str | None:
    """A text that may be missing."""
    value = _field(struct, number, (thrift.BINARY,))
    return None if value is None else value.decode("utf-8", "replace")


def binary(struct: thrift.Struct, number: int) -> bytes | None:
    """Bytes that may be missing."""
    value: bytes | None = _field(struct, number, (thrift.BINARY,))
    return value


def child(struct: thrift.Struct, number: int) -> thrift.Struct | None:
    """A struct that may be missing."""
    value: thrift.Struct | None = _field(struct, number, (thrift.STRUCT,))
    return value


def children(struct: thrift.Struct, number: int) -> list[thrift.Struct]:
    """A list of structs; empty if it is missing."""
    value = _field(struct, number, (thrift.LIST,))
    if value is None or not value[1]:
        return []
    if value[0] != thrift.STRUCT:
        raise ValueError(f"the footer has a list of the wrong type (field {number})")
    return list(value[1])


def _field(struct: thrift.Struct, number: int, kinds: tuple[int, ...]) -> Any:
    kind, value = struct.get(number, (0, None))
    if value is not None and kind not in kinds:
        raise ValueError(f"the footer has a value of the wrong type (field {number})")
    return value
