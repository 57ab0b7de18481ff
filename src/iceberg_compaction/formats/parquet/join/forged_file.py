"""Forges Parquet files in memory around pages that exist, so that pyarrow decodes the pages under another type: indexes
of a dictionary as numbers, dictionaries as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction.formats.parquet import format_fields, page_layout, parquet_footer, thrift

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENCODINGS = (thrift.LIST, (thrift.I32, [0, 2, 3, 8]))  # PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgedChunk:
    """The pages of the only column of a row group."""

    rows: int
    values: int
    dictionary: bytes | None  # a whole page
    pages: Sequence[Any]


def read(physical: str, length: int, repetitions: Sequence[int], codec: str, chunks: Sequence[ForgedChunk]) -> pa.Table:
    """The rows of a file with these row groups of one column, decoded."""
    return open_file(physical, length, repetitions, codec, chunks).read(use_threads=False)


def open_file(
    physical: str, length: int, repetitions: Sequence[int], codec: str, chunks: Sequence[ForgedChunk]
) -> pq.ParquetFile:
    """The file itself. `repetitions` are those of all elements from the top down; each but the last is a group with one
    field."""
    data = _forge(_schema(physical, length, repetitions), physical, codec, chunks)
    return pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True, arrow_extensions_enabled=False)


def _schema(physical: str, length: int, repetitions: Sequence[int]) -> list[thrift.Struct]:
    elements: list[thrift.Struct] = [_element(b"root", None, 1)]
    elements += [_element(b"g", repetition, 1) for repetition in repetitions[:-1]]
    leaf = _element(b"v", repetitions[-1], 0)
    leaf[format_fields.Element.TYPE] = (thrift.I32, page_layout.PHYSICAL.index(physical))
    if length:
        leaf[format_fields.Element.TYPE_LENGTH] = (thrift.I32, length)
    return [*elements, leaf]


def _element(name: bytes, repetition: int | None, children: int) -> thrift.Struct:
    element: thrift.Struct = {format_fields.Element.NAME: (thrift.BINARY, name)}
    if repetition is not None:
        element[format_fields.Element.REPETITION] = (thrift.I32, repetition)
    if children:
        element[format_fields.Element.CHILDREN] = (thrift.I32, children)
    return element


def _forge(elements: list[thrift.Struct], physical: str, codec: str, chunks: Sequence[ForgedChunk]) -> bytes:
    path = [element[format_fields.Element.NAME][1] for element in elements[1:]]
    parts: list[Any] = [parquet_footer.MAGIC]
    at, groups = len(parquet_footer.MAGIC), []
    for chunk in chunks:
        pieces = [*(() if chunk.dictionary is None else (chunk.dictionary,)), *chunk.pages]
        size = sum(map(len, pieces))
        meta: thrift.Struct = {
            format_fields.Meta.TYPE: (thrift.I32, page_layout.PHYSICAL.index(physical)),
            format_fields.Meta.ENCODINGS: _ENCODINGS,
            format_fields.Meta.PATH: (thrift.LIST, (thrift.BINARY, path)),
            format_fields.Meta.CODEC: (thrift.I32, parquet_footer.CODECS.index(codec)),
            format_fields.Meta.VALUES: (thrift.I64, chunk.values),
            format_fields.Meta.UNCOMPRESSED: (thrift.I64, size),
            format_fields.Meta.COMPRESSED: (thrift.I64, size),
            format_fields.Meta.DATA_PAGE: (thrift.I64, at + len(chunk.dictionary or b"")),
        }
        if chunk.dictionary is not None:
            meta[format_fields.Meta.DICTIONARY_PAGE] = (thrift.I64, at)
        column: thrift.Struct = {
            format_fields.Column.FILE_OFFSET: (thrift.I64, 0),
            format_fields.Column.META: (thrift.STRUCT, meta),
        }
        groups.append(
            {
                format_fields.RowGroup.COLUMNS: (thrift.LIST, (thrift.STRUCT, [column])),
                format_fields.RowGroup.UNCOMPRESSED: (thrift.I64, size),
                format_fields.RowGroup.ROWS: (thrift.I64, chunk.rows),
            }
        )
        parts += pieces
        at += size
    footer = thrift.compose(
        {
            format_fields.File.VERSION: (thrift.I32, 2),
            format_fields.File.SCHEMA: (thrift.LIST, (thrift.STRUCT, elements)),
            format_fields.File.ROWS: (thrift.I64, sum(chunk.rows for chunk in chunks)),
            format_fields.File.ROW_GROUPS: (thrift.LIST, (thrift.STRUCT, groups)),
            format_fields.File.CREATED_BY: (thrift.BINARY, b"iceberg-compaction version 1.0"),
        }
    )
    return b"".join([*parts, footer, len(footer).to_bytes(4, "little"), parquet_footer.MAGIC])
