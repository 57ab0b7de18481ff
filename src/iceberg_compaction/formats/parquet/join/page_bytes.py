"""Composes pages that no writer has written: dictionaries, pages of nulls, and pages around values that exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from isal import isal_zlib

from iceberg_compaction.formats import arrow_buffers
from iceberg_compaction.formats.parquet import format_fields, page_headers, thrift

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIGN = 1 << 31
# pyarrow's name of each codec that it can both compress and decompress; it knows LZ4 by its raw blocks only.
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4_RAW": "lz4_raw"}


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
    fields = format_fields.Page
    below = {1: (thrift.I32, values), 2: (thrift.I32, page_headers.PLAIN)}
    if kind == page_headers.DATA:
        below |= {3: (thrift.I32, page_headers.RLE), 4: (thrift.I32, page_headers.RLE)}
    head = {
        fields.TYPE: (thrift.I32, kind),
        fields.UNCOMPRESSED: (thrift.I32, uncompressed),
        fields.COMPRESSED: (thrift.I32, len(payload)),
        fields.CRC: (thrift.I32, _checksum(payload)),
        fields.DATA if kind == page_headers.DATA else fields.DICTIONARY: (thrift.STRUCT, below),
    }
    return thrift.compose(head) + payload


def compose_v2(values: int, null_count: int, levels: bytes, payload: bytes, size: int, codec: str) -> tuple[bytes, int]:
    """A data page of version 2 for as many rows as values, and the length of its header. `payload` are plain values,
    compressed; `size` are their bytes without compression. Levels are never compressed."""
    fields, body = format_fields.Page, levels + payload
    below = {
        1: (thrift.I32, values),
        2: (thrift.I32, null_count),
        3: (thrift.I32, values),
        4: (thrift.I32, page_headers.PLAIN),
        5: (thrift.I32, len(levels)),
        6: (thrift.I32, 0),
        7: (thrift.FALSE, False) if codec == "UNCOMPRESSED" else (thrift.TRUE, True),
    }
    head = thrift.compose(
        {
            fields.TYPE: (thrift.I32, page_headers.DATA_2),
            fields.UNCOMPRESSED: (thrift.I32, len(levels) + size),
            fields.COMPRESSED: (thrift.I32, len(body)),
            fields.CRC: (thrift.I32, _checksum(body)),
            fields.DATA_2: (thrift.STRUCT, below),
        }
    )
    return head + body, len(head)


def levels(values: pa.Array) -> bytes:
    """The definition levels of an optional column: one run if there are no nulls, else a bit for each value."""
    run = bytearray()
    if not values.null_count:
        thrift.put_varint(run, len(values) << 1)
        return bytes(run + b"\1")
    bits = np.packbits(arrow_buffers.bits(values.buffers()[0], values.offset, len(values)), bitorder="little")
    thrift.put_varint(run, len(bits) << 1 | 1)
    return bytes(run) + bits.tobytes()


def _checksum(body: bytes) -> int:
    """As headers have it: a number with a sign."""
    crc = isal_zlib.crc32(body)
    return crc - 2 * _SIGN if crc >= _SIGN else crc


def nulls(rows: int, codec: str, repetitions: Sequence[int]) -> tuple[bytes, int]:
    """A data page for rows in which the whole column is null, and its size without compression: one run of repetition
    level 0, if the column has such levels, and one of definition level 0."""
    run = bytearray()
    thrift.put_varint(run, rows << 1)
    run.append(0)
    levels = len(run).to_bytes(4, "little") + bytes(run)
    body = levels * (2 if 2 in repetitions else 1)
    payload = compressed(body, codec)
    page = compose(page_headers.DATA, rows, payload, len(body))
    return page, len(page) - len(payload) + len(body)
