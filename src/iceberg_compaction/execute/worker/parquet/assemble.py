"""What the footer of a new file says of row groups that other files had before: the same as theirs did, under the new
names, at the new places. What is not known here is kept, what may be wrong now is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iceberg_compaction import version
from iceberg_compaction.execute.worker.parquet import fields, footer, thrift

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.execute.worker.parquet import ranges

# This is what puts row groups together. Readers that know the faults of some writers by their names find none of those
# in them: pages of such writers are not taken over (see RawFooter.why_not), all others mean the same whoever is named.
CREATED_BY = f"iceberg-compaction version {version.__version__}"
_ORDINALS = 1 << 15  # a row group's number is 16 bits wide; later ones go without
_INDEXES = (
    fields.Column.OFFSET_INDEX,
    fields.Column.OFFSET_INDEX_LENGTH,
    fields.Column.COLUMN_INDEX,
    fields.Column.COLUMN_INDEX_LENGTH,
)


class Column(NamedTuple):
    """A ColumnChunk of the new footer, as yet without indexes, and where its bytes are."""

    raw: thrift.Struct
    span: ranges.Span
    uncompressed: int


def column(chunk: footer.Chunk, leaf: footer.Leaf, shift: int) -> Column:
    """The chunk as a column of the new file, `shift` bytes later than where it was."""
    meta = {
        number: field
        for number, field in chunk.meta.items()
        if number not in (fields.Meta.INDEX_PAGE, fields.Meta.BLOOM, fields.Meta.BLOOM_LENGTH)
    }
    meta[fields.Meta.PATH] = (thrift.LIST, (thrift.BINARY, [name.encode() for name in leaf.path]))
    first = fields.integer(meta, fields.Meta.DATA_PAGE)
    if first:  # there is none where there are no values
        meta[fields.Meta.DATA_PAGE] = (thrift.I64, first + shift)
    meta.pop(fields.Meta.DICTIONARY_PAGE, None)
    if chunk.start != first:
        meta[fields.Meta.DICTIONARY_PAGE] = (thrift.I64, chunk.start + shift)
    if chunk.statistics:
        # The older bounds are not in the order that the file declares.
        old = (fields.Statistics.OLD_MIN, fields.Statistics.OLD_MAX)
        kept = {number: field for number, field in chunk.statistics.items() if number not in old}
        meta[fields.Meta.STATISTICS] = (thrift.STRUCT, kept)
    raw = {number: field for number, field in chunk.raw.items() if number not in _INDEXES}
    raw[fields.Column.FILE_OFFSET] = (thrift.I64, 0)  # of metadata outside of the footer, of which there is none
    raw[fields.Column.META] = (thrift.STRUCT, meta)
    return Column(raw, (chunk.start + shift, chunk.length), chunk.uncompressed)


def row_group(
    group: footer.Group, columns: Sequence[Column], places: Sequence[int | None], ordinal: int
) -> thrift.Struct:
    """The row group of the new footer; `places` are the numbers that its columns had before, None if they are new."""
    raw = dict(group.raw)
    raw[fields.RowGroup.COLUMNS] = (thrift.LIST, (thrift.STRUCT, [each.raw for each in columns]))
    raw[fields.RowGroup.UNCOMPRESSED] = (thrift.I64, sum(each.uncompressed for each in columns))
    raw[fields.RowGroup.COMPRESSED] = (thrift.I64, sum(each.span[1] for each in columns))
    raw[fields.RowGroup.FILE_OFFSET] = (thrift.I64, min(each.span[0] for each in columns))
    raw.pop(fields.RowGroup.ORDINAL, None)
    if ordinal < _ORDINALS:
        raw[fields.RowGroup.ORDINAL] = (thrift.I16, ordinal)
    raw.pop(fields.RowGroup.SORTING, None)
    sorting = fields.children(group.raw, fields.RowGroup.SORTING)
    before = [fields.integer(each, fields.Sorting.COLUMN) for each in sorting]
    if before and all(number in places for number in before):
        moved = [
            {**each, fields.Sorting.COLUMN: (thrift.I32, places.index(number))}
            for each, number in zip(sorting, before, strict=True)
        ]
        raw[fields.RowGroup.SORTING] = (thrift.LIST, (thrift.STRUCT, moved))
    return raw


def end(template: footer.RawFooter, groups: list[thrift.Struct]) -> bytes:
    """The footer and what follows it, to the end of the file."""
    raw = {
        number: template.raw[number] for number in (fields.File.VERSION, fields.File.SCHEMA, fields.File.COLUMN_ORDERS)
    }
    raw[fields.File.ROWS] = (thrift.I64, sum(fields.integer(each, fields.RowGroup.ROWS) for each in groups))
    raw[fields.File.ROW_GROUPS] = (thrift.LIST, (thrift.STRUCT, groups))
    raw[fields.File.CREATED_BY] = (thrift.BINARY, CREATED_BY.encode())
    found = thrift.compose(raw)
    return found + len(found).to_bytes(4, "little") + footer.MAGIC
