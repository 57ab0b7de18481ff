"""Jitter without chance: each table has its own delay, the same at every time and in every process."""

from __future__ import annotations

import hashlib


def share(*words: str) -> float:
    """A number from 0 to 1 that these words always have."""
    digest = hashlib.blake2b("\n".join(words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def delay_ms(most_ms: int, *words: str) -> int:
    """The delay of something, less than the most."""
    return int(share(*words) * most_ms)


def work_id(*words: str | int) -> str:
    """An id that these words always have, so that whoever puts the same work in twice puts it in once."""
    return hashlib.blake2b("\n".join(str(word) for word in words).encode(), digest_size=16).hexdigest()
