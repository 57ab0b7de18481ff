"""The health of one table, from metadata alone. Tables that cannot be rewritten yet still have a health."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.catalog import catalog_identity, load_tables
from iceberg_compaction.inspect import assess, delete_cost, health_request, lifecycle_notes
from iceberg_compaction.metadata import (
    look,
    maintainers,
    rewrite_times,
    snapshot_log,
    table_folders,
    target_partitions,
)
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.model.policies import Policy, Strategy
from iceberg_compaction.model.run_figures import HealthEntry, PartitionExtremes, TableFigures
from iceberg_compaction.model.table_view import DATA
from iceberg_compaction.operations.rewrite_files.planning import planning_look
from iceberg_compaction.operations.rewrite_manifests import choose_manifests, manifest_facts
from iceberg_compaction.plan import plan_request, quick_look
from iceberg_compaction.plan.triggers import extremes, measures, partition_scores

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from iceberg_compaction.model.manifest_plan import ManifestPlan
    from iceberg_compaction.model.table_health import TableHealth
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.storage.s3 import bucket_rules

_MANY_DELETES = Policy(strategy=Strategy.DELETE_FILES, delete_file_threshold=health_request.MANY_DELETES)
_EVERY_FILE = Policy(rewrite_all=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosedTable:
    """The health of a table, and the identity of its catalog, so that looks at it at different times meet."""

    health: TableHealth
    catalog: str
    extremes: PartitionExtremes | None = None

    def entry(self, now_ms: int) -> HealthEntry:
        """The look as the run store keeps it."""
        figures = _figures(self.health).model_copy(update={"extremes": self.extremes})
        return HealthEntry(at_ms=now_ms, catalog=self.catalog, table=self.health.table, figures=figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLook:
    """How a table is looked at."""

    branch: str = "main"
    worst: int = health_request.WORST  # the number of partitions to name
    cache: arrow_cache.ArrowCache = arrow_cache.NO_CACHE
    now_ms: int | None = None  # without it, scores of partitions do not count the time since their last rewrite
    rules: bucket_rules.BucketRules | None = None  # of buckets; without them nobody looks for them


PLAIN = HealthLook()


def diagnose(catalog: Catalog, name: str, policy: Policy, how: HealthLook = PLAIN) -> TableHealth:
    """Assess the table's health by a policy."""
    return diagnose_table(catalog, name, policy, how).health


def diagnose_table(catalog: Catalog, name: str, policy: Policy, how: HealthLook = PLAIN) -> DiagnosedTable:
    """The same with the identity of the table's catalog."""
    return diagnose_loaded(load_tables.load_table(catalog, name), name, policy, how)


def diagnose_loaded(table: Table, name: str, policy: Policy, how: HealthLook = PLAIN) -> DiagnosedTable:
    """The same of a table that was loaded just now."""
    branch, cache, rules = how.branch, how.cache, how.rules
    seen = look.look(table, name=name, branch=branch, cache=cache)
    # As a plan sees it: files of older specs may move to partitions that have small files.
    view = target_partitions.add(table, seen.view, seen.manifests, cache)
    no_work = health_request.NO_WORK
    work = _work(planning_look.with_delete_ways(table, view, policy), policy)
    request = health_request.Checkup(
        policy=policy,
        sizes=plan_request.resolve(view, policy).sizes,
        sick=work != no_work,
        work=work,
        delete_work=_delete_work(table, view),
        full_work=_work(view, _EVERY_FILE) if _has_older_specs(view) else no_work,
        manifest_plan=_manifest_plan(table, seen),
        applied=_applied_deletes(view),
        history=snapshot_log.read_history(table, branch=branch),
        maintainers=tuple(each.maintainer for each in maintainers.read(table.metadata, branch)),
        worst=how.worst,
    )
    health, extreme = _with_scores(assess.assess(view, request), view, request, table, how.now_ms)
    if rules is not None:
        folders = table_folders.roots(table)
        notes = lifecycle_notes.notes(folders, rules.of(table.io, folders))
        health = health.model_copy(update={"lifecycle": notes})
    return DiagnosedTable(health=health, catalog=catalog_identity.identity(table), extremes=extreme)


def _with_scores(
    health: TableHealth, view: TableView, request: health_request.Checkup, table: Table, now_ms: int | None
) -> tuple[TableHealth, PartitionExtremes | None]:
    """The health with scores of the partitions that it names, and the extremes of all partitions."""
    if now_ms is None or view.pin is None:
        return health, None
    view = rewrite_times.add(view, table.metadata, now_ms=now_ms)
    sizes, triggers = request.sizes, request.policy.triggers
    measured = measures.measure(view, sizes, triggers)
    keys = [(each.spec_id, each.partition) for each in health.worst_partitions]
    scores = partition_scores.of_partitions(measured, view.past, keys)
    worst = tuple(
        each.model_copy(update={"rewrite_score": scores.get((each.spec_id, each.partition))})
        for each in health.worst_partitions
    )
    return health.model_copy(update={"worst_partitions": worst}), extremes.of(measured, sizes, triggers, now_ms)


def _figures(health: TableHealth) -> TableFigures:
    same = TableFigures.model_fields.keys() & type(health).model_fields.keys()
    return TableFigures(**{name: getattr(health, name) for name in same})


def _work(view: TableView, policy: Policy) -> health_request.RunWork:
    expected = quick_look.expect(view, policy)
    return health_request.RunWork(
        files=expected.files,
        bytes=expected.bytes,
        useless_deletes=expected.useless_deletes,
        exchanged_deletes=expected.exchanged_deletes,
    )


def _delete_work(table: Table, view: TableView) -> health_request.RunWork:
    """The work of `delete-files`. The ways to treat deletes are compared only where there are many."""
    if view.delete_files is None or not _work(view, _MANY_DELETES).files:
        return health_request.NO_WORK
    return _work(planning_look.with_delete_ways(table, view, _MANY_DELETES), _MANY_DELETES)


def _has_older_specs(view: TableView) -> bool:
    if view.pin is None or not view.files.num_rows:
        return False
    return bool(pc.any(pc.not_equal(view.files["spec_id"], view.pin.spec_id)).as_py())


def _manifest_plan(table: Table, seen: look.TableLook) -> ManifestPlan | None:
    """The plan of `manifests` for the table; None: it would refuse the table."""
    if seen.manifests is None:
        return None
    try:
        manifest_facts.check(table, seen.manifests.manifest_files)
        manifests = manifest_facts.with_live_files(table, seen.manifests)
        facts = manifest_facts.of_files(manifests, seen.view.files)
    except (errors.UnsupportedError, errors.MetadataError):
        return None
    request = choose_manifests.ManifestPlanRequest(
        plan_id="",
        table=seen.view.table,
        now_ms=0,
        pin=seen.view.pin,
        target=manifest_facts.target_size(table),
        unwritable_specs=manifest_facts.unwritable_specs(table),
    )
    return choose_manifests.build(facts, request)


def _applied_deletes(view: TableView) -> delete_cost.AppliedCounts | None:
    """Count the delete files that apply to each data file, if there are any."""
    if view.delete_files is None:
        return None
    per_data_file = view.delete_files.filter(pc.equal(view.files["content"].combine_chunks(), DATA))
    dangling = pc.sum(view.dangling).as_py() or 0
    return delete_cost.AppliedCounts(per_data_file=per_data_file.to_numpy(), dangling=dangling)
