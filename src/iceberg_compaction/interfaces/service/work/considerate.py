"""Upkeep that does not slow others: the share of a machine's cores that runs may use, by binding their threads, and all
that these start, to some of them."""

from __future__ import annotations

import math
import os


def bind_thread(share: float) -> int:
    """Bind this thread, and those and the processes that it starts, to a share of the cores that it has, at least one.
    Returns how many; elsewhere than on Linux nothing is bound."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = sorted(os.sched_getaffinity(0))
    count = max(1, math.floor(share * len(cores)))
    if count < len(cores):
        os.sched_setaffinity(0, cores[-count:])
    return count
