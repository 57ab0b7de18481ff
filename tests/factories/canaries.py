"""Canaries: one small test for each silent reliance on a part of a library that is not promised to stay. Where the part
changes, nothing else might fail, or only much later; the canary says what changed and who relies on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def holds(condition: object, reliance: str, module: ModuleType) -> None:
    """Fails with a sentence that names the reliance and the module that has it."""
    assert condition, f"This no longer holds: {reliance}. {module.__name__} relies on it."
