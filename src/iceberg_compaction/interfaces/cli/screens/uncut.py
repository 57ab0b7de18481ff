"""A console that never cuts a line."""

from __future__ import annotations

from typing import Any

from rich.console import Console


class UncutConsole(Console):
    """Lines that are wider than the screen are left to the terminal, which wraps them and can copy them as one."""

    def print(self, *objects: Any, **how: Any) -> None:
        super().print(*objects, **{"crop": False, **how})
