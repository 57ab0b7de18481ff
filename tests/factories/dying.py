"""A compaction in a process of its own that is killed at a named point, as `kill -9` or a lost machine would."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.factories.lake import Lake

# Where: what is replaced by a version that dies, and whether the real thing is done before.
POINTS: dict[str, tuple[str, str, bool]] = {
    "noted": ("iceberg_compaction.record.sqlite.RunStore", "begin", True),
    "half-rewritten": ("iceberg_compaction.workflow.journal._WatchedEngine", "run", False),  # see `_half`
    "rewritten": ("iceberg_compaction.execute.inline.InlineEngine", "run", True),
    "manifests-written": ("iceberg_compaction.catalog.publish", "publish", False),
    "metadata-written": ("pyiceberg.catalog.MetastoreCatalog", "_write_metadata", True),
    "published": ("iceberg_compaction.catalog.publish", "publish", True),
    "done": ("iceberg_compaction.record.sqlite.RunStore", "finish", False),
}


def run_until_killed(lake: Lake, state: Path, point: str, options: dict[str, Any], run_id: str) -> None:
    """Compact `db.t` in a child that dies at the point."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.factories.dying", "iceberg_compaction.workflow.tables", "datafusion"])
    child = context.Process(target=_work, args=(lake.settings, state, point, options, run_id))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL, f"the child got past {point}"


def _work(settings: Any, state: Path, point: str, options: dict[str, Any], run_id: str) -> None:
    from dataclasses import replace

    from iceberg_compaction.catalog import connect
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.model.policy import Policy
    from iceberg_compaction.workflow import tables

    run = replace(wiring.new_run(store=wiring.run_store(str(state))), run_id=run_id)
    catalog = connect.connect(settings)
    owner, name = _find(POINTS[point][0]), POINTS[point][1]
    original = owner.__dict__[name]
    setattr(owner, name, _dying(original, point))
    tables.compact_table(catalog, "db.t", Policy.model_validate(options), wiring.engine_factory("inline"), run)


def _dying(original: Any, point: str) -> Any:
    real: Callable[..., Any] = getattr(original, "__func__", original)

    def die(*given: Any, **more: Any) -> Any:
        if point == "half-rewritten":
            engine, tasks, context, on_result = given
            real(engine, list(_half(tasks)), context, on_result)
        elif POINTS[point][2]:
            real(*given, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    return staticmethod(die) if isinstance(original, staticmethod) else die


def _half(tasks: list[Any]) -> Iterator[Any]:
    yield from tasks[: len(tasks) // 2]


def _find(path: str) -> Any:
    """A module, or a class in one."""
    import importlib

    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name) if name[0].isupper() or name[0] == "_" else _module(path)


def _module(path: str) -> Any:
    import importlib

    return importlib.import_module(path)
