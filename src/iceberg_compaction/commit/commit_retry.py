"""Waits between attempts, from the table's properties `commit.retry.*` and `commit.status-check.*`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_log = logging.getLogger(__name__)
_DIGITS = 19  # of the largest long


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Waits that double from `min_ms` to `max_ms`: at most `retries` of them, and at most `total_ms` with the work
    between them."""

    retries: int
    min_ms: int
    max_ms: int
    total_ms: int

    def waits(self, random: Callable[[], float], clock: Callable[[], int]) -> Iterator[float]:
        """Yield the seconds to wait before each retry, with up to a tenth added so that losers do not meet again. Time
        counts from this call on; the clock gives milliseconds."""
        return self._waits(random, clock, clock())

    def _waits(self, random: Callable[[], float], clock: Callable[[], int], started_ms: int) -> Iterator[float]:
        waited = 0.0
        for retry in range(self.retries):
            wait = min(self.max_ms, self.min_ms * 2**retry) * (1 + 0.1 * random())
            waited += wait
            if max(waited, clock() - started_ms + wait) > self.total_ms:
                return
            yield wait / 1000


def commit_retry(properties: Mapping[str, str]) -> Backoff:
    """Waits after a lost race for the table."""
    return _from_properties(
        properties, "commit.retry", Backoff(retries=4, min_ms=100, max_ms=60_000, total_ms=1_800_000)
    )


def status_check(properties: Mapping[str, str]) -> Backoff:
    """Waits after a commit whose state the catalog did not report."""
    default = Backoff(retries=3, min_ms=1_000, max_ms=60_000, total_ms=1_800_000)
    return _from_properties(properties, "commit.status-check", default)


def _from_properties(properties: Mapping[str, str], prefix: str, default: Backoff) -> Backoff:
    return Backoff(
        retries=number(properties, f"{prefix}.num-retries", default.retries),
        min_ms=number(properties, f"{prefix}.min-wait-ms", default.min_ms),
        max_ms=number(properties, f"{prefix}.max-wait-ms", default.max_ms),
        total_ms=number(properties, f"{prefix}.total-timeout-ms", default.total_ms),
    )


def number(properties: Mapping[str, str], name: str, default: int) -> int:
    """Read a number. A wrong property must not fail a finished rewrite: a warning names the default that is used."""
    text = properties.get(name, str(default))
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    _log.warning("The table property %s is %r, which is not a number; %d is used.", name, text, default)
    return default
