"""The memory that the rows of a file take once they are decoded, by its footer: texts differ in length, few bytes of a
dictionary may stand for many. Columns and row groups come in, bounds of bytes go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.execute.worker import arrow_schemas, budgets
    from iceberg_compaction.execute.worker.input import stored_columns

INDEX = 4  # bytes per value that a column takes at most if all its pages refer to its dictionary
_DENSE = 16  # times as large as on disk: from here on a column may be made to fill memory, so its pages are inspected
_INSPECTED = 64 * 2**20  # uncompressed bytes of a column; smaller ones do no harm
_PAGE = 2**20  # bytes of a page, by the defaults of all writers
_CHECKED = 1024  # values that a writer takes before it checks the size of a page
_DELTAS = frozenset(("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"))  # pyarrow makes no dictionaries of them
_COPIES = 3  # of a dictionary: its page, its entries, and those that a column in memory refers to


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """A column of a row group whose memory cannot be known from the footer alone."""

    group: int
    path: str
    values: int
    start: int
    length: int
    uncompressed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The memory that the rows of a file take, by its footer."""

    row_bytes: tuple[float, ...]  # decoded, by row group; texts that are read as dictionaries excepted
    coded: frozenset[str]  # paths of texts that are read as dictionaries, since few bytes stand for many
    unsure: tuple[ColumnChunk, ...]  # texts that perhaps should be
    dense: tuple[ColumnChunk, ...]  # columns that decompress to so much that single pages may be too large
    prefixed: frozenset[str]  # texts that are stored as their difference from the text before
    deltas: tuple[frozenset[str], ...]  # texts with lengths or differences, by row group: never read as dictionaries
    repeated: frozenset[str]  # texts that have a dictionary, be it for a part of their values only
    open_bytes: tuple[int, ...]  # of pages and dictionaries while rows of a row group are decoded
    open_column_bytes: tuple[int, ...]  # the same of the largest column


def needs(
    leaves: Sequence[arrow_schemas.ArrowLeaf], groups: Sequence[stored_columns.StoredRowGroup], limits: budgets.Budgets
) -> Needs:
    """The needs of a file with these columns and row groups."""
    row_bytes, texts, dense = [], _Texts(limits), []
    pages: list[list[int]] = []
    deltas: list[frozenset[str]] = []
    for number, group in enumerate(groups):
        total = 0
        pages.append([0])
        prefixes: set[str] = set()
        for leaf, column in zip(leaves, group.columns, strict=False):
            values, stored = column.values, column.uncompressed
            if not values:
                continue
            pages[-1].append(open_bytes(column))
            if leaf.width:
                total += max(stored, values * leaf.width)
            else:
                total += stored + INDEX * values
                prefixes |= texts.add(number, column)
            if stored > _INSPECTED and stored > _DENSE * column.compressed:
                dense.append(_chunk(number, column))
        row_bytes.append(total / max(1, group.rows))
        deltas.append(frozenset(prefixes))
    return Needs(
        row_bytes=tuple(row_bytes),
        coded=frozenset(texts.coded),
        unsure=tuple(chunk for chunk in texts.unsure if chunk.path not in texts.coded),
        dense=tuple(dense),
        prefixed=frozenset(texts.prefixed),
        deltas=tuple(deltas),
        repeated=frozenset(texts.repeated),
        open_bytes=tuple(map(sum, pages)),
        open_column_bytes=tuple(map(max, pages)),
    )


class _Texts:
    """The texts of a file, each by the way that it is stored."""

    def __init__(self, limits: budgets.Budgets) -> None:
        self._limits = limits
        self.coded: set[str] = set()
        self.unsure: list[ColumnChunk] = []
        self.prefixed: set[str] = set()
        self.repeated: set[str] = set()

    def add(self, group: int, column: stored_columns.StoredColumn) -> set[str]:
        """Takes a column of a row group, and returns its path if it has lengths or differences."""
        path, encodings = column.path, column.encodings
        has_dictionary = column.has_dictionary or any("DICTIONARY" in name for name in encodings)  # old writers
        if has_dictionary:
            self.repeated.add(path)
        if has_dictionary and column.uncompressed <= INDEX * column.values:
            self.coded.add(path)
        elif has_dictionary and _may_be_coded(column, self._limits):
            self.unsure.append(_chunk(group, column))
        if "DELTA_BYTE_ARRAY" in encodings:
            self.prefixed.add(path)
        return set() if _DELTAS.isdisjoint(encodings) else {path}


def together(files: Sequence[Needs]) -> Needs | None:
    """The needs of a file that has the row groups of all these in turn; None: their rows must be decoded file by file.
    Whatever has a dictionary is read as one, because few bytes of each of many files would stand for many."""
    repeated = frozenset[str]().union(*(file.repeated for file in files))
    if any("." in path for path in repeated) or not all(_is_plain(file) for file in files):
        return None
    return Needs(
        row_bytes=tuple(each for file in files for each in file.row_bytes),
        coded=repeated,
        unsure=(),
        dense=(),
        prefixed=frozenset(),
        deltas=tuple(each for file in files for each in file.deltas),
        repeated=repeated,
        open_bytes=tuple(each for file in files for each in file.open_bytes),
        open_column_bytes=tuple(each for file in files for each in file.open_column_bytes),
    )


def _is_plain(file: Needs) -> bool:
    """Whether the footer tells all about the memory of a file's rows, dictionaries apart."""
    return not (file.dense or file.prefixed or any(file.deltas))


def open_bytes(column: stored_columns.StoredColumn) -> int:
    """Bytes of a column's open page, as stored and decompressed, and of its dictionary."""
    stored, packed, dictionary = column.uncompressed, 1.0, 0
    if stored > column.compressed:
        packed = column.compressed / stored
    page = min(stored, max(_PAGE, _CHECKED * stored // column.values)) if stored > _PAGE else stored
    if column.dictionary_page:
        dictionary = min(stored, max(0, int((column.data_page - column.dictionary_page) / max(packed, 0.05))))
    return int(page * (1 + packed)) + _COPIES * dictionary


def _chunk(group: int, column: stored_columns.StoredColumn) -> ColumnChunk:
    return ColumnChunk(
        group=group,
        path=column.path,
        values=column.values,
        start=min(column.data_page, column.dictionary_page or column.data_page),
        length=column.compressed,
        uncompressed=column.uncompressed,
    )


def _may_be_coded(column: stored_columns.StoredColumn, limits: budgets.Budgets) -> bool:
    """Whether all values may be in the dictionary, and much larger than it. Where a writer gave its dictionary up,
    reading values as a dictionary would cost more than it saves."""
    if column.values * column.uncompressed <= limits.batch_bytes:
        return False
    dictionary = column.data_page - column.dictionary_page if column.dictionary_page else 0
    return column.compressed - dictionary <= INDEX * column.values
