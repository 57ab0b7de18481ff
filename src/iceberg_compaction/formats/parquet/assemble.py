"""Builds the footer of a new file from the footers of the files that its row groups come from, with new names and new
offsets. Fields without a meaning here are kept; fields that may be wrong in the new file are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iceberg_compaction import version
from iceberg_compaction.formats.parquet import format_fields, parquet_footer, thrift

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.formats.parquet import byte_ranges

# The writer of files put together from row groups. Readers handle the faults of certain writers by the writer's name.
# Pages of such writers are not taken over (see RawFooter.why_not); all other pages mean the same under any name.
CREATED_BY = f"iceberg-compaction version {version.__version__}"
_ORDINALS = 1 << 15  # a row group's number is 16 bits wide; later ones go without
_INDEXES = (
    format_fields.Column.OFFSET_INDEX,
    format_fields.Column.OFFSET_INDEX_LENGTH,
    format_fields.Column.COLUMN_INDEX,
    format_fields.Column.COLUMN_INDEX_LENGTH,
)


class FooterColumn(NamedTuple):
    """A ColumnChunk of the new footer, as yet without indexes, and the span of its bytes."""

    raw: thrift.Struct
    span: byte_ranges.Span
    uncompressed: int


def column(chunk: parquet_footer.Chunk, leaf: parquet_footer.Leaf, shift: int) -> FooterColumn:
    """The chunk as a column of the new file, `shift` bytes later than in the old one."""
    meta = {
        number: field
        for number, field in chunk.meta.items()
        if number not in (format_fields.Meta.INDEX_PAGE, format_fields.Meta.BLOOM, format_fields.Meta.BLOOM_LENGTH)
    }
    meta[format_fields.Meta.PATH] = (thrift.LIST, (thrift.BINARY, [name.encode() for name in leaf.path]))
    first = format_fields.integer(meta, format_fields.Meta.DATA_PAGE)
    if first:  # there is none where there are no values
        meta[format_fields.Meta.DATA_PAGE] = (thrift.I64, first + shift)
    meta.pop(format_fields.Meta.DICTIONARY_PAGE, None)
    if chunk.start != first:
        meta[format_fields.Meta.DICTIONARY_PAGE] = (thrift.I64, chunk.start + shift)
    if chunk.statistics:
        # The older bounds are not in the order that the file declares.
        old = (format_fields.Statistics.OLD_MIN, format_fields.Statistics.OLD_MAX)
        kept = {number: field for number, field in chunk.statistics.items() if number not in old}
        meta[format_fields.Meta.STATISTICS] = (thrift.STRUCT, kept)
    raw = {number: field for number, field in chunk.raw.items() if number not in _INDEXES}
    raw[format_fields.Column.FILE_OFFSET] = (thrift.I64, 0)  # of metadata outside of the footer, of which there is none
    raw[format_fields.Column.META] = (thrift.STRUCT, meta)
    return FooterColumn(raw, (chunk.start + shift, chunk.length), chunk.uncompressed)


def row_group(
    group: parquet_footer.Group,
    columns: Sequence[FooterColumn],
    source_columns: Sequence[int | None],
    ordinal: int,
    *,
    sorting: list[thrift.Struct] | None = None,
) -> thrift.Struct:
    """The row group of the new footer. `source_columns` are the numbers of its columns in the old file; None: a column
    is new. `sorting`: its sorting columns, unless the old row group says them."""
    raw = dict(group.raw)
    raw[format_fields.RowGroup.COLUMNS] = (thrift.LIST, (thrift.STRUCT, [each.raw for each in columns]))
    raw[format_fields.RowGroup.UNCOMPRESSED] = (thrift.I64, sum(each.uncompressed for each in columns))
    raw[format_fields.RowGroup.COMPRESSED] = (thrift.I64, sum(each.span[1] for each in columns))
    raw[format_fields.RowGroup.FILE_OFFSET] = (thrift.I64, min(each.span[0] for each in columns))
    raw.pop(format_fields.RowGroup.ORDINAL, None)
    if ordinal < _ORDINALS:
        raw[format_fields.RowGroup.ORDINAL] = (thrift.I16, ordinal)
    raw.pop(format_fields.RowGroup.SORTING, None)
    if sorting is None:
        sorting = format_fields.children(group.raw, format_fields.RowGroup.SORTING)
    before = [format_fields.integer(each, format_fields.Sorting.COLUMN) for each in sorting]
    if before and all(number in source_columns for number in before):
        moved = [
            {**each, format_fields.Sorting.COLUMN: (thrift.I32, source_columns.index(number))}
            for each, number in zip(sorting, before, strict=True)
        ]
        raw[format_fields.RowGroup.SORTING] = (thrift.LIST, (thrift.STRUCT, moved))
    return raw


def joined_row_group(rows: int, columns: Sequence[FooterColumn], ordinal: int) -> thrift.Struct:
    """The row group of the new footer that is made of several old ones. Their order would not be true of it."""
    raw: thrift.Struct = {
        format_fields.RowGroup.COLUMNS: (thrift.LIST, (thrift.STRUCT, [each.raw for each in columns])),
        format_fields.RowGroup.UNCOMPRESSED: (thrift.I64, sum(each.uncompressed for each in columns)),
        format_fields.RowGroup.ROWS: (thrift.I64, rows),
        format_fields.RowGroup.FILE_OFFSET: (thrift.I64, min(each.span[0] for each in columns)),
        format_fields.RowGroup.COMPRESSED: (thrift.I64, sum(each.span[1] for each in columns)),
    }
    if ordinal < _ORDINALS:
        raw[format_fields.RowGroup.ORDINAL] = (thrift.I16, ordinal)
    return raw


def end(template: parquet_footer.RawFooter, groups: list[thrift.Struct]) -> bytes:
    """The footer, its length and the magic bytes: the end of the file."""
    raw = {
        number: template.raw[number]
        for number in (format_fields.File.VERSION, format_fields.File.SCHEMA, format_fields.File.COLUMN_ORDERS)
    }
    raw[format_fields.File.ROWS] = (
        thrift.I64,
        sum(format_fields.integer(each, format_fields.RowGroup.ROWS) for each in groups),
    )
    raw[format_fields.File.ROW_GROUPS] = (thrift.LIST, (thrift.STRUCT, groups))
    raw[format_fields.File.CREATED_BY] = (thrift.BINARY, CREATED_BY.encode())
    footer = thrift.compose(raw)
    return footer + len(footer).to_bytes(4, "little") + parquet_footer.MAGIC
