"""Whether a run can be resumed, and what is stored of it. A run store and a run's id come in. Where there is nothing to
resume, a ConfigError says why in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import load_tables
from iceberg_compaction.metadata import reachable
from iceberg_compaction.model import checkpoint, durations, policies, resume_view
from iceberg_compaction.operations.operation import Legacy
from iceberg_compaction.operations.rewrite_files.resume import inherit_plan, take_up
from iceberg_compaction.record import journal
from iceberg_compaction.record.checkpoint import checkpoints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.catalog import Catalog

    from iceberg_compaction.model.checkpoint import CheckpointHead
    from iceberg_compaction.model.run_record import UnfinishedRun
    from iceberg_compaction.operations.rewrite_files.resume.inherit_plan import Examined
    from iceberg_compaction.record.checkpoint.checkpoints import HeldHead
    from iceberg_compaction.record.runs import Run


def find(run: Run, run_id: str) -> HeldHead:
    """The checkpoint of a run that can be resumed; the first, if it has several. ConfigError: it cannot be."""
    if run.store is None:
        raise errors.ConfigError("There is no run store, so that no run can be resumed.")
    kept = checkpoints.Checkpoints(run.store.entries)
    heads = [held for held in kept.heads() if run_id in held.head.writers]
    unfinished = {each.start.run_id: each for each in run.store.unfinished()}
    over = {each.start.run_id for each in run.watch.over(list(unfinished.values()), run.store)}
    owners = {held.head.owner for held in heads if held.head.owner != checkpoint.NOBODY}
    for owner in sorted({run_id, *owners}):
        if owner in unfinished and owner not in over:
            raise errors.ConfigError(_at_work(run_id, unfinished[owner]))
    if not heads:
        raise errors.ConfigError(_nothing(run_id, unfinished.get(run_id)))
    keep_ms = run.store.periods.checkpoints_ms
    fresh = [held for held in heads if run.clock() - held.head.saved_ms < keep_ms]
    if not fresh:
        raise errors.ConfigError(
            f"The checkpoint of run {run_id} is older than {durations.words(keep_ms / 1000)} and cannot be used any "
            "more; `iceberg-compact run` does its work anew."
        )
    return fresh[0]


def _at_work(run_id: str, other: UnfinishedRun) -> str:
    where = f"process {other.start.process.pid} on {other.start.process.machine}"
    if other.start.run_id == run_id:
        return f"Run {run_id} is still at work on {other.start.table} ({where}); wait until it has ended, or cancel it."
    return f"Run {other.start.run_id} has taken over run {run_id}, and is at work on it ({where})."


def _nothing(run_id: str, unfinished: UnfinishedRun | None) -> str:
    if unfinished is None:
        return f"Run {run_id} has ended and left nothing to resume."
    command = journal.command_line("run", unfinished.start.table, unfinished.start.branch)
    if unfinished.taken_over:
        return (
            f"Nothing of run {run_id} is left to resume: another run has taken it over. "
            f"{command} does what is left to do."
        )
    return (
        f"Run {run_id} left nothing to resume. Its commits stay; {command} removes its other files and does what is "
        "left to do."
    )


def show(run: Run, catalog: Catalog, held: HeldHead) -> resume_view.ResumeView:
    """What is stored of a run, and how much of it can be used on the table as it is now. Writes nothing."""
    assert run.store is not None  # it has the checkpoint
    head, content = held.head, checkpoints.Checkpoints(run.store.entries).content(held.head)
    view = _view(head, run.clock()).model_copy(update={"stored": len(content.results)})
    if content.plan is not None:
        view = view.model_copy(update={"strategy": policies.name_of(content.plan.policy.strategy)})
    table = load_tables.load_table(catalog, head.entry.table)
    in_table = frozenset(reachable.names(table, head.writers))
    try:
        examined = inherit_plan.examine(table, Legacy(held=held, content=content, in_table=in_table), run)
    except take_up.WORTHLESS as error:
        return view.model_copy(update={"reason": str(error)})
    return _with_groups(view, examined)


def _view(head: CheckpointHead, now_ms: int) -> resume_view.ResumeView:
    return resume_view.ResumeView(
        run_id=head.run_id,
        plan_id=head.plan_id,
        table=head.entry.table,
        branch=head.branch,
        version=head.version,
        writers=head.writers,
        saved_ms=head.saved_ms,
        age_seconds=(now_ms - head.saved_ms) / 1000,
        cores=head.cores,
        tasks=head.tasks,
        stored=0,
        bytes=head.bytes,
    )


def _with_groups(view: resume_view.ResumeView, examined: Examined) -> resume_view.ResumeView:
    partitions: Sequence[str] = examined.plan.groups.columns["partition"].to_pylist()
    groups = tuple(
        resume_view.StoredGroup(
            id=group.id,
            partition=partition,
            completed=tuple(task.id for task in group.tasks if task.file_paths in group.results),
            pending=tuple(task.id for task in group.tasks if task.file_paths not in group.results),
            ready=group.complete,
            reason=group.reason,
        )
        for group, partition in zip(examined.groups, partitions, strict=True)
    )
    done = sum(task.bytes for group in examined.groups for task in group.tasks if task.file_paths in group.results)
    return view.model_copy(update={"groups": groups, "bytes_done": done})
