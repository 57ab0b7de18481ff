"""The job that performs a plan: its tasks, with the deletes and counts that go with their files, and what they share.
A table and a plan come in; reads metadata and small delete files, writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.execute import engine_door
from iceberg_compaction.execute.prepare import cut_tasks, shared_context
from iceberg_compaction.metadata.deletes import deletes_for_plan
from iceberg_compaction.metadata.manifest import nan_counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from iceberg_compaction.model.rewrite_plan import Plan


def prepare(
    table: Table, plan: Plan, run_id: str, *, cores: int, may_hold: Callable[[ManifestFile], bool]
) -> engine_door.Job:
    """The job of a run. `cores`: how many tasks can run at a time; `may_hold` rules out manifests that have no files
    of the plan."""
    deletes, nans = deletes_for_plan.applied_deletes(table, plan), nan_counts.of_plan(table, plan, may_hold)
    tasks = tuple(cut_tasks.build_tasks(plan, deletes, nans, cores=cores))
    context = shared_context.build_context(table, plan, run_id, cut_tasks.all_deletes(tasks))
    return engine_door.Job(tasks=tasks, context=context)
