"""The check of a table by its stored health: due, quiet or unknown, by which trigger, and when next."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import inventories
from tests.factories.examples import examples

from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.rewrite_past import RewritePast
from iceberg_compaction.model.run_figures import HealthEntry, TableFigures
from iceberg_compaction.model.table_due import DueState, TableDue
from iceberg_compaction.model.table_view import DATA, EQUALITY_DELETES, TableView
from iceberg_compaction.model.triggers import Triggers
from iceberg_compaction.plan import plan_request
from iceberg_compaction.plan.triggers import extremes, measures, table_check, trigger_check

MIB, HOUR_MS, NOW_MS = 2**20, 3_600_000, 1_767_225_600_000
BASE = Policy()


def entry(table: TableView, *, run_id: str | None = None, with_extremes: bool = True, **figures: Any) -> HealthEntry:
    """The look at a table, as the store has it."""
    sizes = plan_request.resolve(table, BASE).sizes
    measured = measures.measure(table, sizes, BASE.triggers)
    is_data = [content == DATA for content in table.files["content"].to_pylist()]
    stored = TableFigures(
        snapshot_id=1,
        data_files=sum(is_data),
        small_files=0,
        bytes=1,
        delete_files=len(is_data) - sum(is_data),
        extremes=extremes.of(measured, sizes, BASE.triggers, NOW_MS) if with_extremes else None,
        **figures,
    )
    text = HealthEntry(at_ms=NOW_MS, catalog="lake", table="db.t", run_id=run_id, figures=stored).model_dump_json()
    return HealthEntry.model_validate_json(text)


def table(sizes: list[int], hours: float | None = None, commits: int | None = None) -> TableView:
    rewritten = None if hours is None else NOW_MS - round(hours * HOUR_MS)
    past = RewritePast(now_ms=NOW_MS, table_ms=rewritten, commits=commits)
    return inventories.view(inventories.files(sizes), past=past)


def check(look: HealthEntry, triggers: Any, *, later_hours: float = 0, **options: Any) -> TableDue:
    policy = Policy(triggers=triggers, **options)
    return table_check.check(look, policy, NOW_MS + round(later_hours * HOUR_MS))


SMALL = table([MIB] * 20, hours=1)
CASES = [  # look, triggers, state, what fires or is not known
    (entry(SMALL), {"max_file_count_per_partition": 10}, "due", ["files 20 > max_file_count_per_partition 10"]),
    (entry(SMALL), {"max_file_count_per_partition": 20}, "quiet", []),
    (entry(SMALL), {"rewrite_interval": "1h"}, "due", ["last rewrite 1 h >= rewrite_interval 1 h"]),
    (entry(SMALL), {"rewrite_interval": "2h"}, "quiet", []),
    (entry(table([MIB])), {"rewrite_interval": "30d"}, "due", ["last rewrite never >= rewrite_interval 30 d"]),
    (entry(table([MIB], commits=7)), {"commits_since_rewrite": 7}, "due", ["commits 7 >= commits_since_rewrite 7"]),
    (entry(SMALL), {"small_file_threshold": "64MiB", "min_files_to_compact": 30}, "due", None),
    (entry(SMALL), {"min_files_to_compact": 30}, "quiet", []),
    (entry(SMALL, with_extremes=False), {"max_file_count_per_partition": 20}, "quiet", []),
    (entry(SMALL, with_extremes=False), {"max_file_count_per_partition": 10}, "unknown", []),
    (entry(SMALL, with_extremes=False), {"max_delete_ratio": 0.1}, "quiet", []),
    (entry(SMALL, with_extremes=False), {"rewrite_interval": "1h"}, "unknown", []),
    (entry(SMALL, with_extremes=False, run_id="r"), {"rewrite_interval": "1h"}, "quiet", []),
    (entry(SMALL, sick=True), "strategy", "due", ["sick"]),
    (entry(SMALL, sick=False), "strategy", "quiet", []),
    (entry(SMALL), "strategy", "unknown", []),
    (entry(table([])), "guide", "quiet", []),
]


@pytest.mark.parametrize(("look", "triggers", "state", "fired"), CASES)
def test_a_table_is_checked_by_its_stored_health(
    look: HealthEntry, triggers: Any, state: str, fired: list[str] | None
) -> None:
    answer = check(look, triggers)
    assert answer.state.value == state, answer
    assert fired is None or list(answer.triggers) == fired
    assert bool(answer.unknown) is (state == "unknown") or state == "due"


def test_time_alone_makes_a_table_due_at_a_moment_that_is_told_before() -> None:
    look = entry(SMALL)
    answer = check(look, {"rewrite_interval": "6h"})
    assert (answer.state, answer.next_ms) == (DueState.QUIET, NOW_MS + 5 * HOUR_MS)
    assert check(look, {"rewrite_interval": "6h"}, later_hours=4.99).state is DueState.QUIET
    assert check(look, {"rewrite_interval": "6h"}, later_hours=5).state is DueState.DUE
    assert check(look, "guide").next_ms == NOW_MS


def test_a_run_that_found_nothing_to_do_is_the_last_rewrite() -> None:
    look = entry(table([MIB] * 2), run_id="r")
    assert check(look, {"rewrite_interval": "6h"}).next_ms == NOW_MS + 6 * HOUR_MS
    assert check(look, {"rewrite_interval": "6h"}, later_hours=6).state is DueState.DUE


def test_figures_that_were_measured_by_other_sizes_are_not_compared() -> None:
    look = entry(table([MIB] * 20, hours=1))
    assert check(look, "amoro").state is DueState.DUE
    assert check(look, "amoro", target_file_size_bytes=64 * MIB).unknown
    assert check(look, {"small_file_threshold": "1MiB", "max_small_file_count": 30}).unknown == (
        "max_small_file_count",
    )


@examples(60)
@given(
    counts=st.lists(st.tuples(st.integers(0, 15), st.integers(1, 600), st.integers(0, 3)), min_size=1, max_size=5),
    preset=st.sampled_from(["guide", "amoro"]),
    hours=st.sampled_from([None, 0.5, 30.0]),
)
def test_the_answer_is_that_of_the_table_itself(
    counts: list[tuple[int, int, int]], preset: str, hours: float | None
) -> None:
    files = [
        (size * MIB, f'{{"p": {part}}}', content)
        for part, (data, size, deletes) in enumerate(counts)
        for content in [DATA] * data + [EQUALITY_DELETES] * deletes
    ]
    rows = inventories.files(
        [size for size, _, _ in files],
        partitions=[part for _, part, _ in files],
        content=[content for _, _, content in files],
    )
    past = RewritePast(now_ms=NOW_MS, table_ms=None if hours is None else NOW_MS - round(hours * HOUR_MS))
    seen = inventories.view(rows, past=past)
    policy = Policy(triggers=Triggers(preset=preset))
    by_table = trigger_check.check(plan_request.resolve(seen, policy))
    assert by_table is not None
    stored = table_check.check(entry(seen), policy, NOW_MS)
    assert (stored.state is DueState.DUE) is bool(by_table.wanted.any())
    assert not stored.unknown
