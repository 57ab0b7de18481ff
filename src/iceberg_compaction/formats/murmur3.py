"""MurmurHash3 (x64, 128 bits) of many values at once, as Apache DataSketches hashes what it counts. Binary values come
in as an Arrow array; the first 64 bits of each hash go out. Whole columns are hashed by vector arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_CHUNK = 16384  # values hashed at a time, so that every pass stays within the processor's cache
_PADDING = 16  # bytes behind the last value that are read and masked


def first_words(values: pa.Array, seed: int) -> Words:
    """The first 64 bits of the hash of each value of a binary array without nulls."""
    hashes = np.empty(len(values), np.uint64)
    for at in range(0, len(values), _CHUNK):
        hashes[at : at + _CHUNK] = _of_values(values.slice(at, _CHUNK).cast(pa.large_binary()), seed)
    return hashes


def _of_values(values: pa.Array, seed: int) -> Words:
    starts, data = _layout(values)
    lengths = np.diff(starts)
    words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))  # eight bytes from any position on
    h1 = np.full(len(values), seed, np.uint64)
    h2 = h1.copy()
    with np.errstate(over="ignore"):
        _body(words, starts[:-1], lengths, h1, h2)
        _tail(words, starts[:-1], lengths, h1, h2)
        return _finish(lengths.astype(np.uint64), h1, h2)


def first_words_of_numbers(numbers: Words, length: int, seed: int) -> Words:
    """The same for values of `length` bytes, at most 8: each is a number whose little-endian bytes they are."""
    hashes = np.empty(len(numbers), np.uint64)
    with np.errstate(over="ignore"):
        for at in range(0, len(numbers), _CHUNK):
            chunk = numbers[at : at + _CHUNK]
            h2 = np.full(len(chunk), seed, np.uint64)
            hashes[at : at + _CHUNK] = _finish(np.uint64(length), h2 ^ _mix1(chunk), h2)
    return hashes


def _layout(values: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where each value begins and ends, and the bytes of all, padded."""
    _, offsets, buffer = values.buffers()
    starts = np.frombuffer(offsets, np.int64, len(values) + 1, values.offset * 8)
    first, last = int(starts[0]), int(starts[-1])
    data = np.zeros(last - first + _PADDING, np.uint8)
    if last > first:
        data[: last - first] = np.frombuffer(buffer, np.uint8, last - first, first)
    return starts - first, data


def _body(words: Words, starts: NDArray[np.int64], lengths: NDArray[np.int64], h1: Words, h2: Words) -> None:
    """All whole blocks of 16 bytes. Each round mixes one block of every value that still has one."""
    rows = np.flatnonzero(lengths >= 16)
    block = 0
    while len(rows):
        at = starts[rows] + 16 * block
        a, b = h1[rows], h2[rows]
        a ^= _mix1(words[at])
        a = _rotate(a, 27) + b
        a = a * np.uint64(5) + np.uint64(0x52DCE729)
        b ^= _mix2(words[at + 8])
        b = _rotate(b, 31) + a
        b = b * np.uint64(5) + np.uint64(0x38495AB5)
        h1[rows], h2[rows] = a, b
        block += 1
        rows = rows[lengths[rows] >= 16 * (block + 1)]


def _tail(words: Words, starts: NDArray[np.int64], lengths: NDArray[np.int64], h1: Words, h2: Words) -> None:
    """What is left after the last whole block: up to 15 bytes."""
    rest = lengths & 15
    at = starts + lengths - rest
    h1 ^= _mix1(words[at] & _mask(rest))
    h2 ^= _mix2(words[at + 8] & _mask(rest - 8))


def _mask(count: NDArray[np.int64]) -> Words:
    """The lowest bytes, so many of them."""
    bits = np.clip(count, 0, 8) * 8
    return np.where(bits == 64, np.uint64(2**64 - 1), (np.uint64(1) << (bits % 64).astype(np.uint64)) - np.uint64(1))


def _finish(lengths: Words | np.uint64, h1: Words, h2: Words) -> Words:
    h1, h2 = h1 ^ lengths, h2 ^ lengths
    h1 += h2
    h2 += h1
    return _avalanche(h1) + _avalanche(h2)


def _mix1(k: Words) -> Words:
    return _rotate(k * _C1, 31) * _C2


def _mix2(k: Words) -> Words:
    return _rotate(k * _C2, 33) * _C1


def _rotate(x: Words, bits: int) -> Words:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


def _avalanche(k: Words) -> Words:
    k = (k ^ (k >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    k = (k ^ (k >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return k ^ (k >> np.uint64(33))
