"""Groups are committed in batches while others commit too: what is in conflict costs only itself, every batch has its
proof, and the outcome tells of every group."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate
from tests.factories import manifests, storage, work
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.cities import rows as city_rows
from tests.factories.lake import make_table

from iceberg_compaction import Compactor, Event, Kind, Policy
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.outcome import GroupEnd

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from tests.factories.lake import Lake

    from iceberg_compaction import Outcome

CITIES = ("Bern", "Oslo", "Rome")  # one group each, in this order


@pytest.fixture
def table(local_lake: Lake) -> Table:
    made = make_table(local_lake.catalog, "db.t", SCHEMA, spec=BY_CITY)
    for number in range(3):
        append(made, number * 12)
    return made


def append(table: Table, first: int, cities: tuple[str, ...] = CITIES) -> None:
    current(table).append(city_rows(first, cities, 12))


def current(table: Table) -> Table:
    return table.catalog.load_table(table.name())


def rows(table: Table) -> Counter[str]:
    return storage.row_multiset(current(table).scan().to_arrow())


def ours(table: Table) -> list[dict[str, str]]:
    """The summaries of the snapshots that compaction made, the oldest first."""
    found = [dict(snapshot.summary.additional_properties) for snapshot in current(table).snapshots()]
    return [summary for summary in found if "compaction.run-id" in summary]


class Others:
    """Somebody else, who acts when the run is about to commit for the nth time."""

    def __init__(self, **acts: Callable[[], object]) -> None:
        self._acts = {int(name.removeprefix("before_")): act for name, act in acts.items()}
        self._commits = 0

    def __call__(self, event: Event) -> None:
        if event.kind == "committing":
            self._commits += 1
            self._acts.pop(self._commits, lambda: None)()


def compact(table: Table, others: Callable[[Event], object] = lambda event: None, **options: Any) -> Outcome:
    policy = Policy(**{"min_input_files": 2, "partial_progress": True} | options)
    run = wiring.new_run(on_event=others)
    outcome = work.compact_table(table.catalog, "db.t", policy, wiring.engine_factory("inline"), run)
    check(table, outcome)
    return outcome


def check(table: Table, outcome: Outcome) -> None:
    """What must hold however a run ends: no file is left over, and each batch changes no number of rows (11014)."""
    known = storage.referenced_data_files(current(table))
    found = {path for path in storage.files_under(table) if path.endswith(".parquet")}
    assert {path for path in found if not path.endswith("-deletes.parquet")} <= known
    for summary in ours(table):
        gone = int(summary.get("compaction.proof.deleted-rows", "0"))
        assert int(summary["added-records"]) == int(summary["deleted-records"]) - gone
        assert int(summary["compaction.proof.rows"]) == int(summary["added-records"])
    assert len(outcome.group_outcomes) == outcome.groups
    ends = Counter(one.outcome for one in outcome.group_outcomes)
    assert (ends[GroupEnd.COMMITTED], ends[GroupEnd.CONFLICT]) == (outcome.groups_landed, outcome.groups_conflicted)
    assert {one.snapshot_id for one in outcome.group_outcomes} - {None} == set(outcome.snapshot_ids)


def ends(outcome: Outcome) -> list[tuple[str, str]]:
    return [(one.partition.split('"')[3], one.outcome.value) for one in outcome.group_outcomes]


LANDED = [(city, "landed") for city in CITIES]


def test_r15_every_group_is_a_commit_with_its_own_proof(table: Table) -> None:
    before, head = rows(table), current(table).current_snapshot()
    assert head is not None
    outcome = compact(table)
    assert (outcome.kind, ends(outcome)) == (Kind.COMPACTED, LANDED)
    assert (outcome.groups, outcome.groups_landed, outcome.files_removed, outcome.files_added) == (3, 3, 9, 3)
    assert outcome.sentence.startswith("9 files (")
    assert f"in 3 snapshots, the last {outcome.snapshot_id}." in outcome.sentence
    summaries = ours(table)
    assert [summary["compaction.batch"] for summary in summaries] == ["1", "2", "3"]
    assert {summary["compaction.groups"] for summary in summaries} == {"1"}
    assert {summary["compaction.run-id"] for summary in summaries} == {outcome.run_id}
    assert {summary["compaction.plan-id"] for summary in summaries} == {outcome.plan_id}
    assert len({summary["compaction.proof.checksum"] for summary in summaries}) == 3
    assert outcome.proof is not None
    assert sum(int(summary["compaction.proof.rows"]) for summary in summaries) == outcome.proof.rows == 36
    # The same start for all (R15): what was planned on, and its sequence number on every new file.
    assert {summary["compaction.planned-snapshot-id"] for summary in summaries} == {str(head.snapshot_id)}
    live = [entry for entry in current(table).inspect.entries().to_pylist() if entry["status"] != 2]
    assert {entry["sequence_number"] for entry in live} == {head.sequence_number}
    assert rows(table) == before
    assert compact(table).kind is Kind.HEALTHY


@pytest.mark.parametrize(
    ("options", "batches"),
    [
        ({"partial_progress": False}, ["3"]),
        ({"partial_progress_max_commits": 1}, ["3"]),
        ({"partial_progress_max_commits": 2}, ["2", "1"]),
        ({"partial_progress": True, "max_files_to_rewrite": 3}, ["1"]),
        ({"rewrite_job_order": "files-desc"}, ["1", "1", "1"]),
    ],
)
def test_how_many_groups_make_a_batch(table: Table, options: dict[str, Any], batches: list[str]) -> None:
    before = rows(table)
    outcome = compact(table, **options)
    assert outcome.kind is Kind.COMPACTED
    assert [summary["compaction.groups"] for summary in ours(table)] == batches
    assert rows(table) == before


def test_appends_between_batches_do_no_harm(table: Table) -> None:
    outcome = compact(table, Others(before_1=lambda: append(table, 100), before_3=lambda: append(table, 200)))
    assert ends(outcome) == LANDED
    assert sum(rows(table).values()) == 36 + 24


def lose_oslo(table: Table) -> None:
    """Others write one of Oslo's files anew, without one row."""
    current(table).delete("id == 1")


