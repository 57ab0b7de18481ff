"""Makes the plan of an expiry: the choice of snapshots, with the reasons in words, and on request the files that would
be deleted. Reads metadata, writes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.metadata.reach import reachable_files
from iceberg_compaction.model import expire_plan, plurals, snapshot_retention, times, upkeep_plan
from iceberg_compaction.operations.expire import (
    doomed_files,
    spare_shared,
    table_facts,
    undo_reach,
    unused_metadata,
)
from iceberg_compaction.plan.expiry import choose_snapshots, effective_retention
from iceberg_compaction.record import pending_removals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.model.snapshot_retention import Retention, RetentionGoal
    from iceberg_compaction.model.upkeep_plan import UpkeepStep
    from iceberg_compaction.plan.expiry.choose_snapshots import SnapshotChoice, SnapshotsOfTable
    from iceberg_compaction.record.runs import Run

_KEPT_WORDS = {
    choose_snapshots.KeptFor.HEAD: "a branch or tag points to it",
    choose_snapshots.KeptFor.AGE: "it is young enough",
    choose_snapshots.KeptFor.COUNT: "it is one of the last of its branch",
    choose_snapshots.KeptFor.NOT_NAMED: "it was not named",
    choose_snapshots.KeptFor.FLINK: "a Flink job finds its last checkpoint there, or on the way to it",
    choose_snapshots.KeptFor.IN_USE: "others are at work on it",
}
# The same for one and for many, after their number.
_STAY_WORDS = {
    choose_snapshots.KeptFor.AGE: ("is not old enough", "are not old enough"),
    choose_snapshots.KeptFor.COUNT: ("is one of the last of its branch", "are among the last of their branches"),
    choose_snapshots.KeptFor.NOT_NAMED: ("was not named", "were not named"),
    choose_snapshots.KeptFor.FLINK: ("stays for a Flink job", "stay for Flink jobs"),
    choose_snapshots.KeptFor.IN_USE: ("stays", "stay"),
}
_FILE_WORDS = {
    "data": "data files",
    "deletes": "delete files",
    "statistics": "statistics files",
    "manifest": "manifests",
    "manifest-list": "manifest lists",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRequest:
    """What a plan is made for."""

    table: str  # its name
    goal: RetentionGoal
    count_files: bool  # also find the files that would be deleted; takes as long as the expiry itself
    others: spare_shared.OtherTables


def make(table: Table, request: ExpireRequest, run: Run) -> expire_plan.ExpirePlan:
    """The plan. UnsupportedError: files of the table must not be deleted; ConfigError: what is asked for cannot be."""
    now_ms, goal = run.clock(), request.goal
    _check_garbage_collection(table, request.table)
    reachable_files.require_all_snapshots(table)
    held = effective_retention.effective(goal, table.properties, now_ms)
    effective_retention.check_age(goal, held, now_ms)
    facts = table_facts.read(table.metadata, run)
    choose_snapshots.check_ids(facts, goal, held, now_ms)
    choice = choose_snapshots.choose(facts, goal, held, now_ms)
    expired = set(choice.expired)
    kept = [each for each in table.metadata.snapshots if each.snapshot_id not in expired]
    unused = unused_metadata.find(table, kept) if goal.clean_metadata else unused_metadata.UnusedMetadata()
    pending = _pending(table, run)
    others = _check_own_files(table, request, run) if expired or pending else ()
    files = _file_steps(table, expired, request, run) if request.count_files and expired else ()
    steps = (*_steps(choice, table, unused), *files, *_pending_steps(pending))
    undo = undo_reach.notes(table.metadata, expired, held, now_ms) if expired else ()
    return expire_plan.ExpirePlan(
        id=f"plan-{run.run_id}",
        table=request.table,
        table_uuid=str(table.metadata.table_uuid),
        created_ms=now_ms,
        sentence=_sentence(choice, facts, pending),
        steps=steps,
        kept=_kept(choice, facts),
        notes=(*_retention_notes(held, goal), *unused.notes, *others, *undo),
        goal=goal,
        retention=held,
        snapshot_ids=choice.expired,
        refs=choice.removed_refs,
        schema_ids=unused.schema_ids,
        spec_ids=unused.spec_ids,
        unfinished=tuple(each.run_id for each in pending),
    )


def _check_garbage_collection(table: Table, name: str) -> None:
    if table.properties.get(snapshot_retention.GC, "true").strip().lower() == "false":
        raise errors.UnsupportedError(
            f"{name} has {snapshot_retention.GC}=false: other tables may share its files, so no snapshot expires."
        )


def _check_own_files(table: Table, request: ExpireRequest, run: Run) -> tuple[str, ...]:
    """Refuse where the table's files may be another one's. Returns notes on what could not be looked at. A table that
    needs nothing does not come here, because some catalogs are asked for each of their tables."""
    if request.goal.keep_files:
        return ("No file is deleted (--keep-files).",)
    others = request.others.neighbourhoods.of(table, run)
    if names := spare_shared.same_tables(table, others):
        raise errors.UnsupportedError(
            f"{request.table} is also there as {plurals.listed(names[:3])}, with files in the same place; "
            "these may still need what would be deleted. Drop the other entry, or expire with --keep-files."
        )
    if others.doubt is None:
        return ()
    if request.goal.allow_unlisted:
        return (f"{others.doubt} Files are deleted nevertheless (--allow-unlisted).",)
    return (f"{others.doubt} It may refer to the files, which stay until that is known, or with --allow-unlisted go.",)


def _pending(table: Table, run: Run) -> list[pending_removals.PendingRemoval]:
    if run.store is None:
        return []
    removals = pending_removals.PendingRemovals(run.store.entries).of(table_folders.entry(table))
    return [each for each in removals if each.run_id != run.run_id]


def _steps(choice: SnapshotChoice, table: Table, unused: unused_metadata.UnusedMetadata) -> list[UpkeepStep]:
    steps = []
    if choice.expired:
        by_id = {each.snapshot_id: each for each in table.metadata.snapshots}
        ages = [by_id[each].timestamp_ms for each in choice.expired]
        span = f"of {times.utc_minute(min(ages))} to {times.utc_minute(max(ages))}"
        steps.append(_step("snapshots", len(ages), f"{span}; nothing that is kept holds them"))
    if choice.removed_refs:
        words = plurals.listed(choice.removed_refs[:5])
        steps.append(_step("branches and tags", len(choice.removed_refs), f"older than they may grow: {words}"))
    for name, ids in (("schemas", unused.schema_ids), ("partition specs", unused.spec_ids)):
        if ids:
            steps.append(_step(name, len(ids), "no snapshot that stays uses them"))
    return steps


def _pending_steps(pending: Sequence[pending_removals.PendingRemoval]) -> list[UpkeepStep]:
    return [
        _step("expired before", len(each.snapshots), f"snapshots whose files run {each.run_id} has not removed")
        for each in pending
    ]


def _file_steps(table: Table, expired: set[int], request: ExpireRequest, run: Run) -> tuple[UpkeepStep, ...]:
    """The files that would be deleted."""
    if request.goal.keep_files or not request.others.can_tell(table, run):
        return ()
    metadata = table.metadata
    _, metadata_folder = table_folders.folders(table)
    with doomed_files.DoomedFiles() as doomed:
        doomed_files.collect(table.io, doomed_files.sides(metadata, expired), doomed)
        left = metadata.model_copy(
            update={
                name: [each for each in getattr(metadata, name) if each.snapshot_id not in expired]
                for name in ("statistics", "partition_statistics")
            }
        )
        doomed.spare([reachable_files.table_files(left, table.metadata_location, metadata_folder)])
        request.others.spare(table, doomed, run)
        figures = doomed.figures()
    return tuple(
        upkeep_plan.UpkeepStep(
            name=word,
            count=figures.files[kind],
            bytes=figures.bytes[kind] or None,
            sentence="only expired snapshots need them",
        )
        for kind, word in _FILE_WORDS.items()
        if figures.files[kind]
    )


def _kept(choice: SnapshotChoice, facts: SnapshotsOfTable) -> tuple[UpkeepStep, ...]:
    counts = Counter(choice.kept.values())
    steps = [_step("snapshots", counts[reason], _KEPT_WORDS[reason]) for reason in _KEPT_WORDS if counts[reason]]
    users = dict.fromkeys(who for each, who in facts.in_use.items() if each in choice.kept)
    return (*steps, *(_step("snapshots in use", 1, f"by {who}") for who in list(users)[:5]))


def _retention_notes(held: Retention, goal: RetentionGoal) -> tuple[str, ...]:
    if goal.only_ids:
        return ("Only the snapshots that were named expire; ages and counts are not looked at.",)
    bound = times.utc_minute(held.older_than_ms.value)
    least = held.min_snapshots.value
    last = plurals.form(least, "last snapshot of each branch stays", f"last {least:,} snapshots of each branch stay")
    notes = [
        f"Snapshots before {bound} expire ({held.older_than_ms.origin}), but the {last} "
        f"({held.min_snapshots.origin}); a branch or tag with a retention of its own keeps to that."
    ]
    if held.max_ref_age_ms.value < snapshot_retention.FOREVER:
        days = held.max_ref_age_ms.value / 86_400_000
        notes.append(f"Branches and tags go after {days:g} days ({held.max_ref_age_ms.origin}); main never does.")
    return tuple(notes)


def _sentence(
    choice: SnapshotChoice, facts: SnapshotsOfTable, pending: Sequence[pending_removals.PendingRemoval]
) -> str:
    parts = []
    if choice.expired:
        parts.append(f"{len(choice.expired):,} of {plurals.count(len(facts.snapshots), 'snapshot')} expire")
    if choice.removed_refs:
        parts.append(f"{plurals.count(len(choice.removed_refs), 'branch or tag', 'branches and tags')} go")
    if pending:
        parts.append("files of an earlier expiry are left to remove")
    return f"{plurals.listed(parts)}." if parts else _nothing_words(choice, facts)


def _nothing_words(choice: SnapshotChoice, facts: SnapshotsOfTable) -> str:
    """Why nothing expires. Those to which branches and tags point are only told of if there are no others: that they
    stay surprises nobody."""
    counts = Counter(choice.kept.values())
    reasons = {reason: counts[reason] for reason in _STAY_WORDS if counts[reason]}
    if not counts:
        return "The table has no snapshots."
    if not reasons:
        return "No snapshot can expire: a branch or tag points to each."
    if set(reasons) == {choose_snapshots.KeptFor.AGE}:
        return "No snapshot is old enough to expire."
    parts = [f"{count:,} {plurals.form(count, *_STAY_WORDS[reason])}" for reason, count in reasons.items()]
    if choose_snapshots.KeptFor.IN_USE in reasons:  # the last of them
        in_use = [each for each, reason in choice.kept.items() if reason is choose_snapshots.KeptFor.IN_USE]
        parts[-1] += f" because of another run on the table ({facts.in_use[in_use[0]]})"
    return f"No snapshot expires: {plurals.listed(parts)}."


def _step(name: str, count: int, sentence: str) -> UpkeepStep:
    return upkeep_plan.UpkeepStep(name=name, count=count, sentence=sentence)
