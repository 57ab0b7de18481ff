"""Pages as bytes: composes pages that no writer has written (dictionaries, pages of nulls), and reads the header of a
page in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from isal import isal_zlib

from iceberg_compaction.formats.parquet import format_fields, thrift

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA, DICTIONARY, DATA_2 = 0, 2, 3
PLAIN, RLE = 0, 3
_TYPE, _UNCOMPRESSED, _COMPRESSED, _CRC, _DATA, _INDEX, _DICTIONARY, _DATA_2 = range(1, 9)
_SIGN = 1 << 31
_ALL_BITS = 2 * _SIGN - 1
# pyarrow's name of each codec that it can both compress and decompress; it knows LZ4 by its raw blocks only.
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4_RAW": "lz4_raw"}


class Header(NamedTuple):
    """The header of a page in memory."""

    kind: int
    values: int
    encoding: int  # of values
    rows: int | None  # in data pages of version 2 only
    uncompressed: int
    compressed: int
    crc: int | None  # of the compressed bytes; None: the writer made none
    body: int  # the offset of the page's bytes behind the header

    @property
    def end(self) -> int:
        return self.body + self.compressed


def header(data: bytes, at: int) -> Header:
    """The header that begins at an offset. Raises ValueError if there is none."""
    raw, body = thrift.parse(data, at)
    below = next((child for number in (_DATA, _DATA_2, _DICTIONARY) if (child := format_fields.child(raw, number))), {})
    crc = format_fields.optional(raw, _CRC)
    return Header(
        kind=format_fields.integer(raw, _TYPE),
        values=format_fields.integer(below, 1, 0),
        encoding=format_fields.integer(below, 4 if _DATA_2 in raw else 2, PLAIN),
        rows=format_fields.integer(below, 3) if _DATA_2 in raw else None,
        uncompressed=format_fields.integer(raw, _UNCOMPRESSED),
        compressed=format_fields.integer(raw, _COMPRESSED),
        crc=None if crc is None else crc & _ALL_BITS,
        body=body,
    )


def check(data: bytes, start: int, end: int, values: int) -> None:
    """Raises ValueError unless data pages with so many values fill these bytes, and their checksums are right."""
    view, at = memoryview(data), start
    while at < end:
        page = header(data, at)
        # Some readers take a page without values for the end of its column.
        if page.kind not in (DATA, DATA_2) or page.compressed < 0 or page.values <= 0:
            raise ValueError("a column has other pages than its footer says")
        if page.crc is not None and page.crc != isal_zlib.crc32(view[page.body : page.end]):
            raise ValueError("a page has another checksum than its header says")
        at, values = page.end, values - page.values
    if at != end or values:
        raise ValueError("the pages of a column have other sizes than its footer says")


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
    crc = isal_zlib.crc32(payload)
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
