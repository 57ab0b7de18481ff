"""Gives memory that earlier tasks of a process have left unused back to the system: allocators keep it, and a worker
that performs many tasks would grow with the most that each kind of task has taken."""

from __future__ import annotations

import contextlib
import ctypes

import pyarrow as pa


def release() -> None:
    """Returns what Arrow's pool and the C library hold without need. Only some C libraries can."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
