"""The arithmetic of checksums: mixing 64-bit words, and digests of byte strings, over whole numpy arrays at a time.
`checksum` says what is computed with it; both are part of what snapshots store and do not change silently."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]

_LONG = 256  # bytes; longer values are laid out one by one, which is cheaper than gathering their words
_BLOCK = 32  # bytes of a string gathered at a time

G = np.uint64(0x9E3779B97F4A7C15)
K1 = np.uint64(0xD6E8FEB86659FD93)
_K2 = np.uint64(0xC2B2AE3D27D4EB4F)
L = np.uint64(0x165667B19E3779F9)
N = np.uint64(0x27D4EB2F165667C5)
R = np.uint64(0x85EBCA77C2B2AE63)
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(9)], dtype=np.uint64)
_KEPT_ROOM = 1 << 16
_kept = threading.local()
_S29, _S32 = np.uint64(29), np.uint64(32)


def mix(x: Hashes, by: Any) -> Hashes:
    """Spread words over all bits, in place: x *= P(j); x ^= x >> 32; x *= K2, where the factor P(j) = K1 + 2 * j * G is
    odd and tells positions apart. Zero stays zero, so what lies beyond the end of a value adds nothing."""
    np.multiply(x, by, out=x)
    x ^= np.right_shift(x, _S32, out=_scratch(len(x)))
    return np.multiply(x, _K2, out=x)


def fin(x: Hashes) -> Hashes:
    """The final mix, in place: x = mix(x, P(0)); x ^= x >> 29."""
    mix(x, K1)
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


def factor(position: int) -> np.uint64:
    """P(j)."""
    return np.uint64(int(K1) + 2 * position * int(G) & 0xFFFFFFFFFFFFFFFF)


def validity(array: pa.Array) -> npt.NDArray[np.uint8]:
    """1 where the array has a value, 0 where it is null."""
    bitmap = array.buffers()[0]
    if bitmap is None:
        return np.full(len(array), 0 if pa.types.is_null(array.type) else 1, dtype=np.uint8)
    return bits(bitmap, array.offset, len(array))


def bits(bitmap: pa.Buffer | None, offset: int, count: int) -> npt.NDArray[np.uint8]:
    """A bitmap's bits as bytes of 0 and 1."""
    if bitmap is None:
        return np.zeros(count, dtype=np.uint8)
    first = offset // 8
    packed = np.frombuffer(bitmap, dtype=np.uint8, count=(offset + count + 7) // 8 - first, offset=first)
    return np.unpackbits(packed, bitorder="little")[offset % 8 : offset % 8 + count]


def fixed(array: pa.Array, dtype: str | None = None) -> npt.NDArray[Any]:
    """The values of a fixed-width array, nulls included as whatever they hold."""
    kind = np.dtype(dtype or f"<{'u' if pa.types.is_unsigned_integer(array.type) else 'i'}{array.type.bit_width // 8}")
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), dtype=kind)
    return np.frombuffer(buffer, dtype=kind, count=len(array), offset=array.offset * kind.itemsize)


def words_digest(words: list[Hashes], count: int, length: int) -> Hashes:
    """Digests of values of `length` bytes, given word by word."""
    total = np.full(count, int(L) * length & 0xFFFFFFFFFFFFFFFF, dtype=np.uint64)
    for position, word in enumerate(words):
        total += mix(word.copy(), factor(position))
    return total


