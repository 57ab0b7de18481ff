"""Which process a run is in, and whether that process still lives. Within one machine the system knows; of other
machines nothing is known but what they write down."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from iceberg_compaction.model.record import Process

if TYPE_CHECKING:
    from iceberg_compaction.model.record import UnfinishedRun

_PROC = Path("/proc")


def this_process() -> Process:
    """The process that asks."""
    return Process(host=_host(), pid=os.getpid(), started=_started(os.getpid()) or "")


def is_alive(process: Process) -> bool | None:
    """Whether the process still runs. None: that cannot be known from here."""
    if process.host != _host() or not process.started:
        return None
    return _started(process.pid) == process.started


def is_over(run: UnfinishedRun, now_ms: int, silent_ms: int) -> bool:
    """Whether the run surely does nothing any more, or, where that cannot be known, has been silent for so long."""
    if run.ended:
        return True
    alive = is_alive(run.start.process)
    return now_ms - run.seen_ms >= silent_ms if alive is None else not alive


def _host() -> str:
    """Where numbers of processes mean the same as here. Containers on one machine may share its name, not its numbers,
    and after a restart the numbers begin anew."""
    parts = [platform.node()]
    try:
        parts.append((_PROC / "sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink(_PROC / "self/ns/pid"))
    except OSError:
        pass  # not Linux: the name has to do
    return "/".join(parts)


def _started(pid: int) -> str | None:
    """When the process with this number began, in the system's own words; None: there is none, or only its remains."""
    if sys.platform == "linux":
        try:
            # The second field is the program's name in parentheses, and may itself hold any of them.
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    if sys.platform == "win32":
        return None
    told = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return told.stdout.strip() or None
