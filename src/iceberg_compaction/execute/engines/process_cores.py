"""The cores that this process may use: those that it is bound to, and no more than the quota of its container."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def available(cgroup: Path = _CGROUP) -> int:
    """At least one. `cgroup`: the folder in which the kernel shows the limits of the container."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota(cgroup)
    return max(1, bound if quota is None else min(bound, quota))


def _quota(cgroup: Path) -> int | None:
    """Whole cores that the container may use, of either version of control groups; None: there is no limit."""
    if (both := _read(cgroup / "cpu.max")) is not None:
        quota, _, period = both.partition(" ")
    else:
        quota, period = (_read(cgroup / "cpu" / f"cpu.cfs_{name}_us") or "" for name in ("quota", "period"))
    return int(quota) // int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
