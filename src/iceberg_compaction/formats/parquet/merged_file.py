"""Several small files as a single one in memory, so that a decoder opens one file instead of many. Files whose footers
begin with the same schema come in, with the spans of their column chunks; the bytes of a file with all their row groups
go out. Pages move as they are; statistics, indexes and Bloom filters are left behind, since no decoder needs them."""

from __future__ import annotations

import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from iceberg_compaction.formats.parquet import format_fields, parquet_footer, thrift

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENCODINGS = (thrift.LIST, (thrift.I32, [0, 2, 3, 8]))  # a reader goes by the headers of pages
# By the names that pyarrow has for them. Those that it has one name for, and footers several, are left out.
_CODECS = {name: parquet_footer.CODECS.index(name) for name in ("UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "ZSTD")}
_NUMBERS = 6  # of a column chunk: codec, values, uncompressed and compressed bytes, first data page, dictionary or 0
_FIRST = len(parquet_footer.MAGIC)
# Heads of fields in Thrift's compact protocol: the step from the field before, and the type.
_I32_NEXT, _I64_NEXT, _I64_SECOND, _LIST_FIRST = 0x15, 0x16, 0x26, 0x19
_STOP = 0
_LONG_LIST = 0xF0 | thrift.STRUCT
_SHORT = 15


class FileForm(NamedTuple):
    """What files that can be merged have in common."""

    head: bytes  # of their footers: version and schema
    columns: tuple[bytes, ...]  # the head of each column's metadata: type, encodings, path
    tail: bytes  # of the merged footer, behind its row groups: key values and the writer
    created_by: str
    schema: Any  # the same object for all of them


@dataclass(frozen=True, slots=True, eq=False)
class StoredFile:
    """A file by its footer."""

    form: FileForm
    body: int  # bytes before the footer
    groups: tuple[tuple[int, array.array[int]], ...]  # rows, and the numbers of each column chunk


class FileForms:
    """The forms of files whose footers were seen before."""

    def __init__(self) -> None:
        self._forms: list[FileForm] = []

    def stored(self, tail: bytes, size: int, writer: str, groups: Sequence[Any], schema: Any) -> StoredFile | None:
        """A file by the last bytes of it, its size, its writer, its row groups, and its schema, which is the same
        object where it is equal. None: it cannot be merged with others."""
        length = parquet_footer.footer_length(tail, size)
        body = size - 8 - length
        numbers = []
        for group in groups:
            if (of_group := _numbers(group, body)) is None:
                return None
            numbers.append((group.rows, of_group))
        form = self._form(tail[len(tail) - 8 - length : len(tail) - 8], writer, schema)
        return None if form is None else StoredFile(form, body, tuple(numbers))

    def _form(self, footer: bytes, writer: str, schema: Any) -> FileForm | None:
        for form in self._forms:
            if form.schema is schema and form.created_by == writer and footer.startswith(form.head):
                return form
        new = _parsed(footer, writer, schema)
        if new is not None:
            self._forms.append(new)
        return new


def merge(files: Sequence[tuple[StoredFile, Any]]) -> bytes:
    """The file with the row groups of all files, in order, each given with its bytes. All have the same form."""
    form = files[0][0].form
    pieces: list[Any] = [parquet_footer.MAGIC]
    groups = bytearray()
    count = rows = 0
    at = _FIRST
    for file, content in files:
        pieces.append(memoryview(content)[_FIRST : file.body])
        for group_rows, numbers in file.groups:
            _put_group(groups, form, group_rows, numbers, at - _FIRST)
            count, rows = count + 1, rows + group_rows
        at += file.body - _FIRST
    footer = bytearray(form.head)
    footer.append(_I64_NEXT)
    _put(footer, rows)
    footer.append(_LIST_FIRST)
    _put_length(footer, count)
    footer += groups
    footer += form.tail
    return b"".join([*pieces, bytes(footer), len(footer).to_bytes(4, "little"), parquet_footer.MAGIC])


def _numbers(group: Any, body: int) -> array.array[int] | None:
    """The numbers of all column chunks of a row group; None: one of them is not as pyarrow's reader will take it."""
    numbers = array.array("q")
    for column in group.columns:
        codec = _CODECS.get(column.raw.compression)
        first, dictionary = column.data_page, column.dictionary_page
        start = dictionary or first
        end = start + column.compressed
        if codec is None or not _FIRST <= start <= first or not start <= end <= body or column.raw.file_path:
            return None
        numbers.extend((codec, column.values, column.uncompressed, column.compressed, first, dictionary))
    return numbers


def _parsed(footer: bytes, writer: str, schema: Any) -> FileForm | None:
    raw, _ = thrift.parse(footer)
    if format_fields.File.ENCRYPTION in raw or (end := parquet_footer.schema_end(footer)) is None:
        return None
    groups = format_fields.children(raw, format_fields.File.ROW_GROUPS)
    if not groups:
        return None
    fields = (format_fields.File.KEY_VALUES, format_fields.File.CREATED_BY)
    # Composed behind the row groups, whose own field is cut off: two bytes for an empty list.
    behind: thrift.Struct = {format_fields.File.ROW_GROUPS: (thrift.LIST, (thrift.STRUCT, []))} | {
        number: raw[number] for number in fields if number in raw
    }
    tail = thrift.compose(behind)[2:]
    columns = tuple(_column_head(each) for each in format_fields.children(groups[0], format_fields.RowGroup.COLUMNS))
    return FileForm(footer[:end], columns, tail, writer, schema)


def _column_head(column: thrift.Struct) -> bytes:
    meta = format_fields.child(column, format_fields.Column.META) or {}
    kept = {number: meta[number] for number in (format_fields.Meta.TYPE, format_fields.Meta.PATH)}
    return thrift.compose({**kept, format_fields.Meta.ENCODINGS: _ENCODINGS})[:-1]


def _put_group(out: bytearray, form: FileForm, rows: int, numbers: Sequence[int], shift: int) -> None:
    """Appends a RowGroup whose file has moved by so many bytes."""
    out.append(_LIST_FIRST)
    _put_length(out, len(form.columns))
    at = 0
    for head in form.columns:
        codec, values, uncompressed, compressed, first, dictionary = numbers[at : at + _NUMBERS]
        at += _NUMBERS
        out += b"\x26\x00\x1c"  # the file offset, which is 0, and the metadata
        out += head
        out.append(_I32_NEXT)
        out.append(codec << 1)
        for number in (values, uncompressed, compressed):
            out.append(_I64_NEXT)
            _put(out, number)
        out.append(_I64_SECOND)
        _put(out, first + shift)
        if dictionary:
            out.append(_I64_SECOND)
            _put(out, dictionary + shift)
        out += b"\x00\x00"
    out += b"\x16\x00\x16"  # the size, which is not asked for, and the rows
    _put(out, rows)
    out.append(_STOP)


def _put(out: bytearray, number: int) -> None:
    thrift.put_varint(out, number << 1)


def _put_length(out: bytearray, count: int) -> None:
    if count < _SHORT:
        out.append(count << 4 | thrift.STRUCT)
    else:
        out.append(_LONG_LIST)
        thrift.put_varint(out, count)
