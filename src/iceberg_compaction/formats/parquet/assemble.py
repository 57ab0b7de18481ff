"""What the footer of a new file says of row groups that other files had before: the same as theirs did, under the new
names, at the new places. What is not known here is kept, what may be wrong now is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iceberg_compaction import version
from iceberg_compaction.formats.parquet import format_fields, parquet_footer, thrift

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.formats.parquet import byte_ranges

# This is what puts row groups together. Readers that know the faults of some writers by their names find none of those
# in them: pages of such writers are not taken over (see RawFooter.why_not), all others mean the same whoever is named.
CREATED_BY = f"iceberg-compaction version {version.__version__}"
_ORDINALS = 1 << 15  # a row group's number is 16 bits wide; later ones go without
_INDEXES = (
    format_fields.Column.OFFSET_INDEX,
    format_fields.Column.OFFSET_INDEX_LENGTH,
    format_fields.Column.COLUMN_INDEX,
    format_fields.Column.COLUMN_INDEX_LENGTH,
)


class FooterColumn(NamedTuple):
    """A ColumnChunk of the new footer, as yet without indexes, and where its bytes are."""

    raw: thrift.Struct
    span: byte_ranges.Span
    uncompressed: int


def column(chunk: parquet_footer.Chunk, leaf: parquet_footer.Leaf, shift: int) -> FooterColumn:
    """The chunk as a column of the new file, `shift` bytes later than where it was."""
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
    group: parquet_footer.Group, columns: Sequence[FooterColumn], places: Sequence[int | None], ordinal: int
) -> thrift.Struct:
    """The row group of the new footer; `places` are the numbers that its columns had before, None if they are new."""
    raw = dict(group.raw)
    raw[format_fields.RowGroup.COLUMNS] = (thrift.LIST, (thrift.STRUCT, [each.raw for each in columns]))
    raw[format_fields.RowGroup.UNCOMPRESSED] = (thrift.I64, sum(each.uncompressed for each in columns))
    raw[format_fields.RowGroup.COMPRESSED] = (thrift.I64, sum(each.span[1] for each in columns))
    raw[format_fields.RowGroup.FILE_OFFSET] = (thrift.I64, min(each.span[0] for each in columns))
    raw.pop(format_fields.RowGroup.ORDINAL, None)
    if ordinal < _ORDINALS:
        raw[format_fields.RowGroup.ORDINAL] = (thrift.I16, ordinal)
    raw.pop(format_fields.RowGroup.SORTING, None)
    sorting = format_fields.children(group.raw, format_fields.RowGroup.SORTING)
    before = [format_fields.integer(each, format_fields.Sorting.COLUMN) for each in sorting]
    if before and all(number in places for number in before):
        moved = [
            {**each, format_fields.Sorting.COLUMN: (thrift.I32, places.index(number))}
            for each, number in zip(sorting, before, strict=True)
        ]
        raw[format_fields.RowGroup.SORTING] = (thrift.LIST, (thrift.STRUCT, moved))
    return raw


def end(template: parquet_footer.RawFooter, groups: list[thrift.Struct]) -> bytes:
    """The footer and what follows it, to the end of the file."""
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
    found = thrift.compose(raw)
    return found + len(found).to_bytes(4, "little") + parquet_footer.MAGIC
