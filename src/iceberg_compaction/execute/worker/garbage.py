"""Pauses the search for garbage. Footers are trees of many small objects: looking for cycles among them takes longer
than parsing them, and there are none."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """While this lasts, nobody looks for garbage. Where several threads pause it, the first to begin ends it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
