"""The column chunks of a footer, each asked once for what several parts of the reader want to know, because asking
pyarrow takes time. Metadata as pyarrow has it comes in, plain values go out."""

from __future__ import annotations

from typing import Any, NamedTuple


class StoredColumn(NamedTuple):
    """A column of a row group. Offsets are 0 where there is no such page."""

    values: int
    uncompressed: int  # bytes
    compressed: int
    data_page: int  # offset of the first one
    dictionary_page: int
    has_dictionary: bool
    raw: Any

    @property
    def path(self) -> str:
        """The names of the column and of those around it."""
        return str(self.raw.path_in_schema)

    @property
    def encodings(self) -> tuple[str, ...]:
        """The names of the encodings of pages and levels."""
        encodings: tuple[str, ...] = self.raw.encodings
        return encodings


class StoredRowGroup(NamedTuple):
    """A row group."""

    rows: int
    columns: tuple[StoredColumn, ...]

    @property
    def compressed(self) -> int:
        """Bytes of all columns."""
        return sum(column.compressed for column in self.columns)


def of_file(metadata: Any) -> list[StoredRowGroup]:
    """All row groups of a file."""
    return [of_group(metadata.row_group(index)) for index in range(metadata.num_row_groups)]


def of_group(group: Any) -> StoredRowGroup:
    """A row group."""
    return StoredRowGroup(group.num_rows, tuple(_column(group.column(index)) for index in range(group.num_columns)))


def _column(column: Any) -> StoredColumn:
    has_dictionary = column.has_dictionary_page
    return StoredColumn(
        column.num_values,
        column.total_uncompressed_size,
        column.total_compressed_size,
        column.data_page_offset,
        (column.dictionary_page_offset or 0) if has_dictionary else 0,
        has_dictionary,
        column,
    )
