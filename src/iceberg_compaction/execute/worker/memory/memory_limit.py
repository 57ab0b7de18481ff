"""The memory that this process may use: the limit of its container, of its user or of the machine, shared with other
processes if several perform tasks. Files of the kernel come in, bytes go out."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iceberg_compaction.execute.worker import budgets

_PROC = Path("/proc/self")
_CGROUP = Path("/sys/fs/cgroup")
_CGROUP_FILES = ("memory.max", "memory/memory.limit_in_bytes")  # of version 2 and of version 1
_NO_LIMIT = 2**60  # version 1 writes a number close to 2**63 if there is no limit
_USABLE = 0.85  # of a container or a machine: the system takes memory too, and so do files on their way to storage
_LIBRARIES = 160 * 2**20  # of a process that has loaded them, where the kernel does not say


def limit(share: budgets.MemoryShare, cgroup: Path = _CGROUP, proc: Path = _PROC) -> int | None:
    """Bytes of this process at most; None: the system does not say."""
    if share.bytes is not None:
        return share.bytes
    limits = []
    if (whole := _container(cgroup, proc)) is not None:
        limits.append(max(0, int(_USABLE * whole) - share.beside) // share.processes)
    if (space := _address_space(proc)) is not None:
        limits.append(space)
    return min(limits, default=None)


def resident(proc: Path = _PROC) -> int:
    """Bytes of this process that are in memory now."""
    return _status(proc).get("VmRSS", _LIBRARIES)


def peak(proc: Path = _PROC) -> int:
    """The most bytes of this process that were in memory since `forget_peak`; 0: the system does not say."""
    return _status(proc).get("VmHWM", 0)


def forget_peak(proc: Path = _PROC) -> None:
    """Begins a new peak."""
    with contextlib.suppress(OSError):
        (proc / "clear_refs").write_text("5")


def _container(cgroup: Path, proc: Path) -> int | None:
    """The smallest limit of this process's control groups and of the machine."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else []
    for folder in _control_groups(cgroup, proc):
        for name in _CGROUP_FILES:
            text = _read(folder / name)
            if text.isdigit() and int(text) < _NO_LIMIT:
                limits.append(int(text))
    return min(limits, default=None)


def _control_groups(cgroup: Path, proc: Path) -> list[Path]:
    """The folder of this process's control group, and those above it; in a container that is the topmost one."""
    folders = [cgroup]
    for line in _read(proc / "cgroup").splitlines():
        number, _, rest = line.partition(":")
        name, _, path = rest.partition(":")
        if number == "0" and not name:
            parts = [part for part in path.split("/") if part not in ("", "..")]
            folders += [cgroup.joinpath(*parts[: count + 1]) for count in range(len(parts))]
    return folders


def _address_space(proc: Path) -> int | None:
    """Bytes in memory that a limit of the address space leaves, as Spark sets it for spark.executor.pyspark.memory."""
    try:
        import resource
    except ImportError:  # not on every system
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return None
    status = _status(proc)
    return max(0, int(most) - status.get("VmSize", 0) + status.get("VmRSS", 0))


def _status(proc: Path) -> dict[str, int]:
    lines = (line.split() for line in _read(proc / "status").splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3 and words[2] == "kB"}


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
