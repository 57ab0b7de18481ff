"""Pages as bytes: composes pages that no writer has written (dictionaries, pages of nulls), and reads the header of a
page in memory."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from iceberg_compaction.formats.parquet import format_fields, thrift

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA, DICTIONARY, DATA_2 = 0, 2, 3
PLAIN, RLE = 0, 3
_TYPE, _UNCOMPRESSED, _COMPRESSED, _CRC, _DATA, _INDEX, _DICTIONARY, _DATA_2 = range(1, 9)
_SIGN = 1 << 31
# pyarrow's name of each codec that it can both compress and decompress; it knows LZ4 by its raw blocks only.
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4_RAW": "lz4_raw"}


class Header(NamedTuple):
    """The header of a page in memory."""

    kind: int
    values: int
    uncompressed: int
    compressed: int
    body: int  # the offset of the page's bytes behind the header


def header(data: bytes, at: int) -> Header:
    """The header that begins at an offset. Raises ValueError if there is none."""
    raw, body = thrift.parse(data, at)
    below = next((child for number in (_DATA, _DATA_2, _DICTIONARY) if (child := format_fields.child(raw, number))), {})
    return Header(
        kind=format_fields.integer(raw, _TYPE),
        values=format_fields.integer(below, 1, 0),
        uncompressed=format_fields.integer(raw, _UNCOMPRESSED),
        compressed=format_fields.integer(raw, _COMPRESSED),
        body=body,
    )


def can_compress(codec: str) -> bool:
    return codec == "UNCOMPRESSED" or codec in _CODECS


def compressed(data: bytes, codec: str) -> bytes:
    return data if codec == "UNCOMPRESSED" else bytes(pa.compress(data, _CODECS[codec], asbytes=True))


def decompressed(data: bytes, codec: str, size: int) -> bytes:
    if codec == "UNCOMPRESSED":
        return data
    return bytes(pa.decompress(data, size, _CODECS[codec], asbytes=True)) if size else b""


def compose(kind: int, values: int, payload: bytes, uncompressed: int) -> bytes:
    """A page of plain values under a header of ours, with a checksum. Data pages are those of version 1."""
    crc = zlib.crc32(payload)
    below = {1: (thrift.I32, values), 2: (thrift.I32, PLAIN)}
    if kind == DATA:
        below |= {3: (thrift.I32, RLE), 4: (thrift.I32, RLE)}
    head = {
        _TYPE: (thrift.I32, kind),
        _UNCOMPRESSED: (thrift.I32, uncompressed),
        _COMPRESSED: (thrift.I32, len(payload)),
        _CRC: (thrift.I32, crc - 2 * _SIGN if crc >= _SIGN else crc),
        _DATA if kind == DATA else _DICTIONARY: (thrift.STRUCT, below),
    }
    return thrift.compose(head) + payload


def nulls(rows: int, codec: str, repetitions: Sequence[int]) -> tuple[bytes, int]:
    """A data page for rows in which the whole column is null, and its size without compression: one run of repetition
    level 0, if the column has such levels, and one of definition level 0."""
    run = bytearray()
    thrift.put_varint(run, rows << 1)
    run.append(0)
    levels = len(run).to_bytes(4, "little") + bytes(run)
    body = levels * (2 if 2 in repetitions else 1)
    page = compose(DATA, rows, compressed(body, codec), len(body))
    return page, len(page) - len(compressed(body, codec)) + len(body)
