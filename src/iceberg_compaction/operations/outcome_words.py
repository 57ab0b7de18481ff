"""The facts of a run in sentences for a person. Pure: facts come in, text goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from iceberg_compaction.model import byte_size, plan_cost, plurals
from iceberg_compaction.model.outcome import GroupEnd
from iceberg_compaction.model.rewrite_plan import EmptyPlan
from iceberg_compaction.operations import run_facts

if TYPE_CHECKING:
    from iceberg_compaction.operations.run_facts import Note, RunFacts


def nothing_to_do(facts: RunFacts) -> str:
    """The run had no groups, and committed nothing."""
    if isinstance(facts.plan, EmptyPlan):
        return facts.plan.sentence
    if facts.plan is not None and facts.plan.exchanges:
        return "Nothing is left to do: the delete files of the plan are gone already."
    return "Nothing is left to do: the delete files that applied to nothing are gone already."


def nothing_begun(facts: RunFacts) -> str:
    """The budget was spent before the run began."""
    return " ".join([*_notes(facts), *_left_groups(facts)])


def compacted(facts: RunFacts) -> str:
    """Something was committed, and nothing stopped the run."""
    sentences = [_change(facts), *_left_groups(facts), *_notes(facts)]
    if facts.planned_around:
        sentences.append("The other files of what failed were planned anew without it.")
    if facts.spared:
        sentences.append("Planned anew, what conflicted needs no rewrite any more.")
    return " ".join(sentences)


def all_failed(facts: RunFacts) -> str:
    """Nothing was committed, and groups failed."""
    if len(facts.groups) == 1:
        return " ".join([facts.ended(GroupEnd.FAILED)[0].sentence, *_notes(facts)])
    return " ".join([f"None of {_all(facts)} landed.", *_left_groups(facts), *_notes(facts)])


def all_spared(facts: RunFacts) -> str:
    """Nothing was committed, because nothing needs a rewrite any more."""
    they_need = plurals.form(len(facts.groups), "it needs", "they need")
    return (
        f"Nothing is left to do: others changed {_all(facts)} meanwhile, and planned anew {they_need} no rewrite "
        "any more."
    )


def all_rewritten(by: run_facts.RewrittenBy) -> str:
    """Nothing was committed, because others have rewritten all files."""
    ids = by.snapshot_ids
    where = f"snapshot {ids[0]}" if len(ids) == 1 else f"{len(ids)} snapshots, the last {ids[-1]}"
    writers = plurals.listed(by.writers)
    return f"Nothing is left to do: all files of the plan were rewritten since by {writers}, in {where}."


def all_in_conflict(facts: RunFacts) -> str:
    """Nothing was committed, because of other commits."""
    first = facts.ends[0].sentence
    if all(group.outcome is GroupEnd.DROPPED for group in facts.ends):
        sentence = f"Nothing is left of the plan, which had {_all(facts)}; make a new plan. {first}"
    elif len(facts.groups) == 1:
        sentence = first
    else:
        sentence = f"None of {_all(facts)} could be committed: {first}"
    return " ".join([sentence, *_notes(facts)])


def beyond(facts: RunFacts, reason: str) -> list[str]:
    """A sentence for each fact of a stopped run that the reason does not have."""
    sentences = []
    unknown = facts.ended(GroupEnd.UNKNOWN)
    if unknown and unknown[0].sentence not in reason:
        sentences.append(f"Nor is it known whether {len(unknown)} of {_all(facts)} landed: {unknown[0].sentence}")
    if any(group.sentence not in reason for group in facts.ended(GroupEnd.FAILED)):
        sentences += _failed(facts)
    if facts.commits:
        sentences.append(f"Before that {facts.groups_committed} of {_all(facts)} landed and stay: {_change(facts)}")
    return sentences


def _all(facts: RunFacts) -> str:
    return plurals.count(len(facts.groups), "group")


def _change(facts: RunFacts) -> str:
    """The change of the table by all commits."""
    ids = [commit.snapshot_id for commit in facts.commits]
    where = f"snapshot {ids[0]}" if len(ids) == 1 else f"{len(ids)} snapshots, the last {ids[-1]}"
    delete_files = facts.delete_files_removed - facts.exchanged_delete_files
    exchanged = _exchanged(facts, f" in {where}" if facts.proof is None else "")
    if facts.proof is None:
        sentences = [exchanged] if exchanged else []
        if delete_files:
            were, there = plurals.form(delete_files, "was", "were"), "" if exchanged else f" in {where}"
            files = plurals.count(delete_files, "delete file")
            sentences.append(f"{files} that applied to nothing {were} removed{there}.")
        return " ".join(sentences)
    change = (
        f"{plurals.count(facts.files_removed, 'file')} ({byte_size.format_size(facts.bytes_removed)}) became "
        f"{facts.files_added} "
        f"({byte_size.format_size(facts.bytes_added)}) in {where}{_deletes(facts.proof.deleted_rows, delete_files)}."
    )
    return f"{change} {exchanged}" if exchanged else change


def _exchanged(facts: RunFacts, where: str) -> str:
    """Delete files that others have taken the place of."""
    if not facts.exchanged_delete_files:
        return ""
    files, become = plurals.count(facts.exchanged_delete_files, "delete file"), f"{facts.added_delete_files:,}"
    return f"{files} became {become}{where}: no data file was rewritten there, and every row is as before."


def _deletes(rows: int, files: int) -> str:
    """The end of deletes, as the end of a sentence."""
    clauses = []
    if rows:
        clauses.append(f"{plurals.count(rows, 'deleted row is', 'deleted rows are')} gone")
    if files:
        clauses.append(f"{plurals.count(files, 'delete file was', 'delete files were')} removed")
    return f"; {' and '.join(clauses)}" if clauses else ""


def _left_groups(facts: RunFacts) -> list[str]:
    """Groups that were not committed, one sentence for each kind of end."""
    sentences = _failed(facts)
    for end, why in (
        (GroupEnd.CONFLICT, "left alone because of other commits"),
        (GroupEnd.DROPPED, "dropped because the table has moved on"),
    ):
        if groups := facts.ended(end):
            were = plurals.form(len(groups), "was", "were")
            sentences.append(f"{len(groups)} of {_all(facts)} {were} {why}: {groups[0].sentence}")
    return sentences


def _failed(facts: RunFacts) -> list[str]:
    failed = facts.ended(GroupEnd.FAILED)
    if not failed:
        return []
    stay = plurals.form(len(failed), " and stays as it was", " and stay as they were")
    stay = "" if facts.planned_around else stay
    return [f"{len(failed)} of {_all(facts)} failed{stay}: group {failed[0].id}: {failed[0].sentence}"]


def _notes(facts: RunFacts) -> list[str]:
    return [_note(note) for note in facts.notes]


def _note(note: Note) -> str:
    match note:
        case run_facts.PlannedAgain():
            plan = note.plan_sentence
            return f"Groups in conflict were planned again: {plan[0].lower()}{plan[1:]}"
        case run_facts.NotPlannedAgain():
            which = "in conflict" if note.end is GroupEnd.CONFLICT else "that failed"
            return f"Groups {which} could not be planned again: {note.reason}"
        case run_facts.LeftToOthers():
            return "Another run is at work on the partitions of groups in conflict."
        case run_facts.CommittedBefore():
            ids = note.snapshot_ids
            return f"Snapshots of this plan were committed before: {len(ids)}, the last is {ids[-1]}."
        case run_facts.TookUp():
            tasks = plurals.count(note.tasks, "task")
            return f"It went on with run {note.run_id}, which had done {note.done:,} of {tasks}."
        case run_facts.BudgetReached():
            groups = plurals.count(note.groups, "group waits", "groups wait")
            return (
                f"The run stopped for its budget after about {plan_cost.dollars(note.spent)}: {note.words}; {groups} "
                "for another run."
            )
        case run_facts.ChosenEngine():
            return note.sentence
        case run_facts.DeletesLeft():
            return f"Delete files that were to be merged or converted stay as they were: {note.reason}"
        case _:
            assert_never(note)
