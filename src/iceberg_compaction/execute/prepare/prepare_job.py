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

    from pyiceberg.table import Table

    from iceberg_compaction.metadata.cache.arrow_cache import ArrowCache
    from iceberg_compaction.metadata.deletes.deletes_for_plan import DeletesForPlan
    from iceberg_compaction.metadata.manifest.nan_counts import NanCounts
    from iceberg_compaction.metadata.manifest.snapshot_manifests import SnapshotManifests
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import RewriteTask


def prepare(
    table: Table,
    plan: Plan,
    run_id: str,
    manifests: SnapshotManifests,
    *,
    cache: ArrowCache,
    cut: Callable[[Plan, DeletesForPlan | None, NanCounts | None], list[RewriteTask]],
) -> engine_door.Job:
    """The job of a run. `manifests` are those of the planned snapshot; `cut` cuts groups into tasks."""
    deletes = deletes_for_plan.deletes_for_plan(table, plan, manifests, cache)
    nans = nan_counts.of_plan(table, plan, manifests)
    tasks = tuple(cut(plan, deletes, nans))
    context = shared_context.build_context(table, plan, run_id, cut_tasks.all_deletes(tasks))
    return engine_door.Job(tasks=tasks, context=context)
