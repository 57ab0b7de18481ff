"""A worker that has performed a task holds no memory for it when the next one begins."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import pytest

from iceberg_compaction.execute.worker import budgets
from iceberg_compaction.execute.worker.memory import memory_budget, memory_limit, memory_use, unused_memory

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 2**20


def test_memory_below_something_that_is_alive_goes_back_to_the_system() -> None:
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("this C library cannot give memory back")
    before = memory_limit.resident()
    blocks = [
        b"x" * (100_000 + place % 2) for place in range(2_000)
    ]  # too small for pages of their own, so they lie in one heap
    assert memory_limit.resident() > before + 150 * MIB
    blocks = blocks[-1:]  # at the end of the heap: what lies below stays, unless somebody asks for it
    unused_memory.release()
    assert memory_limit.resident() < before + 50 * MIB, len(blocks)


def test_it_is_given_back_only_while_no_other_task_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    note: Callable[[], None] = lambda: calls.append("released")  # noqa: E731
    monkeypatch.setattr(unused_memory, "release", note)
    process = memory_budget.MemoryBudget()
    with memory_use.MemoryUse(budgets.DEFAULT, process).reservation as running:
        assert calls == ["released"]
        running.raise_to(MIB)
        memory_use.MemoryUse(budgets.DEFAULT, process)
        assert calls == ["released"]
