"""Encodes ranks, which are numbers from 0 on, as pages of indexes. pyarrow looks every value up in a hash table to find
out its index; a rank is its own, so that all there is to do is to put its bits together. Takes flat columns of up to
65,536 entries that do not repeat themselves much; pyarrow encodes the others (`encode_ranks`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.formats.parquet import page_headers, thrift
from iceberg_compaction.formats.parquet.join import forged_file, joined_column, merge_indexes, page_bytes
from iceberg_compaction.formats.parquet.join.ranks import encoded_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    Unsigned = npt.NDArray[Any]

_WIDEST = 16  # bits of an index
_FLAT = ((0,), (1,))  # repetitions of columns whose levels are at most the flags of their nulls
_SAMPLE, _SAMPLES = 4096, 8
_PAGE_ROWS, _PAGE_BYTES = 20_000, 2**20  # as pyarrow has it
_RUN = 4  # values in a row that are equal, on average, from which on runs of them take less than each alone
_ENCODINGS = (page_headers.PLAIN, page_headers.RLE, page_headers.RLE_DICTIONARY)


def pack(
    ranks: pa.ChunkedArray, entries: int, repetitions: Sequence[int], arguments: Mapping[str, Any]
) -> encoded_ranks.EncodedRanks | None:
    """The pages of the ranks, all below `entries`. `arguments` are those of pyarrow's writer. None: such ranks or such
    pages are not for here. ValueError: the pages do not hold the ranks."""
    width = max(1, (entries - 1).bit_length())
    codec = page_bytes.codec_of(arguments)
    is_possible = codec is not None and entries and width <= _WIDEST and tuple(repetitions) in _FLAT and len(ranks)
    if not is_possible or arguments.get("data_page_version", "1.0") != "1.0" or _has_runs(ranks):
        return None
    numbers, valid = _numbers(ranks, width)
    compress = page_bytes.compressor(arguments)
    is_optional = tuple(repetitions) == (1,)
    rows = arguments.get("max_rows_per_page", _PAGE_ROWS)
    step = max(8, min(rows, arguments.get("data_page_size", _PAGE_BYTES) * 8 // width) // 8 * 8)
    pieces, locations, at, size = [], [], 0, 0
    for first, count, values, body in _bodies(numbers, valid, width, step):
        present = None if valid is None else valid[first : first + count]
        levels = page_bytes.sized(page_bytes.level_runs(count, present)) if is_optional else b""
        raw = b"".join((levels, bytes((width,)), _run_header(values), body))
        page = page_bytes.compose_indexes(count, compress(raw), len(raw))
        pieces.append(page.data)
        locations.append(joined_column.PageLocation(at, len(page.data), first))
        at += len(page.data)
        size += page.header + len(raw)
    encoded = encoded_ranks.EncodedRanks(
        codec=codec or "",
        values=len(ranks),
        order=None,
        pieces=pieces,
        uncompressed=size,
        encodings=_ENCODINGS,
        page_counts={(page_headers.DATA, page_headers.RLE_DICTIONARY): len(pieces)},
        locations=locations,
        index=_index(numbers, valid, step),
    )
    _check(ranks, encoded, entries, repetitions)
    return encoded


def _has_runs(ranks: pa.ChunkedArray) -> bool:
    """Whether equal values follow one another, by a few looks at them."""
    starts = range(0, max(1, len(ranks) - _SAMPLE), max(1, len(ranks) // _SAMPLES))
    parts = [pc.fill_null(ranks.slice(start, _SAMPLE), -1).combine_chunks().to_numpy() for start in starts]
    changes = sum(1 + np.count_nonzero(part[1:] != part[:-1]) for part in parts)
    return bool(sum(map(len, parts)) > _RUN * changes)


def _numbers(ranks: pa.ChunkedArray, width: int) -> tuple[Unsigned, npt.NDArray[np.bool_] | None]:
    """The ranks, 0 for nulls, in as few bytes as will do; and which of them are no nulls, if some are."""
    numbers = np.empty(len(ranks), np.uint8 if width <= 8 else np.uint16)
    valid = np.empty(len(ranks), np.bool_) if ranks.null_count else None
    at = 0
    for chunk in ranks.chunks:
        end = at + len(chunk)
        filled = chunk.fill_null(0) if chunk.null_count else chunk
        numbers[at:end] = filled.to_numpy()
        if valid is not None:
            valid[at:end] = chunk.is_valid().to_numpy(zero_copy_only=False)
        at = end
    return numbers, valid


def _bodies(
    numbers: Unsigned, valid: npt.NDArray[np.bool_] | None, width: int, step: int
) -> Iterator[tuple[int, int, int, bytes | memoryview]]:
    """For each page its first row, its rows, its values, and the bits of these."""
    if valid is None:
        whole = len(numbers) // step * step
        bits = _pack_bits(numbers[:whole], width).data
        for first in range(0, whole, step):
            yield first, step, step, bits[first // 8 * width : (first + step) // 8 * width]
        if whole < len(numbers):
            rest = numbers[whole:]
            yield whole, len(rest), len(rest), _pack_bits(_padded(rest), width).tobytes()
        return
    for first in range(0, len(numbers), step):
        rows, present = numbers[first : first + step], valid[first : first + step]
        values = rows[present]
        yield first, len(rows), len(values), _pack_bits(_padded(values), width).tobytes()


def _padded(values: Unsigned) -> Unsigned:
    """Bits are put together eight values at a time."""
    return np.concatenate((values, np.zeros(-len(values) % 8, values.dtype)))


def _pack_bits(values: Unsigned, width: int) -> npt.NDArray[np.uint8]:
    """The lowest bits of values, one behind the other. Neighbours are put together until eight of them fill `width`
    whole bytes."""
    if width in (8, 16) or not len(values):
        return values.astype(values.dtype.newbyteorder("<")).view(np.uint8)
    bits = width
    while values.dtype.itemsize < 8:
        wider = values.view(np.dtype(f"<u{2 * values.dtype.itemsize}"))
        half = 8 * values.dtype.itemsize
        values = (wider & ((1 << half) - 1)) | (wider >> half << bits)
        bits *= 2
    if width < 8:
        return np.ascontiguousarray(values.view(np.uint8).reshape(-1, 8)[:, :width]).reshape(-1)
    low, high = values[::2], values[1::2]
    out = np.empty((len(low), width), np.uint8)
    out[:, :8] = (low | (high << bits)).view(np.uint8).reshape(-1, 8)
    out[:, 8:] = (high >> (64 - bits)).view(np.uint8).reshape(-1, 8)[:, : width - 8]
    return out.reshape(-1)


def _run_header(values: int) -> bytes:
    """Says that groups of eight values follow, bit by bit."""
    out = bytearray()
    if values:
        thrift.put_varint(out, -(-values // 8) << 1 | 1)
    return bytes(out)


def _index(numbers: Unsigned, valid: npt.NDArray[np.bool_] | None, step: int) -> thrift.Struct:
    """The column index of the pages, with ranks for bounds."""
    starts = np.arange(0, len(numbers), step)
    if valid is None:
        lows, highs = np.minimum.reduceat(numbers, starts), np.maximum.reduceat(numbers, starts)
        nulls = np.zeros(len(starts), np.int64)
    else:
        most = np.iinfo(numbers.dtype).max
        lows = np.minimum.reduceat(np.where(valid, numbers, most), starts)
        highs = np.maximum.reduceat(numbers, starts)  # nulls are 0
        nulls = np.add.reduceat(~valid, starts, dtype=np.int64)
    empty = nulls == np.diff(np.append(starts, len(numbers)))
    return merge_indexes.rank_index(lows.tolist(), highs.tolist(), nulls.tolist(), empty.tolist())


def _check(
    ranks: pa.ChunkedArray, encoded: encoded_ranks.EncodedRanks, entries: int, repetitions: Sequence[int]
) -> None:
    """Have pyarrow decode the pages, and compare."""
    raw = np.arange(entries, dtype="<i4").tobytes()
    dictionary = page_bytes.compose(
        page_headers.DICTIONARY, entries, page_bytes.compressed(raw, encoded.codec), len(raw)
    )
    chunk = forged_file.ForgedChunk(rows=len(ranks), values=len(ranks), dictionary=dictionary, pages=encoded.pieces)
    file = forged_file.open_file("INT32", 0, repetitions, encoded.codec, [chunk])
    encoded_ranks.check(file, ranks)
