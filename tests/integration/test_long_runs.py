"""How many snapshots a run makes, and what stays of one that does not come to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import runs, storage, work
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.cities import rows as city_rows
from tests.factories.lake import make_table

from iceberg_compaction import Kind, Policy, cancel, errors
from iceberg_compaction.execute import perform_task
from iceberg_compaction.execute.engines.inline_engine import InlineEngine
from iceberg_compaction.model.outcome import Failed
from iceberg_compaction.model.policies import BATCH_SECONDS, JobOrder
from iceberg_compaction.operations.rewrite_files.groups import collect_groups

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pyiceberg.table import Table
    from tests.factories.lake import Lake

    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult

CITIES = tuple("ABCDEFGHIJKLMNOPQRST")  # one group each, in this order


@pytest.fixture
def table(local_lake: Lake) -> Table:
    made = make_table(local_lake.catalog, "db.t", SCHEMA, spec=BY_CITY)
    for number in range(2):
        made.append(city_rows(number * 100, CITIES, 3 * len(CITIES)))
    return made


class Tasks:
    """An engine that does something before each task."""

    def __init__(self, before: Callable[[int], None]) -> None:
        self._before, self._number = before, 0
        self._rewrite = perform_task.worker()

    def __call__(self) -> AbstractContextManager[InlineEngine]:
        from contextlib import nullcontext

        return nullcontext(InlineEngine(rewrite=self._perform))

    def _perform(self, task: RewriteTask, context: RewriteContext, attempt: str) -> TaskResult:
        self._number += 1
        self._before(self._number)
        return self._rewrite(task, context, attempt)


def compact(table: Table, before: Callable[[int], None] = lambda number: None, **given: Any) -> Any:
    run = runs.make_run(**{name: given.pop(name) for name in ("clock", "cancel") if name in given})
    policy = Policy(**{"min_input_files": 2} | given)
    return work.compact_table(table.catalog, "db.t", policy, Tasks(before), run)


def batches(table: Table) -> list[int]:
    """The groups of each snapshot that compaction made."""
    table.refresh()
    summaries = [dict(snapshot.summary.additional_properties) for snapshot in table.snapshots() if snapshot.summary]
    return [int(each["compaction.groups"]) for each in summaries if "compaction.run-id" in each]


def check_nothing_is_left_over(table: Table) -> None:
    table.refresh()
    assert {path for path in storage.files_under(table) if path.endswith(".parquet")} == storage.referenced_data_files(
        table
    )


def test_a_run_makes_one_snapshot(table: Table) -> None:
    assert compact(table).kind is Kind.COMPACTED
    assert batches(table) == [20]


def test_a_long_run_makes_one_for_each_tenth_but_not_more_often_than_every_ten_minutes(table: Table) -> None:
    now = [0]

    def take_four_minutes(number: int) -> None:
        now[0] += int(BATCH_SECONDS * 1000 * 0.4)

    assert compact(table, take_four_minutes, clock=lambda: now[0]).kind is Kind.COMPACTED
    assert batches(table) == [3, 3, 3, 3, 3, 3, 2]


def test_a_very_long_run_makes_at_most_ten(table: Table) -> None:
    now = [0]

    def take_an_hour(number: int) -> None:
        now[0] += 3_600_000

    assert compact(table, take_an_hour, clock=lambda: now[0]).kind is Kind.COMPACTED
    assert batches(table) == [2] * 10


def test_groups_that_are_done_do_not_wait_for_a_large_one(table: Table) -> None:
    """The last group has several tasks. When ten minutes are over, the other groups are committed before it is done."""
    for number in range(6):
        table.append(city_rows(number * 5000, ("Z",), 5000))
    now = [0]

    def take_half_a_minute(number: int) -> None:
        now[0] += 29_000

    outcome = compact(
        table,
        take_half_a_minute,
        clock=lambda: now[0],
        rewrite_job_order=JobOrder.BYTES_ASC,
        target_file_size_bytes=30_000,
        partial_progress_max_commits=100,
    )
    assert outcome.kind is Kind.COMPACTED
    assert batches(table) == [20, 1]


@pytest.mark.parametrize(("options", "kept"), [({}, [6]), ({"partial_progress": False}, [])])
def test_groups_that_are_done_are_committed_when_the_run_is_cancelled(
    table: Table, options: dict[str, Any], kept: list[int]
) -> None:
    token = cancel.CancelToken()

    def stop(number: int) -> None:
        if number == 6:
            token.cancel("Enough.")

    with pytest.raises(errors.CancelledError, match="Enough"):
        compact(table, stop, cancel=token, **options)
    assert batches(table) == kept
    check_nothing_is_left_over(table)


def test_a_long_task_of_a_cancelled_run_does_not_come_to_its_end(table: Table) -> None:
    now = [0.0]
    token = cancel.CancelToken(clock=lambda: now[0])

    def stop(number: int) -> None:
        if number == 6:
            token.cancel("Enough.")
            token.check_at_work()
            now[0] += cancel.GRACE_SECONDS

    with pytest.raises(errors.CancelledError, match="Enough"):
        compact(table, stop, cancel=token)
    assert batches(table) == [5]
    check_nothing_is_left_over(table)


def test_groups_that_are_done_are_committed_at_the_deadline(table: Table) -> None:
    now = [0.0]
    token = cancel.CancelToken(seconds=60, clock=lambda: now[0])

    def be_slow(number: int) -> None:
        now[0] += 10

    with pytest.raises(errors.CancelledError, match=r"deadline.*6 of 20 groups landed and stay"):
        compact(table, be_slow, cancel=token)
    assert batches(table) == [6]
    check_nothing_is_left_over(table)


def test_a_run_whose_last_task_passes_the_deadline_commits(table: Table) -> None:
    now = [0.0]
    token = cancel.CancelToken(seconds=60, clock=lambda: now[0])

    def be_slow_at_last(number: int) -> None:
        now[0] += 70 if number == len(CITIES) else 0

    assert compact(table, be_slow_at_last, cancel=token).kind is Kind.COMPACTED
    assert batches(table) == [20]


def test_groups_that_are_done_are_committed_when_the_engine_ends(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = errors.ExecuteError("Spark has ended.")

    def watch(ends: Any) -> Any:
        for number, end in enumerate(ends):
            if number == 4:
                raise ended
            yield end

    steps = collect_groups.CollectedGroups.steps
    monkeypatch.setattr(collect_groups.CollectedGroups, "steps", lambda self, ends: steps(self, watch(ends)))
    outcome = compact(table)
    assert isinstance(outcome, Failed)
    assert (outcome.groups_landed, batches(table)) == (4, [4])
    assert outcome.sentence.startswith("Spark has ended. Before that 4 of 20 groups landed and stay")
    check_nothing_is_left_over(table)
