"""The order of work when a table's manifests are rewritten: look, decide, write, prove, commit, sweep. No data file is
read or written. What goes wrong with the table is an Outcome; what goes wrong with the request is raised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors, version
from iceberg_compaction.catalog import load_tables, run_names
from iceberg_compaction.metadata import fetch, look
from iceberg_compaction.model import byte_size, events, manifest_plan, outcome
from iceberg_compaction.operations import journal
from iceberg_compaction.operations.rewrite_manifests import choose_manifests, manifest_change, manifest_facts
from iceberg_compaction.workflow import leftovers, operate

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.operations.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestGoal:
    """What is asked of a rewrite of manifests."""

    target_size_bytes: int | None = None  # None: the table's own setting
    spec_id: int | None = None  # None: all partition specs

    def __post_init__(self) -> None:
        if self.target_size_bytes is not None and self.target_size_bytes < manifest_plan.LEAST_TARGET:
            raise errors.ConfigError(
                f"A manifest of {byte_size.format_size(self.target_size_bytes)} would hold little beside its header; "
                f"the target size is {byte_size.format_size(manifest_plan.LEAST_TARGET)} at least."
            )


ANY = ManifestGoal()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """A plan, and what it was made on."""

    plan: manifest_plan.ManifestPlan
    table: Table
    sources: list[ManifestFile]


def plan_manifests(catalog: Catalog, name: str, run: Run, goal: ManifestGoal = ANY) -> manifest_plan.ManifestPlan:
    """What `rewrite_manifests` would do, and why. Reads metadata, writes nothing."""
    return _look(catalog, name, run, goal).plan


def rewrite_manifests(catalog: Catalog, name: str, run: Run, goal: ManifestGoal = ANY) -> outcome.Outcome:
    """Cluster the manifests of the branch by partition, in manifests of about the target size, where that is worth a
    commit."""

    def perform(ledger: Ledger) -> outcome.Outcome:
        look = _look(catalog, name, run, goal)
        return leftovers.attend(catalog, look.plan, run, lambda: _perform(look, run))

    return operate.remembered(name, run, perform)


def _look(catalog: Catalog, name: str, run: Run, goal: ManifestGoal) -> _Look:
    run.on_event(events.Planning(table=name, run_id=run.run_id))
    table = load_tables.load_table(catalog, name)
    snapshot = look.head_of(table, name, run.branch)
    rows = fetch.list_manifests(table.io, snapshot) if snapshot else []
    manifest_facts.check(table, rows)
    sources = manifest_facts.live_manifests(table, rows)
    asked = choose_manifests.Question(
        plan_id=f"plan-{run.run_id}",
        table=name,
        now_ms=run.clock(),
        pin=look.pin_of(table, run.branch, snapshot) if snapshot else None,
        target=goal.target_size_bytes or _target(table),
        spec_id=_known_spec(table, name, goal.spec_id),
        unwritable_specs=manifest_facts.unwritable_specs(table),
    )
    facts = manifest_facts.read(table, snapshot, sources, branch=run.branch) if snapshot else []
    plan = choose_manifests.build(facts, asked)
    files, size = sum(group.entries for group in plan.groups), sum(group.bytes for group in plan.groups)
    run.on_event(
        events.Planned(
            table=name, run_id=run.run_id, sentence=plan.sentence, files=files, bytes=size, groups=len(plan.groups)
        )
    )
    return _Look(plan=plan, table=table, sources=sources)


def _target(table: Table) -> int:
    text = table.properties.get(manifest_plan.TARGET_PROPERTY, "")
    return (
        max(manifest_plan.LEAST_TARGET, int(text))
        if text.isascii() and text.isdigit()
        else manifest_plan.DEFAULT_TARGET
    )


def _known_spec(table: Table, name: str, spec_id: int | None) -> int | None:
    if spec_id is not None and spec_id not in table.specs():
        known = ", ".join(str(one) for one in sorted(table.specs()))
        raise errors.ConfigError(f"{name} has no partition spec {spec_id}; it has {known}.")
    return spec_id


def _perform(look: _Look, run: Run) -> outcome.Outcome:
    plan = look.plan
    if plan.empty:
        return outcome.Healthy(table=plan.table, sentence=plan.sentence, run_id=run.run_id, plan_id=plan.id)
    progress = _Progress(plan, run)
    request = manifest_change.RewriteRequest(
        plan=plan,
        sources=look.sources,
        snapshot_properties={
            "engine-name": "iceberg-compaction",
            "engine-version": version.__version__,
            run_names.PROPERTY: run.run_id,
        },
        on_entries=progress.on_entries,
    )
    job = journal.command("manifests", plan.table, run.branch)
    with journal.kept(look.table, run, branch=run.branch, job=job):
        result = manifest_change.rewrite_manifests(look.table, request, run, on_commit=progress.on_commit)
    run.on_event(events.Committed(table=plan.table, run_id=run.run_id, snapshot_id=result.snapshot_id))
    return _rewritten(plan, result, run)


def _rewritten(plan: manifest_plan.ManifestPlan, result: manifest_change.RewriteResult, run: Run) -> outcome.Outcome:
    replaced = "1 manifest" if plan.replaced == 1 else f"{plan.replaced} manifests"
    files = "1 file" if result.digest.entries == 1 else f"{result.digest.entries} files"
    return outcome.Compacted(
        table=plan.table,
        sentence=(
            f"{replaced} became {result.manifests} in snapshot {result.snapshot_id}; the {files} that they list, and "
            "since when, are the same."
        ),
        run_id=run.run_id,
        plan_id=plan.id,
        snapshot_id=result.snapshot_id,
        snapshot_ids=(result.snapshot_id,),
        manifests_removed=plan.replaced,
        manifests_added=result.manifests,
        manifest_entries=result.digest.entries,
        attempts=result.attempts,
    )


class _Progress:
    """Entries that have been read."""

    def __init__(self, plan: manifest_plan.ManifestPlan, run: Run) -> None:
        self._plan, self._run, self._done = plan, run, 0
        self._files = sum(group.entries for group in plan.groups)
        self._bytes = sum(group.bytes for group in plan.groups)
        self._emit()

    def on_entries(self, count: int) -> None:
        self._done += count
        self._emit()

    def on_commit(self) -> None:
        self._run.on_event(events.Committing(table=self._plan.table, run_id=self._run.run_id))

    def _emit(self) -> None:
        self._run.on_event(
            events.Rewriting(
                table=self._plan.table,
                run_id=self._run.run_id,
                files_done=self._done,
                files_total=self._files,
                bytes_done=self._bytes * self._done // max(1, self._files),
                bytes_total=self._bytes,
            )
        )
