"""Bloom filters of column chunks. In: the bytes of a filter. Out: whether it may hold a value. Parquet has one kind,
the split-block filter over xxHash of a value's plain encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xxhash

from iceberg_compaction.formats.parquet import format_fields, thrift

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORDS = 8  # of 32 bits in a block
_SALTS = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
_ONLY_KIND = 1  # the only member of each union in the header


class BloomFilter:
    """One filter. Raises ValueError if the bytes are not such a filter."""

    def __init__(self, data: bytes) -> None:
        header, length = thrift.parse(data)
        size = format_fields.integer(header, format_fields.Bloom.BYTES)
        kinds = [format_fields.child(header, number) for number in (2, 3, 4)]
        if any(kind is None or _ONLY_KIND not in kind for kind in kinds):
            raise ValueError("the Bloom filter is of an unknown kind")
        if size <= 0 or size % (4 * _WORDS) or length + size != len(data):
            raise ValueError(f"the Bloom filter has {len(data) - length} bytes where it says {size}")
        self._blocks = np.frombuffer(data, "<u4", size // 4, length).reshape(-1, _WORDS)

    def may_hold_any(self, values: Iterable[bytes]) -> bool:
        """Whether one of the values may be in the column. They are in plain encoding, texts without length."""
        hashes = np.array([xxhash.xxh64_intdigest(value) for value in values], np.uint64)
        blocks = self._blocks[((hashes >> np.uint64(32)) * np.uint64(len(self._blocks))) >> np.uint64(32)]
        keys = hashes.astype(np.uint32)[:, None]
        bits = np.left_shift(np.uint32(1), (keys * _SALTS) >> np.uint32(27))
        return bool(((blocks & bits) == bits).all(axis=1).any())
