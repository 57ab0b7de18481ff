"""The command in a real terminal, in a pipe, and with NO_COLOR: where colours are, and that a narrow one is enough."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from tests.factories import lake as lakes

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7][0-9;]*m")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
NAME = "a_name_that_is_wider_than_a_narrow_terminal_can_show_on_one_line"


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """`doctor` on a lake with one sick table."""
    lake = lakes.file_lake(tmp_path_factory.mktemp("terminal"))
    lakes.append_small_files(lakes.make_table(lake.catalog, lake.name(NAME)), 6)
    lakes.close(lake)
    program = "from iceberg_compaction.interfaces.cli import main; main()"
    return [sys.executable, "-c", program, "doctor", "--catalog-uri", str(lake.settings.uri)]


def in_terminal(command: list[str], columns: int, **variables: str) -> str:
    """The bytes that a terminal of so many columns gets."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**env, "TERM": "xterm-256color", **variables}
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the end of a terminal, on Linux
            break
        if not part:
            break
        written += part
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return written.decode()


def test_a_terminal_has_colours_and_its_own_width(command: list[str]) -> None:
    written = in_terminal(command, 120)
    assert COLOUR.search(written)
    assert "left out for lack of width" not in written
    narrow = ESCAPE.sub("", in_terminal(command, 50))
    assert "left out for lack of width" in narrow
    assert f"db.{NAME}" in narrow


def test_no_color_takes_colours_away(command: list[str]) -> None:
    assert not COLOUR.search(in_terminal(command, 80, NO_COLOR="1"))


def test_a_pipe_gets_plain_text_with_all_columns(command: list[str]) -> None:
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    piped = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60, env=env)
    assert "\x1b" not in piped.stdout + piped.stderr
    assert "Partitions" in piped.stdout.splitlines()[0]
    assert f"db.{NAME}" in piped.stdout
