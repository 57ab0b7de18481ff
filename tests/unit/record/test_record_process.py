"""Whether a process of the journal still lives: never "dead" unless that is sure."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from iceberg_compaction.model.run_record import Process
from iceberg_compaction.record import processes

if TYPE_CHECKING:
    from collections.abc import Iterator

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    """A process that waits for its input to end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True) as running:
        yield running
        if running.stdin is not None and not running.stdin.closed:
            running.stdin.close()


def row_of(child: subprocess.Popen[str]) -> Process:
    """The row that the process would have written."""
    return Process(host=processes.this_process().host, pid=child.pid, started=processes._started(child.pid) or "")


def end(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, but not yet taken note of


def test_this_process_lives() -> None:
    assert processes.this_process().started
    assert processes.is_alive(processes.this_process()) is True


def test_a_process_lives_until_it_ends_and_its_remains_do_not(child: subprocess.Popen[str]) -> None:
    row = row_of(child)
    assert processes.is_alive(row) is True
    end(child)
    assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
    assert processes.is_alive(row) is False
    child.wait()
    assert processes.is_alive(row) is False


def test_a_process_that_is_stopped_may_or_may_not_go_on(child: subprocess.Popen[str]) -> None:
    row = row_of(child)
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert processes.is_alive(row) is None
    child.send_signal(signal.SIGCONT)
    os.waitid(os.P_PID, child.pid, os.WCONTINUED)
    assert processes.is_alive(row) is True


@LINUX
def test_another_process_with_the_same_number_is_not_taken_for_it() -> None:
    here = processes.this_process()
    assert processes.is_alive(here.model_copy(update={"started": str(int(here.started) - 1)})) is False


def test_another_machine_container_or_boot_is_not_known() -> None:
    here = processes.this_process()
    for host in ("elsewhere", f"{here.host}0", here.host.partition("/")[0] + "/another-boot"):
        assert processes.is_alive(here.model_copy(update={"host": host})) is None


@pytest.mark.parametrize("started", ["", "Tue Nov 17 08:49:56 2026", "1794893611.25s", "-5", "soon"])
def test_a_start_in_an_unknown_form_is_not_known_and_never_dead(started: str, child: subprocess.Popen[str]) -> None:
    row = row_of(child).model_copy(update={"started": started})
    assert processes.is_alive(row) is None
    end(child)
    child.wait()
    assert processes.is_alive(row) is None


@LINUX
def test_rows_of_versions_that_read_proc_by_hand_are_still_understood(child: subprocess.Popen[str]) -> None:
    ticks = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    row = row_of(child).model_copy(update={"started": ticks})
    assert processes.is_alive(row) is True
    end(child)
    assert processes.is_alive(row) is False


@LINUX
def test_a_start_is_the_same_after_the_clock_was_set(
    monkeypatch: pytest.MonkeyPatch, child: subprocess.Popen[str]
) -> None:
    row = row_of(child)
    real = psutil.boot_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: real + 3600)
    assert psutil.Process(child.pid).create_time() > psutil.boot_time() > real
    assert processes.is_alive(row) is True


@LINUX
def test_a_clock_that_does_not_stand_still_makes_it_unknown(
    monkeypatch: pytest.MonkeyPatch, child: subprocess.Popen[str]
) -> None:
    row = row_of(child)
    readings = itertools.count(psutil.boot_time())
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: next(readings))
    assert processes.is_alive(row) is None


@LINUX
def test_a_process_that_the_system_hides_is_not_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, child: subprocess.Popen[str]
) -> None:
    row = row_of(child)
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))  # nothing is to be seen there, as with hidepid
    assert processes.is_alive(row) is None
    end(child)
    child.wait()
    assert processes.is_alive(row) is False
