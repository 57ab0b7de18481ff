"""Composes pages that no writer has written: dictionaries, pages of nulls, and pages around values that exist."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from isal import isal_zlib

from iceberg_compaction.formats import arrow_buffers
from iceberg_compaction.formats.parquet import format_fields, page_headers, thrift

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

_SIGN = 1 << 31
# pyarrow's name of each codec that it can both compress and decompress; it knows LZ4 by its raw blocks only.
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4_RAW": "lz4_raw"}
_FASTEST = {"ZSTD": -100, "GZIP": 1, "BROTLI": 0}  # levels; Zstandard stores what does not repeat itself


def can_compress(codec: str) -> bool:
    return codec == "UNCOMPRESSED" or codec in _CODECS


def compressed(data: bytes, codec: str) -> bytes:
    return data if codec == "UNCOMPRESSED" else bytes(pa.compress(data, _CODECS[codec], asbytes=True))


def barely_compressed(data: bytes, codec: str) -> bytes:
    """Bytes that are read once and at once, so that time counts and size does not."""
    level = _FASTEST.get(codec)
    if level is None:
        return compressed(data, codec)
    return bytes(pa.Codec(_CODECS[codec], compression_level=level).compress(data, asbytes=True))


def decompressed(data: bytes, codec: str, size: int) -> bytes:
    if codec == "UNCOMPRESSED":
        return data
    return bytes(pa.decompress(data, size, _CODECS[codec], asbytes=True)) if size else b""


def codec_of(arguments: Mapping[str, Any]) -> str | None:
    """The name in footers of the codec that arguments of pyarrow's writer ask for; None: it is not compressed by this
    module."""
    name = str(arguments.get("compression", "snappy")).lower()
    return next((codec for codec, own in _CODECS.items() if own == name), None)


def compressor(arguments: Mapping[str, Any]) -> Callable[[bytes], bytes]:
    """Compresses as arguments of pyarrow's writer ask for, whose codec is one of this module."""
    codec = pa.Codec(
        str(arguments.get("compression", "snappy")).lower(), compression_level=arguments.get("compression_level")
    )
    return functools.partial(codec.compress, asbytes=True)


class ComposedPage(NamedTuple):
    """A page, and how much of it is the header."""

    data: bytes
    header: int


def compose_indexes(values: int, payload: bytes, uncompressed: int) -> ComposedPage:
    """A data page of indexes into a dictionary, levels in front."""
    page = compose(page_headers.DATA, values, payload, uncompressed, page_headers.RLE_DICTIONARY)
    return ComposedPage(page, len(page) - len(payload))


def compose(kind: int, values: int, payload: bytes, uncompressed: int, encoding: int = page_headers.PLAIN) -> bytes:
    """A page under a header of ours, with a checksum. Data pages are those of version 1."""
    fields = format_fields.Page
    below = {1: (thrift.I32, values), 2: (thrift.I32, encoding)}
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
    """The definition levels of an optional column."""
    has_nulls = bool(values.null_count)
    return level_runs(
        len(values), arrow_buffers.bits(values.buffers()[0], values.offset, len(values)) if has_nulls else None
    )


def level_runs(count: int, valid: npt.NDArray[Any] | None) -> bytes:
    """The definition levels of an optional column: one run if there are no nulls (None), else a bit for each value."""
    run = bytearray()
    if valid is None or valid.all():
        thrift.put_varint(run, count << 1)
        return bytes(run + b"\1")
    bits = np.packbits(valid, bitorder="little")
    thrift.put_varint(run, len(bits) << 1 | 1)
    return bytes(run) + bits.tobytes()


def sized(runs: bytes) -> bytes:
    """Levels as data pages of version 1 have them."""
    return len(runs).to_bytes(4, "little") + runs


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
