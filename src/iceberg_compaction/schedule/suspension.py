"""A table that fails is tried again, later and later. After some failures in a row it is suspended: tried rarely, until
one succeeds or somebody resumes it."""

from __future__ import annotations

_FIRST_MS, _MOST_MS = 5 * 60_000, 3_600_000  # before it is suspended
_FIRST_SUSPENDED_MS, _MOST_SUSPENDED_MS = 3_600_000, 24 * 3_600_000


def is_suspended(failures: int, suspend_after: int) -> bool:
    return failures >= suspend_after


def wait_ms(failures: int, suspend_after: int) -> int:
    """How long a table is left alone after so many failures in a row."""
    if is_suspended(failures, suspend_after):
        return min(_MOST_SUSPENDED_MS, _FIRST_SUSPENDED_MS * (1 << min(20, failures - suspend_after)))
    return min(_MOST_MS, _FIRST_MS * (1 << min(20, max(0, failures - 1))))


def words(failures: int, until_words: str, reason: str) -> str:
    """Why a table is suspended, for people."""
    return f"Suspended after {failures} failures in a row, until {until_words}. The last one: {reason}"