def fixed_bytes_digest(array: pa.Array, width: int) -> Hashes:
    """Digests of values of `width` bytes each."""
    count = len(array)
    buffer = array.buffers()[1]
    if buffer is None or not count or not width:
        return words_digest([], count, width)  # no bytes, or all of them null
    if width % 8 == 0:
        flat = np.frombuffer(buffer, dtype="<u8", count=count * width // 8, offset=array.offset * width)
        return words_digest([flat[position :: width // 8] for position in range(width // 8)], count, width)
    data = np.frombuffer(buffer, dtype=np.uint8, count=count * width, offset=array.offset * width)
    starts = np.arange(count, dtype=np.int64) * width
    return _gathered(data, starts, np.full(count, width, dtype=np.int64))


def bytes_digest(array: pa.Array, offset_type: str) -> Hashes:
    """Digests of strings or binary values with offsets of the given type."""
    _, offsets_buffer, data_buffer = array.buffers()
    count = len(array)
    if not count:
        return np.zeros(0, dtype=np.uint64)
    width = int(offset_type[2])
    offsets = np.frombuffer(offsets_buffer, dtype=offset_type, count=count + 1, offset=array.offset * width)
    first, last = int(offsets[0]), int(offsets[-1])
    starts = offsets[:-1].astype(np.int64)
    lengths = offsets[1:] - starts
    if array.null_count:
        lengths *= validity(array)  # a null may cover bytes, even many: do not walk them
    if first == last:
        data = np.zeros(0, dtype=np.uint8)
    else:
        data = np.frombuffer(data_buffer, dtype=np.uint8, count=last - first, offset=first)
    starts -= first
    return _gathered(data, starts, lengths)


def _gathered(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Hashes:
    """Digests of byte strings at `starts`: blocks of 32 bytes are gathered from all strings at once (numpy copies 32
    bytes as fast as 8), then mixed word by word over all strings."""
    total = lengths.astype(np.uint64)
    np.multiply(total, L, out=total)
    padded = np.zeros(len(data) + _BLOCK, dtype=np.uint8)  # a block may begin at any byte and must not end outside
    padded[: len(data)] = data
    blocks = np.ndarray((len(data) + 1,), dtype=f"V{_BLOCK}", buffer=padded, strides=(1,))
    rows = None
    if int(lengths.max()) > _LONG:
        is_long = lengths > _LONG
        rows = np.flatnonzero(is_long)
        total[rows] += _laid_out(padded.data, starts[rows], lengths[rows])
        rows = np.flatnonzero(~is_long)
        starts, lengths = starts[rows], lengths[rows]
    for first in range(0, _LONG, _BLOCK):
        if first:
            active = np.flatnonzero(lengths > first)
            if len(active) < len(lengths):
                rows = active if rows is None else rows[active]
                starts, lengths = starts[active], lengths[active]
            starts = starts + _BLOCK
        if not len(lengths):
            break
        added = _block_digest(blocks[starts].view("<u8"), lengths - first, first // 8)
        if rows is None:
            total += added
        else:
            total[rows] += added
    return total


def _block_digest(block: Hashes, left: npt.NDArray[np.int64], position: int) -> Hashes:
    """Sums over the words of each string's block, of which `left` bytes belong to the string."""
    per_row = _BLOCK // 8
    added = np.zeros(len(left), dtype=np.uint64)
    shortest, longest = int(left.min()), int(left.max())
    for index in range(min(per_row, (longest + 7) // 8)):
        word = block[index::per_row]
        if shortest < 8 * index + 8:
            word = np.bitwise_and(word, _MASKS.take(left - 8 * index, mode="clip"))
            added += mix(word, factor(position + index))
        else:
            added += mix(word.copy(), factor(position + index))
    return added


def _laid_out(data: memoryview, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Hashes:
    """Word sums of long strings: each is copied to an aligned place, then all words are mixed in one go."""
    counts = (lengths + 7) // 8
    ends = np.cumsum(counts)
    aligned = np.zeros(int(ends[-1]), dtype="<u8")
    target = aligned.view(np.uint8).data
    for start, length, word in zip(starts.tolist(), lengths.tolist(), (ends - counts).tolist(), strict=True):
        target[8 * word : 8 * word + length] = data[start : start + length]
    return entry_sums(aligned, np.concatenate(([0], ends)))


def entry_sums(entries: Hashes, offsets: npt.NDArray[np.int64]) -> Hashes:
    """Per segment of `entries` (which is overwritten): the sum of mix(e[j], j)."""
    factors = np.arange(len(entries), dtype=np.uint64)
    factors -= np.repeat(offsets[:-1], np.diff(offsets)).astype(np.uint64)
    factors *= np.uint64(2 * int(G) & 0xFFFFFFFFFFFFFFFF)
    factors += K1
    sums = np.zeros(len(entries) + 1, dtype=np.uint64)
    np.cumsum(mix(entries, factors), out=sums[1:])
    return sums[offsets[1:]] - sums[offsets[:-1]]
