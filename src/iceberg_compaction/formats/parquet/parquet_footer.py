"""The footer of a Parquet file as values, without loss: the span of each column of each row group, and the layout of
its pages. A path comes in, a RawFooter goes out."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iceberg_compaction.formats.parquet import format_fields, page_layout, thrift
from iceberg_compaction.storage import passing_faults

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

MAGIC = b"PAR1"
Leaf = page_layout.Leaf
_ENCRYPTED_MAGIC = b"PARE"
_TAIL = 64 * 2**10  # read at once; few footers are larger
CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
_SCHEMAS = 16  # that are kept
_VERSION_FIELD, _SCHEMA_FIELD = 0x10 | thrift.I32, 0x10 | thrift.LIST
_VERSION = re.compile(r"^(.*?)(?:\s+version\s+v?(\d+)\.(\d+)|\s*\(|\s*$)")
# Readers recognise these writers by name and read their pages or bounds in a special way. Under another writer's name
# they would not: wrong bounds (PARQUET-251), prefixes carried across pages (PARQUET-246), bounds in the wrong order,
# compressed pages that are not marked as such (ARROW-10353), data pages at wrong offsets.
_MISTRUSTED = {"parquet-mr": (1, 10), "parquet-cpp": (2, 0), "DuckDB": (1, 0)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Chunk:
    """A column of a row group: the span of its bytes, and its entry in the footer. Without slots, since wide tables
    have many chunks and most of them are asked for the same things several times."""

    leaf: int
    start: int
    length: int
    uncompressed: int
    codec: str
    values: int
    raw: thrift.Struct  # the ColumnChunk, untouched

    @functools.cached_property
    def meta(self) -> thrift.Struct:
        return format_fields.child(self.raw, format_fields.Column.META) or {}

    @functools.cached_property
    def statistics(self) -> thrift.Struct:
        return format_fields.child(self.meta, format_fields.Meta.STATISTICS) or {}

    @functools.cached_property
    def data_pages(self) -> tuple[int, int]:
        """The start and length of the pages behind the dictionary."""
        first = format_fields.integer(self.meta, format_fields.Meta.DATA_PAGE)
        return first, self.start + self.length - first

    @property
    def encodings(self) -> frozenset[int]:
        """The encodings of values, dictionaries and levels."""
        return frozenset(self.meta.get(format_fields.Meta.ENCODINGS, (0, (0, ())))[1][1])

    @functools.cached_property
    def page_counts(self) -> dict[tuple[int, int], int]:
        """The number of pages of each type and encoding; empty if the footer does not count them."""
        counts: dict[tuple[int, int], int] = {}
        for entry in format_fields.children(self.meta, format_fields.Meta.ENCODING_STATS):
            kind, encoding, count = (format_fields.integer(entry, number) for number in (1, 2, 3))
            counts[kind, encoding] = counts.get((kind, encoding), 0) + count
        return counts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """A row group."""

    rows: int
    chunks: tuple[Chunk, ...]
    raw: thrift.Struct  # the RowGroup, untouched

    @property
    def bytes(self) -> int:
        return sum(chunk.length for chunk in self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawFooter:
    """A file's footer. `why_not` says in a few words why none of its row groups may be taken over."""

    path: str
    size: int
    body: int  # bytes before the footer
    created_by: str | None
    leaves: tuple[Leaf, ...]
    groups: tuple[Group, ...]
    has_column_orders: bool
    encrypted: bool
    why_not: str | None
    raw: thrift.Struct  # the FileMetaData, untouched

    @property
    def trusted(self) -> bool:
        return self.why_not is None


def read(io: FileIO, path: str, size: int | None = None) -> RawFooter:
    """The footer of a file; `size` is the file's size, if the caller has it. Raises ValueError if the file is no
    Parquet file."""
    tail, size = read_tail(io, path, size)
    return parse(path, tail, size)


def read_tail(io: FileIO, path: str, size: int | None = None, *, whole: bool = False) -> tuple[bytes, int]:
    """The last bytes of a file, its footer among them, and its size; in one read, unless the footer is very large.
    `whole`: all bytes, for a FileIO that keeps them."""
    return passing_faults.patiently(lambda: _read_tail(io, path, size, whole=whole))


def _read_tail(io: FileIO, path: str, size: int | None, *, whole: bool) -> tuple[bytes, int]:
    with io.new_input(path).open() as stream:
        if whole:
            content = bytes(stream.read())
            return content, len(content)
        if size is None:
            stream.seek(0, 2)
            size = stream.tell()
        tail = _read_at(stream, max(0, size - _TAIL), min(size, _TAIL))
        if (missing := footer_length(tail, size) + 8 - len(tail)) > 0:
            tail = _read_at(stream, size - len(tail) - missing, missing) + tail
    return tail, size


def _read_at(stream: Any, start: int, length: int) -> bytes:
    stream.seek(start)
    data = bytes(stream.read(length))
    if len(data) != length:
        raise ValueError(f"it has fewer than the expected {start + length} bytes")
    return data


def footer_length(tail: bytes, size: int) -> int:
    if tail[-4:] == _ENCRYPTED_MAGIC:
        raise ValueError("its footer is encrypted")
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] != MAGIC or length + 12 > size:
        raise ValueError("it does not end like a Parquet file")
    return length


