"""A compaction in a process of its own that is killed at a named point, as `kill -9` or a lost machine would."""

from __future__ import annotations

import importlib
import itertools
import multiprocessing
import os
import signal
from typing import TYPE_CHECKING, Any

from tests.factories import work

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.factories.lake import Lake

# What is replaced by a version that dies, in which of its calls, and whether the real thing is done before.
POINTS: dict[str, tuple[str, str, int, bool]] = {
    "noted": ("iceberg_compaction.record.sql_store.SqlStore", "begin", 1, True),
    "half-rewritten": ("iceberg_compaction.execute.worker.execute_task", "rewrite", 2, False),
    "rewritten": ("iceberg_compaction.operations.rewrite_files.change.replace_files", "replace", 1, False),
    "manifests-written": ("iceberg_compaction.catalog.publish", "publish", 1, False),
    "metadata-written": ("pyiceberg.catalog.MetastoreCatalog", "_write_metadata", 1, True),
    "published": ("iceberg_compaction.catalog.publish", "publish", 1, True),
    "second-manifests-written": ("iceberg_compaction.catalog.publish", "publish", 2, False),
    "second-published": ("iceberg_compaction.catalog.publish", "publish", 2, True),
    "done": ("iceberg_compaction.record.sql_store.SqlStore", "finish", 1, False),
}


def run_until_killed(lake: Lake, state: Path, point: str, options: dict[str, Any], run_id: str) -> None:
    """Compact `db.t` in a child that dies at the point."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.factories.dying", "iceberg_compaction.workflow.operate", "datafusion"])
    child = context.Process(target=_work, args=(lake.settings, state, point, options, run_id))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL, f"the child got past {point}"


def _work(settings: Any, state: Path, point: str, options: dict[str, Any], run_id: str) -> None:
    from dataclasses import replace

    from iceberg_compaction.catalog import connect
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.model.policies import Policy

    run = replace(wiring.new_run(store=wiring.run_store(str(state))), run_id=run_id)
    catalog = connect.connect(settings)
    owner, name = _find(POINTS[point][0]), POINTS[point][1]
    original = owner.__dict__[name]
    setattr(owner, name, _dying(original, point))
    work.compact_table(catalog, "db.t", Policy.model_validate(options), wiring.engine_factory("inline"), run)


def _dying(original: Any, point: str) -> Any:
    real: Callable[..., Any] = getattr(original, "__func__", original)
    _, _, deadly, act_first = POINTS[point]
    calls = itertools.count(1)

    def die(*given: Any, **more: Any) -> Any:
        is_deadly = next(calls) == deadly
        result = real(*given, **more) if act_first or not is_deadly else None
        if is_deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return staticmethod(die) if isinstance(original, staticmethod) else die


def _find(path: str) -> Any:
    """A module, or a class in one."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name) if name[0].isupper() else importlib.import_module(path)