def test_r15_a_group_in_conflict_costs_only_itself(table: Table) -> None:
    before = rows(table)
    outcome = compact(table, Others(before_2=lambda: lose_oslo(table)), replan_conflicts=False)
    assert outcome.kind is Kind.COMPACTED
    assert outcome.ok
    assert ends(outcome) == [("Bern", "landed"), ("Oslo", "conflict"), ("Rome", "landed")]
    told = outcome.group_outcomes[1].sentence
    assert told
    assert f"1 of 3 groups was left alone because of other commits: {told}" in outcome.sentence
    assert (outcome.files_removed, outcome.files_added, outcome.records) == (6, 2, 24)
    assert before - rows(table) == Counter(["{'id': 1, 'city': 'Oslo'}"])


def test_what_conflicted_is_planned_anew(table: Table) -> None:
    before = rows(table)
    outcome = compact(table, Others(before_2=lambda: lose_oslo(table)))
    assert ends(outcome) == [("Bern", "landed"), ("Oslo", "conflict"), ("Rome", "landed"), ("Oslo", "landed")]
    assert [one.id for one in outcome.group_outcomes] == [0, 1, 2, 3]
    assert "Groups in conflict were planned again: 3 files in 1 group become about 1." in outcome.sentence
    assert (outcome.groups, outcome.groups_landed, outcome.groups_conflicted) == (4, 3, 1)
    assert ours(table)[-1]["compaction.plan-id"] == f"{outcome.plan_id}-again-1"
    assert before - rows(table) == Counter(["{'id': 1, 'city': 'Oslo'}"])
    assert current(table).inspect.data_files().num_rows == 3


@pytest.mark.parametrize(("times", "last"), [(3, "landed"), (9, "conflict")])
def test_what_conflicts_again_is_planned_anew_again_but_not_forever(table: Table, times: int, last: str) -> None:
    """Somebody deletes from Oslo right before each of our commits of it."""
    turns = [2, 4, 5, 6, 7, 8, 9, 10, 11][:times]  # the first and the third commit are those of other cities
    acts = {
        f"before_{turn}": (lambda row=3 * at + 1: current(table).delete(f"id == {row}"))
        for at, turn in enumerate(turns)
    }
    outcome = compact(table, Others(**acts))
    assert [end for city, end in ends(outcome) if city == "Oslo"] == ["conflict"] * 3 + [last]
    assert [end for city, end in ends(outcome) if city != "Oslo"] == ["landed"] * 2
    assert [one.id for one in outcome.group_outcomes] == list(range(6))
    assert outcome.sentence.count("Groups in conflict were planned again") == 3
    plans = [summary["compaction.plan-id"].removeprefix(outcome.plan_id or "") for summary in ours(table)]
    assert plans == (["", "", "-again-3"] if last == "landed" else ["", ""])
    assert sum(rows(table).values()) == 36 - min(times, 4)


def test_committed_groups_are_not_rewritten_again_with_groups_in_conflict(table: Table) -> None:
    """`rewrite-all` has no fixed point, so a plan of the whole partition would take the new files, too."""
    outcome = compact(table, Others(before_2=lambda: lose_oslo(table)), rewrite_all=True)
    assert outcome.files_removed == 6 + 3
    assert outcome.groups == 4


def test_a_batch_lands_without_the_groups_that_are_in_conflict(table: Table) -> None:
    before = rows(table)
    outcome = compact(table, Others(before_1=lambda: lose_oslo(table)), partial_progress=False, replan_conflicts=False)
    assert ends(outcome) == [("Bern", "landed"), ("Oslo", "conflict"), ("Rome", "landed")]
    (summary,) = ours(table)
    assert (summary["compaction.groups"], summary["compaction.proof.rows"]) == ("2", "24")
    assert outcome.proof is not None
    assert summary["compaction.proof.checksum"] == outcome.proof.checksum
    assert before - rows(table) == Counter(["{'id': 1, 'city': 'Oslo'}"])