def parse(path: str, tail: bytes, size: int, schemas: Schemas | None = None) -> RawFooter:
    """The footer from the last bytes of a file of this size. `schemas` are those of footers before it."""
    length = footer_length(tail, size)
    raw, leaves = (schemas or Schemas()).parse(tail[len(tail) - 8 - length : len(tail) - 8])
    body = size - 8 - length
    groups = tuple(
        _group(each, len(leaves), body) for each in format_fields.children(raw, format_fields.File.ROW_GROUPS)
    )
    orders = format_fields.children(raw, format_fields.File.COLUMN_ORDERS)
    created_by = format_fields.text(raw, format_fields.File.CREATED_BY)
    encrypted = format_fields.File.ENCRYPTION in raw or any(
        _is_encrypted(chunk) for group in groups for chunk in group.chunks
    )
    if encrypted:
        why_not: str | None = "it is encrypted"
    elif any(format_fields.Column.FILE_PATH in chunk.raw for group in groups for chunk in group.chunks):
        why_not = "its columns are in other files"
    elif len(orders) != len(leaves) or any(list(order) != [1] for order in orders):
        why_not = "it does not say how its bounds are ordered"
    else:
        why_not = _mistrust(created_by)
    return RawFooter(
        path=path,
        size=size,
        body=body,
        created_by=created_by,
        leaves=leaves,
        groups=groups,
        has_column_orders=bool(orders),
        encrypted=encrypted,
        why_not=why_not,
        raw=raw,
    )


class Schemas:
    """Schemas of footers that were parsed before. Footers of one writer and schema begin with the same bytes, which
    need to be parsed only once: half of the work where a table has many columns."""

    def __init__(self) -> None:
        self._by_head: dict[bytes, tuple[thrift.Struct, tuple[Leaf, ...]]] = {}

    def parse(self, data: bytes) -> tuple[thrift.Struct, tuple[Leaf, ...]]:
        """A footer and its columns."""
        for head, (first, leaves) in self._by_head.items():
            if data.startswith(head):
                rest, _ = thrift.parse(data, len(head), format_fields.File.SCHEMA)
                if not first.keys() & rest.keys():
                    return {**first, **rest}, leaves
        raw, _ = thrift.parse(data)
        leaves = page_layout.leaves(format_fields.children(raw, format_fields.File.SCHEMA))
        if len(self._by_head) < _SCHEMAS and (end := schema_end(data)) is not None:
            first = {number: raw[number] for number in (format_fields.File.VERSION, format_fields.File.SCHEMA)}
            self._by_head[data[:end]] = (first, leaves)
        return raw, leaves


def schema_end(data: bytes) -> int | None:
    """The offset behind version and schema; None: they are not the first fields."""
    if not data or data[0] != _VERSION_FIELD:
        return None
    at = thrift.varint(data, 1)[1]
    return thrift.parse_list(data, at + 1)[1] if data[at] == _SCHEMA_FIELD else None


def _mistrust(created_by: str | None) -> str | None:
    if not created_by:
        return "its writer is unknown"
    match = _VERSION.match(created_by)
    if match is None or match[1] not in _MISTRUSTED:
        return None
    version = (int(match[2] or 0), int(match[3] or 0))
    return f"it was written by {created_by.partition(' (')[0]}" if version < _MISTRUSTED[match[1]] else None


def _is_encrypted(chunk: Chunk) -> bool:
    return format_fields.Column.CRYPTO in chunk.raw or format_fields.Column.ENCRYPTED in chunk.raw


def _group(raw: thrift.Struct, leaves: int, body: int) -> Group:
    columns = format_fields.children(raw, format_fields.RowGroup.COLUMNS)
    if len(columns) != leaves:
        raise ValueError(f"a row group has {len(columns)} columns where the schema has {leaves}")
    chunks = tuple(_chunk(leaf, column, body) for leaf, column in enumerate(columns))
    rows = format_fields.integer(raw, format_fields.RowGroup.ROWS)
    if rows < 0:
        raise ValueError(f"a row group has {rows} rows")
    return Group(rows=rows, chunks=chunks, raw=raw)


def _chunk(leaf: int, raw: thrift.Struct, body: int) -> Chunk:
    meta = format_fields.child(raw, format_fields.Column.META)
    if meta is None:
        raise ValueError("a column has no metadata")
    start = format_fields.integer(meta, format_fields.Meta.DATA_PAGE)
    dictionary = format_fields.integer(meta, format_fields.Meta.DICTIONARY_PAGE, 0)
    if dictionary > 0 and (dictionary < start or not start):  # some writers put 0 where there is no such page
        start = dictionary
    length = format_fields.integer(meta, format_fields.Meta.COMPRESSED)
    if length < 0 or (length and not len(MAGIC) <= start <= body - length):
        raise ValueError("a column lies outside of the file")
    codec = format_fields.integer(meta, format_fields.Meta.CODEC)
    return Chunk(
        leaf=leaf,
        start=start,
        length=length,
        uncompressed=format_fields.integer(meta, format_fields.Meta.UNCOMPRESSED),
        codec=CODECS[codec] if 0 <= codec < len(CODECS) else f"CODEC_{codec}",
        values=format_fields.integer(meta, format_fields.Meta.VALUES),
        raw=raw,
    )
