"""The smallest hashes of a column's values: what a theta sketch keeps of them. Hashes come in, batch by batch; the
compact form that Apache DataSketches reads goes out. Memory holds a few thousand numbers, whatever the column has."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]

SEED = 9001  # of the hashes, in all sketches that are to be compared
NOMINAL = 4096  # hashes that a sketch keeps once it has to leave some out
_PIECE = 8 * NOMINAL
_SEED_HASH = 0x93CC  # of the seed
_EVERYTHING = 2**63 - 1  # no hash is left out
_SERIAL_VERSION, _COMPACT = 3, 3
_READ_ONLY, _EMPTY, _IS_COMPACT, _ORDERED = 2, 4, 8, 16


class ThetaHashes:
    """Distinct hashes below a bound. As long as there are few, the bound is open and the count exact."""

    def __init__(self) -> None:
        self.theta = _EVERYTHING
        self._kept: Words = np.empty(0, np.uint64)
        self._new: list[Words] = []
        self._pending = 0

    def add(self, first_words: Words) -> None:
        """Take the first 64 bits of hashes, in any order and number."""
        for at in range(0, len(first_words), _PIECE):  # the first ones lower the bound for the others
            self._add(first_words[at : at + _PIECE])

    def _add(self, first_words: Words) -> None:
        hashes = first_words >> np.uint64(1)
        hashes = hashes[(hashes != 0) & (hashes < np.uint64(self.theta))]
        if not len(hashes):
            return
        self._new.append(hashes)
        self._pending += len(hashes)
        if self._pending > _PIECE // 2:
            self._join_new()

    def _join_new(self) -> None:
        if not self._new:
            return
        ordered = np.sort(np.concatenate([self._kept, *self._new]))
        self._kept = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
        self._new, self._pending = [], 0
        if len(self._kept) > NOMINAL:
            self.theta = int(self._kept[NOMINAL])
            self._kept = self._kept[:NOMINAL]

    def compact(self) -> bytes:
        """The ordered compact form, serial version 3."""
        self._join_new()
        flags = _READ_ONLY | _IS_COMPACT | _ORDERED
        is_exact = self.theta == _EVERYTHING
        if is_exact and not len(self._kept):
            return struct.pack("<BBBBBBH", 1, _SERIAL_VERSION, _COMPACT, 0, 0, flags | _EMPTY, _SEED_HASH)
        preamble = struct.pack(
            "<BBBBBBHIf", 2 if is_exact else 3, _SERIAL_VERSION, _COMPACT, 0, 0, flags, _SEED_HASH, len(self._kept), 1.0
        )
        bound = b"" if is_exact else struct.pack("<Q", self.theta)
        return preamble + bound + self._kept.astype("<u8").tobytes()