def test_a_new_position_delete_is_applied_by_the_second_plan(table: Table) -> None:
    path = next(path for path in current(table).inspect.data_files()["file_path"].to_pylist() if "Oslo" in path)

    def delete() -> None:
        manifests.add_position_delete(current(table), {path: [0]})

    outcome = compact(table, Others(before_2=delete))
    assert ends(outcome)[1] == ("Oslo", "conflict")
    assert ends(outcome)[3] == ("Oslo", "landed")
    assert (outcome.deleted_rows, outcome.delete_files_removed) == (1, 1)
    assert "1 deleted row is gone and 1 delete file was removed" in outcome.sentence
    assert sum(rows(table).values()) == 35


def roll_back(table: Table) -> None:
    """To before the last append, so that the planned snapshot is no ancestor any more."""
    now = current(table)
    first = now.snapshots()[1]
    update = SetSnapshotRefUpdate(ref_name="main", type=SnapshotRefType.BRANCH, snapshot_id=first.snapshot_id)
    now.catalog.commit_table(now, (), (update,))


def test_a_conflict_of_all_ends_the_work_at_once(table: Table) -> None:
    """Rolled back before the second commit: the third group is not rewritten in vain, and the first is undone, too."""
    events: list[Event] = []
    others = Others(before_2=lambda: roll_back(table))

    def listen(event: Event) -> None:
        events.append(event)
        others(event)

    outcome = compact(table, listen, replan_conflicts=False)
    assert ends(outcome) == [("Bern", "landed"), ("Oslo", "conflict"), ("Rome", "conflict")]
    assert "no longer descends from the planned snapshot" in outcome.sentence
    assert [event.group_id for event in events if event.kind == "task-ended"] == [0, 1]
    assert sum(rows(table).values()) == 24


def test_nothing_landed_is_a_conflict(table: Table) -> None:
    outcome = compact(table, Others(before_1=lambda: roll_back(table)), replan_conflicts=False)
    assert (outcome.kind, outcome.groups_landed, outcome.snapshot_ids) == (Kind.CONFLICT, 0, ())
    assert outcome.sentence.startswith("None of 3 groups could be committed: ")
    assert not outcome.ok
    assert {end for _, end in ends(outcome)} == {"conflict"}


def test_all_of_it_may_land_at_the_second_attempt(table: Table) -> None:
    outcome = compact(table, Others(before_1=lambda: roll_back(table)))
    assert (outcome.kind, outcome.groups, outcome.groups_landed) == (Kind.COMPACTED, 6, 3)
    assert sum(rows(table).values()) == 24
    assert current(table).inspect.data_files().num_rows == 3


def test_others_may_have_done_the_work(table: Table) -> None:
    def race() -> None:
        Compactor(table.catalog, engine="inline", options={"min-input-files": 2}).compact_table("db.t")

    before = rows(table)
    outcome = compact(table, Others(before_1=race))
    assert (outcome.kind, outcome.groups_landed, outcome.groups_conflicted) == (Kind.HEALTHY, 0, 3)
    assert outcome.ok
    assert outcome.sentence == (
        "Nothing is left to do: others changed 3 groups meanwhile, and planned anew they need no rewrite any more."
    )
    assert {end for _, end in ends(outcome)} == {"conflict"}
    assert rows(table) == before


def test_a_table_that_must_not_be_planned_anew_is_told(table: Table) -> None:
    def encrypt() -> None:
        lose_oslo(table)
        with current(table).transaction() as transaction:
            transaction.set_properties({"encryption.key-id": "k"})

    outcome = compact(table, Others(before_2=encrypt))
    assert ends(outcome) == [("Bern", "landed"), ("Oslo", "conflict"), ("Rome", "landed")]
    assert "Groups in conflict could not be planned again: Table db.t is not rewritten" in outcome.sentence


def _without_hurry(events: list[Event]) -> list[Event]:
    """Without the progress that may or may not be told when a task has ended."""
    pairs = zip(events, [None, *events], strict=False)
    return [
        event for event, before in pairs if before is None or (before.kind, event.kind) != ("task-ended", "rewriting")
    ]


def test_events_follow_a_run_from_the_plan_to_the_outcome(table: Table) -> None:
    events: list[Event] = []
    outcome = compact(table, events.append)
    batch = ["task-ended", "committing", "committed", "rewriting"]
    steps = ["planning", "planned", "rewriting", *batch * 3, "finished"]
    # Tasks are short: the progress of one that ends may be left out, since another one is told soon.
    assert [event.kind for event in _without_hurry(events)] == steps
    committed = [event.groups_committed for event in _without_hurry(events) if event.kind == "rewriting"]
    assert committed == [0, 1, 2, 3]
    assert [event.files_done for event in events if event.kind == "rewriting"][-1] == 9
    snapshots = [event.snapshot_id for event in events if event.kind == "committed"]
    assert tuple(snapshots) == outcome.snapshot_ids
    assert events[-1].kind == "finished"
    assert events[-1].outcome == outcome
