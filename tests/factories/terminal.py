"""A command in a real terminal that a test reads while the command runs."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECONDS = 60.0  # until the command counts as hung
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class TerminalScreen:
    """The text that the command has written so far."""

    def __init__(self, terminal: int, process: subprocess.Popen[bytes]) -> None:
        self._terminal, self._process = terminal, process
        self.text = ""

    def wait_for(self, pattern: str) -> None:
        """Read until the text has this pattern."""
        while not re.search(pattern, _ESCAPE.sub("", self.text)):
            assert self._read(), f"the command ended without {pattern!r}: {self.text!r}"

    def code(self) -> int:
        """Read until the command ends, and return its exit code."""
        while self._read():
            pass
        return self._process.wait(timeout=_SECONDS)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], _SECONDS)
        assert ready, f"the command hangs: {self.text!r}"
        try:
            part = os.read(self._terminal, 65536)
        except OSError:  # the end of a terminal, on Linux
            return False
        self.text += part.decode(errors="replace")
        return bool(part)


@contextmanager
def opened(command: list[str], *, columns: int) -> Iterator[TerminalScreen]:
    """Start the command in a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    env |= {"TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    try:
        yield TerminalScreen(ours, process)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
