"""MurmurHash3 (x64, 128 bits), one value at a time, as its author describes it: an oracle for whole columns."""

from __future__ import annotations

_ALL = 2**64 - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def first_word(value: bytes, seed: int) -> int:
    """The first 64 bits of the hash."""
    h1 = h2 = seed
    whole = len(value) // 16 * 16
    for at in range(0, whole, 16):
        h1 = ((_rotate(h1 ^ _mix1(_word(value[at : at + 8])), 27) + h2) * 5 + 0x52DCE729) & _ALL
        h2 = ((_rotate(h2 ^ _mix2(_word(value[at + 8 : at + 16])), 31) + h1) * 5 + 0x38495AB5) & _ALL
    tail = value[whole:]
    h1 ^= _mix1(_word(tail[:8])) ^ len(value)
    h2 ^= _mix2(_word(tail[8:])) ^ len(value)
    h1 = (h1 + h2) & _ALL
    h2 = (h2 + h1) & _ALL
    return (_avalanche(h1) + _avalanche(h2)) & _ALL


def _word(some: bytes) -> int:
    return int.from_bytes(some, "little")


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & _ALL


def _mix1(word: int) -> int:
    return _rotate(word * _C1 & _ALL, 31) * _C2 & _ALL


def _mix2(word: int) -> int:
    return _rotate(word * _C2 & _ALL, 33) * _C1 & _ALL


def _avalanche(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _ALL
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _ALL
    return word ^ word >> 33
