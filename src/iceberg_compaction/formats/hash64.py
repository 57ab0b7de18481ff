"""The one 64-bit hash: mixing of words, and digests of byte strings, over whole numpy arrays at a time. Snapshots store
checksums that are computed with it, so it never changes silently: golden tests pin it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iceberg_compaction.formats import arrow_buffers

if TYPE_CHECKING:
    from collections.abc import Callable

Hashes = npt.NDArray[np.uint64]

_LONG = 256  # bytes; longer values are laid out one by one, which is cheaper than gathering their words
_STRINGS = 1 << 13  # strings gathered at a time; their blocks should fit the processor's cache
_TOGETHER = 4 * 2**20  # bytes of strings whose words are laid out at a time, unless one has more
_PIECE = 2**19  # bytes of such a one; its factors are kept
_BLOCK = 64  # bytes of a string gathered at a time, at most

G = np.uint64(0x9E3779B97F4A7C15)
_K1 = np.uint64(0xD6E8FEB86659FD93)
_K2 = np.uint64(0xC2B2AE3D27D4EB4F)
L = np.uint64(0x165667B19E3779F9)
N = np.uint64(0x27D4EB2F165667C5)
R = np.uint64(0x85EBCA77C2B2AE63)
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)
_KEPT_ROOM = 1 << 16
_kept = threading.local()
_S29 = np.uint64(29)
_WORD, _HALF, _SIGNED = np.dtype("<u8"), np.dtype("<u4"), np.dtype("<i8")
_BYTES = {width: np.dtype(f"V{width}") for width in range(8, _BLOCK + 1, 8)}


def mix(x: Hashes, by: Any) -> Hashes:
    """Spread words over all bits, in place: x ^= x >> 32; x *= Q(j), where the factor Q(j) is odd and differs by
    position. Zero stays zero, so padding beyond the end of a value adds nothing."""
    np.multiply(fold(x), by, out=x)
    return x


def fold(x: Hashes) -> Hashes:
    """In place: x ^= x >> 32, done as low half ^= high half, which needs no room for the shifted words."""
    halves = x.view(_HALF)
    low = halves[0::2]
    np.bitwise_xor(low, halves[1::2], low)
    return x


def fin(x: Hashes) -> Hashes:
    """The final mix, in place: x *= K1; x ^= x >> 32; x *= K2; x ^= x >> 29."""
    np.multiply(x, _K1, out=x)
    mix(x, _K2)
    x ^= np.right_shift(x, _S29, out=_scratch(len(x)))
    return x


def _scratch(count: int) -> Hashes:
    """Room for one intermediate array, kept between calls because fresh memory costs more than the arithmetic."""
    room: Hashes | None = getattr(_kept, "room", None)
    if room is None or len(room) < count:
        if count > _KEPT_ROOM:
            return np.empty(count, dtype=np.uint64)
        room = _kept.room = np.empty(_KEPT_ROOM, dtype=np.uint64)
    return room[:count]


def factors(count: int) -> Hashes:
    """Q(0) to Q(count - 1), where Q(j) = fin((j + 1) * G) | 1."""
    values: Hashes | None = getattr(_kept, "factors", None)
    if values is None or len(values) < count:
        values = _factors(0, max(1024, 1 << (count - 1).bit_length()))
        if len(values) <= _KEPT_ROOM:
            _kept.factors = values
    return values


def _factors(first: int, last: int) -> Hashes:
    """Q(first) to Q(last - 1)."""
    numbers = np.arange(first + 1, last + 1, dtype=np.uint64)
    return np.bitwise_or(fin(np.multiply(numbers, G)), np.uint64(1))


def words_digest(words: list[Hashes], count: int, length: int) -> Hashes:
    """Digests of values of `length` bytes, given word by word."""
    total = np.full(count, int(L) * length & 0xFFFFFFFFFFFFFFFF, dtype=np.uint64)
    for position, word in enumerate(words):
        total += mix(word.copy(), factors(position + 1)[position])
    return total


def fixed_bytes_digest(array: pa.Array, width: int, start: int, stop: int) -> Hashes:
    """Digests of the rows from `start` to `stop` of an array whose values take `width` bytes each."""
    count, first = stop - start, array.offset + start
    buffer = array.buffers()[1]
    if buffer is None or not count or not width:
        return words_digest([], count, width)  # no bytes, or all of them null
    if width % 8 == 0:
        flat = np.frombuffer(buffer, dtype="<u8", count=count * width // 8, offset=first * width)
        return words_digest([flat[position :: width // 8] for position in range(width // 8)], count, width)
    data = np.zeros(count * width + _BLOCK, dtype=np.uint8)
    data[: count * width] = np.frombuffer(buffer, dtype=np.uint8, count=count * width, offset=first * width)
    return _gathered(data, np.arange(count, dtype=np.int64) * width, np.full(count, width, dtype=np.int64))


def bytes_digester(array: pa.Array, offset_type: str) -> Callable[[int, int], Hashes]:
    """Digests of rows of a string or binary array with offsets of the given type."""
    every = arrow_buffers.offsets(array, offset_type)
    buffer = array.buffers()[2]
    data = np.zeros(0, dtype=np.uint8) if buffer is None else np.frombuffer(buffer, dtype=np.uint8)
    valid = arrow_buffers.validity(array) if array.null_count else None

    def digest_few(start: int, stop: int) -> Hashes:
        starts = every[start:stop].astype(_SIGNED)
        lengths = np.subtract(every[start + 1 : stop + 1], starts)
        if valid is not None:
            lengths *= valid[start:stop]  # a null may cover bytes, even many: do not walk them
        first, last = int(every[start]), int(every[stop])
        # A block is read whole wherever a string begins. Where the buffer does not reach that far, its end is copied.
        if len(data) >= last + _BLOCK:
            return _gathered(data, starts, lengths)
        copy = np.zeros(last - first + _BLOCK, dtype=np.uint8)
        copy[: last - first] = data[first:last]
        starts -= first
        return _gathered(copy, starts, lengths)

    # Two functions, as one that calls itself is a cycle that keeps the array until the next garbage collection.
    def digest(start: int, stop: int) -> Hashes:
        if stop - start <= _STRINGS and int(every[stop]) - int(every[start]) <= _TOGETHER:
            return digest_few(start, stop)
        total = np.empty(stop - start, dtype=np.uint64)
        at = start
        while at < stop:
            end = min(at + _STRINGS, stop)
            if int(every[end]) - int(every[at]) > _TOGETHER:
                reach = np.searchsorted(every[at + 1 : end + 1], int(every[at]) + _TOGETHER, side="right")
                end = at + max(1, int(reach))
            total[at - start : end - start] = digest_few(at, end)
            at = end
        return total

    return digest


def _gathered(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Hashes:
    """Digests of byte strings at `starts` in `data`, which goes on for a block after the last. Blocks are gathered from
    all strings at once (numpy copies 64 bytes as fast as 8), then mixed word by word over all strings."""
    total = np.multiply(lengths.view(np.uint64), L)
    rows = None
    longest = int(np.maximum.reduce(lengths, initial=0))  # several times faster than .max()
    if longest > _LONG:
        is_long = lengths > _LONG
        rows = np.flatnonzero(is_long)
        total[rows] += _laid_out(data.data, starts[rows], lengths[rows])
        rows = np.flatnonzero(~is_long)
        starts, lengths = starts[rows], lengths[rows]
        longest = int(np.maximum.reduce(lengths, initial=0))
    first = 0
    while first < longest:
        width = min(_BLOCK, (longest - first + 7) // 8 * 8)
        blocks = np.ndarray((len(data) - width + 1,), dtype=_BYTES[width], buffer=data, strides=(1,))
        block = blocks[starts + first if first else starts].view(_WORD)
        added = _block_digest(block, width // 8, lengths - first if first else lengths, first // 8)
        if rows is None:
            total += added
        else:
            total[rows] += added
        first += width
        if first < longest:
            active = np.flatnonzero(lengths > first)
            rows = active if rows is None else rows[active]
            starts, lengths = starts[active], lengths[active]
    return total


def _block_digest(block: Hashes, words: int, left: npt.NDArray[np.int64], position: int) -> Hashes:
    """Sums over the words of each string's block, of which `left` bytes belong to the string."""
    for index in range(max(0, int(np.minimum.reduce(left))) // 8, words):
        word = block[index::words]
        np.bitwise_and(word, _MASKS.take(left - 8 * index, mode="clip"), out=word)
    fold(block)
    by = factors(position + words)
    added: Hashes = block[::words] * by[position]
    scratch = _scratch(len(left))
    for index in range(1, words):
        added += np.multiply(block[index::words], by[position + index], out=scratch)
    return added


def _laid_out(data: memoryview, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Hashes:
    """Word sums of long strings: each is copied to an aligned buffer, then all words are mixed in one go; very long
    ones are mixed one by one."""
    if int(np.minimum.reduce(lengths)) > _PIECE // 8:
        pairs = zip(starts.tolist(), lengths.tolist(), strict=True)
        return np.array([_sum_of(data[start : start + length]) for start, length in pairs], dtype=np.uint64)
    counts = (lengths + 7) // 8
    ends = np.cumsum(counts)
    aligned = np.zeros(int(ends[-1]), dtype="<u8")
    target = aligned.view(np.uint8).data
    for start, length, word in zip(starts.tolist(), lengths.tolist(), (ends - counts).tolist(), strict=True):
        target[8 * word : 8 * word + length] = data[start : start + length]
    return entry_sums(aligned, np.concatenate(([0], ends)))


def _sum_of(data: memoryview) -> int:
    """The word sum of one long string, of which a piece at a time is copied."""
    total = 0
    for start in range(0, len(data), _PIECE):
        piece = data[start : start + _PIECE]
        words = np.zeros(-(-len(piece) // 8), dtype="<u8")
        words.view(np.uint8).data[: len(piece)] = piece
        first = start // 8
        by = _factors(first, first + len(words)) if first else factors(len(words))[: len(words)]
        total += int(np.add.reduce(mix(words, by)))
    return total & 0xFFFFFFFFFFFFFFFF


def entry_sums(entries: Hashes, offsets: npt.NDArray[np.int64]) -> Hashes:
    """Per segment of `entries` (which is overwritten): the sum of mix(e[j], j)."""
    counts = np.diff(offsets)
    positions = np.arange(len(entries), dtype=np.int64)
    positions -= np.repeat(offsets[:-1], counts)
    by = factors(int(counts.max(initial=1))).take(positions)
    sums = np.zeros(len(entries) + 1, dtype=np.uint64)
    np.cumsum(mix(entries, by), out=sums[1:])
    return sums[offsets[1:]] - sums[offsets[:-1]]


def text_digests(texts: pa.Array) -> Hashes:
    """A number for each text, equal for equal texts; different texts share one as rarely as random 64-bit numbers
    do."""
    return fin(bytes_digester(texts, "<i4")(0, len(texts)))


def ordered(digests: Hashes) -> Hashes:
    """The different digests, sorted. numpy's own `unique` fills a hash table, which takes ten times as long."""
    result = np.sort(digests)
    if not len(result):
        return result
    first = np.ones(len(result), dtype=np.bool_)
    np.not_equal(result[1:], result[:-1], out=first[1:])
    return result if first.all() else result[first]


def repeated(digests: Hashes) -> pa.BooleanArray | None:
    """Which rows have a digest that another row has, too; None: no row. Their texts may still differ."""
    ordered = np.sort(digests)
    doubled = ordered[1:][ordered[1:] == ordered[:-1]]
    return pa.array(np.isin(digests, doubled)) if len(doubled) else None
