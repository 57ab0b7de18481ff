"""Large values as entries: bytes are compressed and cut into pieces that a place takes. Each piece says how many there
are, so that a value of which a piece is missing is not taken for a whole one."""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import TYPE_CHECKING

from iceberg_compaction.record.entries import door, keys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iceberg_compaction.record.entries.door import StoreEntry

_LEVEL = 1  # of zlib: 6 takes four times as long and saves a tenth
_PIECE = door.LONGEST_VALUE * 3 // 4 - 1024  # bytes, of which base64 makes four for three


def pieces(data: bytes, *words: str | int) -> dict[str, str]:
    """The entries that hold these bytes, below a key of these words."""
    packed = zlib.compress(data, _LEVEL)
    starts = range(0, len(packed), _PIECE)
    return {
        keys.key(*words, number): f"{len(starts)} {base64.b64encode(packed[start : start + _PIECE]).decode()}"
        for number, start in enumerate(starts)
    }


def join(entries: Iterable[StoreEntry]) -> bytes | None:
    """The bytes of all pieces of one value, in the order of their keys. None: some are missing or damaged."""
    parts = [entry.value.partition(" ") for entry in entries]
    if not parts or any(count != str(len(parts)) for count, _, _ in parts):
        return None
    try:
        return zlib.decompress(b"".join(base64.b64decode(text, validate=True) for _, _, text in parts))
    except (zlib.error, binascii.Error, ValueError):
        return None
