"""Which process a run is in, and whether that process still lives. Within one machine the system knows; of other
machines nothing is known but what they write down."""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from iceberg_compaction.model.run_record import Process

if TYPE_CHECKING:
    from iceberg_compaction.model.run_record import UnfinishedRun

_LINUX = sys.platform == "linux"
# Linux: clock ticks between the boot and the start of the process. Elsewhere: seconds since 1970.
_START = re.compile(r"\d+" if _LINUX else r"\d+\.\d+")
_CLOCK_READINGS = 3


def this_process() -> Process:
    """The process that asks."""
    return Process(host=_host(), pid=os.getpid(), started=_started(os.getpid()) or "")


def is_alive(process: Process) -> bool | None:
    """Whether the process still runs. None: that cannot be known from here."""
    if process.host != _host() or not _START.fullmatch(process.started):
        return None  # another machine, or a start in a form that an earlier version wrote on this system
    started = _started(process.pid)
    if started is None or started == process.started:
        return started is not None
    # The number belongs to another process by now. Where starts are times of the day, the clock may have been set.
    return False if _LINUX and started else None


def is_over(run: UnfinishedRun, now_ms: int, silent_ms: int) -> bool:
    """Whether the run surely does nothing any more, or, where that cannot be known, has been silent for so long."""
    if run.ended:
        return True
    alive = is_alive(run.start.process)
    return now_ms - run.heartbeat_ms >= silent_ms if alive is None else not alive


def _host() -> str:
    """Where numbers of processes mean the same as here. Containers on one machine may share its name, not its numbers,
    and after a restart the numbers begin anew.

    psutil has neither of the two that Linux adds. It does not know of namespaces, and its time of boot is a time of the
    day, which moves when the clock is set; the kernel's name for the boot does not."""
    parts = [platform.node()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    except OSError:
        pass  # not Linux: the name has to do
    return "/".join(parts)


def _started(pid: int) -> str | None:
    """The start of the process with this number. None: there is none, or only its remains. Empty: the system does not
    say."""
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        return _ticks_since_boot(pid) if _LINUX else repr(process.create_time())
    except psutil.ZombieProcess:
        return None
    except psutil.NoSuchProcess:
        return "" if _is_hidden(pid) else None
    except psutil.AccessDenied:
        return ""


def _ticks_since_boot(pid: int) -> str:
    """Linux counts the start of a process from the boot, and psutil adds the boot's time of the day, which moves when
    the clock is set. The difference of both does not move, unless somebody sets the clock in between."""
    for _ in range(_CLOCK_READINGS):
        boot = psutil.boot_time()
        seconds = psutil.Process(pid).create_time() - boot
        if psutil.boot_time() == boot:
            return str(round(seconds * os.sysconf("SC_CLK_TCK")))
    return ""


def _is_hidden(pid: int) -> bool:
    """Whether there is a process with this number all the same: /proc may show processes to their owners only."""
    if not _LINUX:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
