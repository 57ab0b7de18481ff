"""The process of a run, and whether it still runs. The operating system answers that for its own machine; for other
machines there are only the heartbeats in the run store."""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path

import psutil

from iceberg_compaction.model.run_record import Process

_LINUX = sys.platform == "linux"
# Linux: clock ticks from the boot to the start of the process. Elsewhere: seconds since 1970.
_START = re.compile(r"\d+" if _LINUX else r"\d+\.\d+")
_CLOCK_READINGS = 3


def this_process() -> Process:
    """Return the identity of the current process."""
    return Process(host=_host(), pid=os.getpid(), started=_started(os.getpid()) or "")


def is_alive(process: Process) -> bool | None:
    """Return whether the process still runs. None: this machine cannot tell, or the process is stopped and may or may
    not go on."""
    if process.host != _host() or not _START.fullmatch(process.started):
        return None  # another machine, or a start in the form of an earlier version
    started = _started(process.pid)
    if started is None:
        return False
    if started == process.started:
        return None if _is_stopped(process.pid) else True
    # Another process has the number by now. Where starts are times of the day, the clock may have been set.
    return False if _LINUX and started else None


def _host() -> str:
    """Return a name for everything that shares the numbers of processes. Containers on one machine may share its name
    but not its numbers, and after a restart the numbers begin anew.

    Linux has a name for each of these; psutil has not. psutil knows no namespaces, and its time of boot is a time of
    the day, which moves when the clock is set. The kernel's name of the boot does not move."""
    parts = [platform.node()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    except OSError:
        pass  # not Linux: the name must be enough
    return "/".join(parts)


def _started(pid: int) -> str | None:
    """Return the start of the process with this number. None: there is no such process, or only a zombie. Empty: the
    system does not say."""
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


def _is_stopped(pid: int) -> bool:
    """Return whether a signal or a debugger holds the process."""
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return False


def _ticks_since_boot(pid: int) -> str:
    """Return the start of a process as Linux counts it, from the boot. psutil adds the boot's time of the day, which
    moves when the clock is set. The difference of both does not move, unless the clock is set in between."""
    for _ in range(_CLOCK_READINGS):
        boot = psutil.boot_time()
        seconds = psutil.Process(pid).create_time() - boot
        if psutil.boot_time() == boot:
            return str(round(seconds * os.sysconf("SC_CLK_TCK")))
    return ""


def _is_hidden(pid: int) -> bool:
    """Return whether there is a process that /proc does not show: it may show processes to their owners only."""
    if not _LINUX:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
