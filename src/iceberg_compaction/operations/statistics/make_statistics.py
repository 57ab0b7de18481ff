"""Counts what a plan of statistics asks for. A plan and a table come in; the change that registers the statistics goes
out, with all its files in memory and none written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.metadata import support
from iceberg_compaction.metadata.manifest import live_files, snapshot_manifests
from iceberg_compaction.metadata.partitions import partition_counts
from iceberg_compaction.operations.statistics import count_values, partition_file, statistics_change

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.metadata.manifest.snapshot_manifests import SnapshotManifests
    from iceberg_compaction.model.statistics_plan import StatisticsPlan
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.record.runs import Run


def make(
    plan: StatisticsPlan, table: Table, run: Run, engines: EngineFactory
) -> tuple[statistics_change.StatisticsChange, dict[str, int]]:
    """The change, and what was counted by name. StalePlanError: the snapshot of the plan has expired."""
    snapshot = None if plan.snapshot_id is None else table.metadata.snapshot_by_id(plan.snapshot_id)
    if snapshot is None:
        raise errors.StalePlanError(f"Snapshot {plan.snapshot_id} of {plan.table} has expired; plan again.")
    if plan.columns:
        count_values.require_library()
    manifests = snapshot_manifests.read(table.io, snapshot)
    change = statistics_change.StatisticsChange(snapshot_id=snapshot.snapshot_id, branch=plan.branch, run_id=run.run_id)
    figures = {}
    if plan.of_partitions:
        counts = partition_file.merged(table, partition_counts.count(table, manifests))
        change.partitions = partition_file.parquet(partition_file.rows(table, counts))
        figures["partitions"] = counts.num_rows
    if plan.columns:
        change.sketches = _sketches(plan, table, manifests, run, engines)
        figures["columns"] = len(plan.columns)
    return change, figures


def _sketches(
    plan: StatisticsPlan, table: Table, manifests: SnapshotManifests, run: Run, engines: EngineFactory
) -> statistics_change.SketchFile:
    live = live_files.live_files(table, manifests, cache=run.cache, branch=plan.branch)
    if reasons := support.unsupported(table, live):
        raise errors.UnsupportedError(f"Values of {plan.table} cannot be read yet: {' '.join(reasons)}")
    wanted = count_values.CountedColumns(snapshot=manifests.snapshot, live=live, columns=plan.columns)
    with engines() as engine:
        return count_values.count(table, wanted, engine, run)
