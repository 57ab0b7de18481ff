"""Commits of others between a run's plan and its own commit, or in the middle of that. A run plans and applies in one
go; here the halves are apart, so that a test can act in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from iceberg_compaction.catalog import publish
from iceberg_compaction.operations.rewrite_files import rebase

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction import Compactor, Outcome, Plan


def apply_as_planned(compactor: Compactor, plan: Plan) -> Outcome:
    """Perform the plan on the snapshot that it was made on, as the run would that made it. `Compactor.apply` looks at
    the table anew and takes what others did meanwhile into account."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rebase, "rebase", lambda plan, view: rebase.Rebased(plan=plan, dropped={}))
        return compactor.apply(plan)


def before_publishing(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let somebody else commit after our first validation and right before our publication."""
    real = publish.publish

    def racing(*arguments: Any) -> None:
        monkeypatch.setattr(publish, "publish", real)
        act()
        real(*arguments)

    monkeypatch.setattr(publish, "publish", racing)
