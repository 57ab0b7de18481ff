"""The command on a terminal of 80 columns: stages have names, and bytes move within one task on every engine."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes

if TYPE_CHECKING:
    from pathlib import Path

# The only task stands still twice, until somebody has seen on the screen how far it is.
COMMAND = """
import sys
from iceberg_compaction.execute import perform_task

def make(folder, real):
    def worker(*given):
        inner = real(*given)
        def rewrite(task, context, attempt):
            import os, time
            from iceberg_compaction.storage import task_progress
            for name, share in (("30%", 0.61), ("45%", 0.30)):
                task_progress.current().read(int(task.bytes * share))  # and nothing is written
                for _ in range(6000):
                    if os.path.exists(os.path.join(folder, name)):
                        break
                    time.sleep(0.01)
            return inner(task, context, attempt)
        return rewrite
    return worker

perform_task.worker = make(sys.argv.pop(1), perform_task.worker)
from iceberg_compaction.interfaces.cli import main
main()
"""
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def watch(program: list[str], folder: Path) -> str:
    """All that a terminal shows of a program. Percentages that are seen are told to the task."""
    child, terminal = pty.fork()
    if not child:
        os.environ.update(TERM="xterm")
        os.environ.pop("COLUMNS", None)
        os.execv(program[0], program)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 80, 0, 0))
    shown = b""
    with os.fdopen(terminal, "rb", buffering=0) as screen:
        while data := _read(screen.fileno()):
            shown += data
            for percentage in (b"30%", b"45%"):
                if percentage in shown:
                    (folder / percentage.decode()).touch()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, shown.decode()
    return _CODES.sub("", shown.decode())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that the other end is closed
        return b""


@pytest.mark.parametrize("engine", ["inline", pytest.param("spark", marks=pytest.mark.spark)])
def test_bytes_move_within_one_task(local_lake: lakes.Lake, tmp_path: Path, engine: str) -> None:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, local_lake.name("events")), 6)
    settings, program = local_lake.settings, [sys.executable, "-c", COMMAND, str(tmp_path), "run", "--engine", engine]
    program += ["--catalog-uri", str(settings.uri), "--warehouse", str(settings.warehouse), "--table", "db.events"]
    shown = watch([*program, "--state", str(tmp_path / "runs.db")], tmp_path)
    assert ("starting Spark " in shown) is (engine == "spark")
    for percentage, bar in ((30, "━" * 6 + "─" * 14), (45, "━" * 9 + "─" * 11)):
        (line, figures) = re.findall(rf"(.*{percentage}%.*)\r?\n(.*)", shown)[0]
        assert re.search(rf"db.events: rewriting {bar} {percentage}%, .* of ", line)
        assert re.search(r"0 of 6 files, .*\d s elapsed", figures)
    assert re.search(r"db.events: compacted, .* 6 of 6 files, .*\d s elapsed", " ".join(shown.split()))
    assert all(len(line.rpartition("\r")[2]) <= 80 for line in shown.split("\r\n"))
