"""Carrying a plan over to a table that has moved on: which groups still hold, and what is said of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import inventories
from tests.factories.examples import examples

from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.table_view import POSITION_DELETES
from iceberg_compaction.operations.rewrite_files import rebase
from iceberg_compaction.plan import build

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.table_view import TableView

MIB = 2**20
DAYS = ['{"day":"2026-01-01"}', '{"day":"2026-01-02"}', '{"day":"2026-01-03"}']
PIN = inventories.PIN.model_copy(update={"snapshot_id": 9, "sequence_number": 1234})


def stock(**changes: Any) -> TableView:
    return inventories.view(inventories.files([MIB] * 18, partitions=[DAYS[n % 3] for n in range(18)]), **changes)


def planned() -> Plan:
    return build.build(stock(), Policy(), plan_id="p", now_ms=1)


def with_column(files: pa.Table, name: str, row: int, value: Any) -> pa.Table:
    values = files[name].to_pylist()
    values[row] = value
    array = pa.array(values, pa.string()).dictionary_encode() if name == "partition" else pa.array(values)
    index = files.column_names.index(name)
    return files.set_column(index, files.schema.field(name), array.cast(files.schema.field(name).type))


def test_what_still_holds_is_pinned_to_the_head_and_else_unchanged() -> None:
    plan = planned()
    found = rebase.rebase(plan, stock(pin=PIN))
    assert found.dropped == {}
    assert found.plan == plan.model_copy(update={"pin": PIN})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda files: files.filter(pc.not_equal(files["file_path"], "f-4.parquet")), "1 of its files is no longer in"),
        (lambda files: with_column(files, "content", 4, POSITION_DELETES), "1 of its files is no longer in"),
        (lambda files: with_column(files, "spec_id", 4, 1), "1 of its files is not as planned any more"),
        (lambda files: with_column(files, "partition", 4, DAYS[2]), "1 of its files is not as planned any more"),
        (lambda files: with_column(files, "file_size_in_bytes", 4, 5), "1 of its files is not as planned any more"),
        (lambda files: with_column(files, "record_count", 4, 5), "1 of its files is not as planned any more"),
    ],
)
def test_a_group_that_lost_a_file_is_dropped_alone(change: Callable[[pa.Table], pa.Table], told: str) -> None:
    plan = planned()
    found = rebase.rebase(plan, replace(stock(), files=change(stock().files)))
    assert list(found.dropped) == [1]
    assert found.dropped[1].startswith(told)
    assert found.dropped[1].endswith("the first is f-4.parquet.")
    copying = found.plan.copying
    assert (copying.bytes, copying.row_groups) == (12 * MIB, 12)  # totals are those of what is left
    assert "12.0 MiB" in copying.sentence
    assert copying.rates == plan.copying.rates
    assert [group.id for group in found.plan.groups] == [0, 2]
    assert [group.first for group in found.plan.groups] == [0, 6]
    assert found.plan.input_files == 12
    for group in found.plan.groups:
        assert found.plan.files_of(group).equals(plan.files_of(plan.groups[group.id]))


def test_nothing_is_left_of_an_empty_table() -> None:
    plan = planned()
    found = rebase.rebase(plan, replace(stock(), files=stock().files.slice(0, 0), pin=None))
    assert found.plan.empty
    assert sorted(found.dropped) == [0, 1, 2]
    assert found.dropped[0] == "6 of its files are no longer in the table, the first is f-0.parquet."


@examples(40)
@given(st.sets(st.integers(0, 17)))
def test_exactly_the_groups_that_lost_files_are_dropped(lost: set[int]) -> None:
    plan, files = planned(), stock().files
    found = rebase.rebase(plan, replace(stock(), files=files.take([n for n in reversed(range(18)) if n not in lost])))
    assert set(found.dropped) == {number % 3 for number in lost}
    paths = found.plan.files["file_path"].to_pylist()
    assert paths == [f"f-{n}.parquet" for group in found.plan.groups for n in range(group.id, 18, 3)]


def test_only_the_partitions_concerned_are_planned_anew() -> None:
    files = stock().files
    ours = with_column(files, "file_path", 1, "00-run-7f-1.parquet")
    chosen = rebase.restrict(replace(stock(), files=ours), {(0, DAYS[1]), (1, DAYS[0])}, run_id="run-7f").selected
    assert chosen is not None
    assert [row for row, one in enumerate(chosen.to_pylist()) if one] == [4, 7, 10, 13, 16]
    asked = pa.array([number < 9 for number in range(18)])
    chosen = rebase.restrict(replace(stock(), selected=asked), {(0, DAYS[1])}, run_id="run-7f").selected
    assert chosen is not None
    assert [row for row, one in enumerate(chosen.to_pylist()) if one] == [1, 4, 7]


def test_groups_are_numbered_on() -> None:
    again = rebase.renumber(planned(), 7)
    assert [group.id for group in again.groups] == [7, 8, 9]
    assert again.files == planned().files
