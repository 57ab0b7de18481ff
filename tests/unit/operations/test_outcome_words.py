"""Sentences at the end of a run, by its facts alone."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_compaction.model.outcome import GroupEnd, GroupOutcome, Kind
from iceberg_compaction.model.policies import ProofLevel
from iceberg_compaction.model.proof import Proof, Side
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.operations import outcome_words, run_facts, run_outcome

CONFLICT, FAILED, DROPPED, UNKNOWN = GroupEnd.CONFLICT, GroupEnd.FAILED, GroupEnd.DROPPED, GroupEnd.UNKNOWN


def facts(*ends: GroupEnd, **changes: Any) -> run_facts.RunFacts:
    groups = tuple(
        GroupOutcome(id=at, partition="{}", outcome=end, sentence=f"Reason {at}.") for at, end in enumerate(ends)
    )
    return run_facts.RunFacts(table="db.t", run_id="r", plan=None, groups=groups, ends=groups, **changes)


def commit(*groups: int, snapshot_id: int = 7, deleted_rows: int = 0, delete_files: int = 0) -> run_facts.CommitFacts:
    side = Side()
    return run_facts.CommitFacts(
        snapshot_id=snapshot_id,
        groups=groups,
        files_added=1,
        bytes_added=1024,
        proof=Proof(
            level=ProofLevel.COUNTS, expected_rows=0, deleted_rows=deleted_rows, source=side, sink=side, footers=side
        ),
        effort=Effort(),
        attempts=1,
        removed_delete_files=delete_files,
    )


def test_commits_are_one_change_of_the_table() -> None:
    both = (commit(0, deleted_rows=1), commit(1, snapshot_id=8, delete_files=2))
    run = facts(GroupEnd.COMMITTED, GroupEnd.COMMITTED, commits=both, files_removed=9, bytes_removed=4096)
    assert outcome_words.compacted(run) == (
        "9 files (4.0 KiB) became 2 (2.0 KiB) in 2 snapshots, the last 8; 1 deleted row is gone and 2 delete files "
        "were removed."
    )


@pytest.mark.parametrize(("number", "words"), [(1, "1 delete file that applied to nothing was"), (2, "were removed")])
def test_a_commit_without_groups_removed_delete_files(number: int, words: str) -> None:
    assert words in outcome_words.compacted(facts(commits=(commit(delete_files=number),)))


def test_groups_that_were_left_have_a_sentence_for_each_end() -> None:
    run = facts(FAILED, CONFLICT, CONFLICT, DROPPED, GroupEnd.COMMITTED, commits=(commit(4),))
    assert outcome_words.compacted(run).endswith(
        " 1 of 5 groups failed and stays as it was: group 0: Reason 0."
        " 2 of 5 groups were left alone because of other commits: Reason 1."
        " 1 of 5 groups was dropped because the table has moved on: Reason 3."
    )


@pytest.mark.parametrize(
    ("note", "sentence"),
    [
        (run_facts.PlannedAgain(plan_sentence="Two files."), "Groups in conflict were planned again: two files."),
        (run_facts.NotPlannedAgain(end=CONFLICT, reason="No."), "Groups in conflict could not be planned again: No."),
        (run_facts.NotPlannedAgain(end=FAILED, reason="No."), "Groups that failed could not be planned again: No."),
        (run_facts.LeftToOthers(), "Another run is at work on the partitions of groups in conflict."),
        (
            run_facts.CommittedBefore(snapshot_ids=(3, 5)),
            "Snapshots of this plan were committed before: 2, the last is 5.",
        ),
    ],
)
def test_each_note_is_a_sentence(note: run_facts.Note, sentence: str) -> None:
    assert outcome_words.all_in_conflict(facts(CONFLICT, notes=(note,))) == f"Reason 0. {sentence}"


def test_a_run_that_committed_nothing_has_a_kind_by_its_groups() -> None:
    assert run_outcome.finished(facts(CONFLICT, CONFLICT)).kind is Kind.CONFLICT
    assert run_outcome.finished(facts(CONFLICT, spared=True)).kind is Kind.HEALTHY
    assert run_outcome.finished(facts(CONFLICT, FAILED)).kind is Kind.FAILED
    assert run_outcome.finished(facts(FAILED, FAILED, refused=frozenset({0}))).kind is Kind.FAILED
    assert run_outcome.finished(facts(FAILED, refused=frozenset({0}))).kind is Kind.UNSUPPORTED


def test_a_stopped_run_has_failed_if_the_reason_does_not_say_everything() -> None:
    assert run_outcome.stopped(facts(UNKNOWN), Kind.CONFLICT, "Stopped: Reason 0.").kind is Kind.CONFLICT
    stopped = run_outcome.stopped(facts(UNKNOWN, UNKNOWN), Kind.CONFLICT, "Stopped.")
    assert stopped.kind is Kind.FAILED
    assert stopped.sentence == "Stopped. Nor is it known whether 2 of 2 groups landed: Reason 0."


def test_a_stopped_run_names_its_commits() -> None:
    run = facts(GroupEnd.COMMITTED, commits=(commit(0),), files_removed=3, bytes_removed=2048)
    stopped = run_outcome.stopped(run, Kind.FAILED, "Stopped.")
    assert stopped.sentence == (
        "Stopped. Before that 1 of 1 group landed and stay: 3 files (2.0 KiB) became 1 (1.0 KiB) in snapshot 7."
    )
    assert (stopped.groups_landed, stopped.snapshot_ids) == (1, (7,))
