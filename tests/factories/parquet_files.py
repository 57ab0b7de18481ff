"""Parquet files looked at byte by byte, and files as other writers make them and pyarrow would not: footers are taken
apart, changed and put back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iceberg_compaction.formats.parquet import thrift

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Field numbers of Parquet's thrift structs
SCHEMA, ROW_GROUPS, COLUMN_ORDERS = 2, 4, 7
TYPE_LENGTH, REPETITION, NAME, CHILDREN, CONVERTED, SCALE, PRECISION, FIELD_ID, LOGICAL = 2, 3, 4, 5, 6, 7, 8, 9, 10
COLUMNS, META, OFFSET_INDEX, COLUMN_INDEX = 1, 3, 4, 6
PATH, NUM_VALUES, DATA_PAGE, DICTIONARY_PAGE, STATISTICS = 3, 5, 9, 11, 12
REPEATED = 2
DICTIONARY, DATA_V1, DATA_V2 = 2, 0, 3


def footer(path: Path | str) -> thrift.Struct:
    """The footer of a file."""
    data = _bytes(path)
    return thrift.parse(data, len(data) - 8 - _length(data))[0]


def change_footer(path: Path, change: Callable[[thrift.Struct], None]) -> Path:
    """Put a changed footer in place of the one that a file has."""
    data = _bytes(path)
    found = footer(path)
    change(found)
    text = thrift.compose(found)
    body = data[: len(data) - 8 - _length(data)]
    path.write_bytes(body + text + len(text).to_bytes(4, "little") + b"PAR1")
    return path


def elements(found: thrift.Struct) -> list[thrift.Struct]:
    """The schema elements of a footer, depth first, the root first of all; a list that may be changed."""
    return found[SCHEMA][1][1]  # type: ignore[no-any-return]


def chunks(found: thrift.Struct) -> list[list[thrift.Struct]]:
    """The column chunks of every row group."""
    return [group[COLUMNS][1][1] for group in found[ROW_GROUPS][1][1]]


def pages(path: Path | str, column: int, group: int = 0) -> list[tuple[int, int, int]]:
    """The pages of a column chunk: kind, number of values, bytes before compression."""
    data = _bytes(path)
    meta = chunks(footer(path))[group][column][META][1]
    at = min(meta[kind][1] for kind in (DATA_PAGE, DICTIONARY_PAGE) if kind in meta)
    left, seen = meta[NUM_VALUES][1], []
    while left:
        head: Any
        head, end = thrift.parse(data, at)
        kind = head[1][1]
        values = head[{DATA_V1: 5, DICTIONARY: 7, DATA_V2: 8}[kind]][1][1][1]
        seen.append((kind, values, head[2][1]))
        left -= 0 if kind == DICTIONARY else values
        at = end + head[3][1]
    return seen


def two_level_list(path: Path, name: str) -> Path:
    """Make a list of required elements one of two levels, as old writers laid them out."""

    def change(found: thrift.Struct) -> None:
        every = elements(found)
        place = next(at for at, each in enumerate(every) if each[NAME][1] == name.encode())
        del every[place + 1]  # the group between the list and its elements
        every[place + 1][REPETITION] = (thrift.I32, REPEATED)
        every[place + 1][NAME] = (thrift.BINARY, b"array")
        for group in chunks(found):
            for chunk in group:
                meta = chunk[META][1]
                kind, parts = meta[PATH][1]
                if parts[0] == name.encode():
                    meta[PATH] = (thrift.LIST, (kind, [parts[0], b"array", *parts[3:]]))

    return change_footer(path, change)


def decimal_in_bytes(path: Path, name: str, precision: int, scale: int) -> Path:
    """Call a binary column a decimal, as parquet-avro and others write them."""

    def change(found: thrift.Struct) -> None:
        element = next(each for each in elements(found) if each[NAME][1] == name.encode())
        element[CONVERTED] = (thrift.I32, 5)
        element[SCALE], element[PRECISION] = (thrift.I32, scale), (thrift.I32, precision)
        logical = {5: (thrift.STRUCT, {1: (thrift.I32, scale), 2: (thrift.I32, precision)})}
        element[LOGICAL] = (thrift.STRUCT, logical)
        for group in chunks(found):
            for chunk in group:
                chunk[META][1].pop(STATISTICS, None)  # they were taken as bytes

    return change_footer(path, change)


def without_annotation(path: Path, name: str) -> Path:
    """Text that a file calls plain bytes, as Impala and others write it."""

    def change(found: thrift.Struct) -> None:
        element = next(each for each in elements(found) if each[NAME][1] == name.encode())
        element.pop(CONVERTED, None)
        element.pop(LOGICAL, None)

    return change_footer(path, change)


def _bytes(path: Path | str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def _length(data: bytes) -> int:
    return int.from_bytes(data[-8:-4], "little")
