"""A run reads the manifest list of the planned snapshot once for planning and preparing, whatever the tasks need of it.
A commit attempt reads its own head's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform
from tests.factories import counting, manifests
from tests.factories import lake as lakes

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.model import events

if TYPE_CHECKING:
    from pyiceberg.table import Table

ROWS = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.int64()), pa.field("price", pa.float64())])


def rows(first: int) -> pa.Table:
    numbers = list(range(first, first + 10))
    return pa.table([numbers, [number % 2 for number in numbers], [float(number) for number in numbers]], schema=ROWS)


@pytest.fixture
def table(local_lake: lakes.Lake) -> Table:
    """It has all that tasks look up in manifests: deletes, floats to copy, and files of an older partition spec."""
    local_lake.catalog.properties["py-io-impl"] = counting.FILE_IO
    table = lakes.make_table(local_lake.catalog, "db.t", ROWS)
    for number in range(6):
        table.append(rows(number * 10))
    table = manifests.add_equality_delete(table, pa.table({"id": [5]}))
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform(), "day")
    return table


@pytest.mark.parametrize("keep_spec", [False, True], ids=["current spec", "own spec"])
@pytest.mark.parametrize("saved", [False, True], ids=["at once", "with a plan from before"])
def test_the_planned_snapshots_manifests_are_listed_once(
    local_lake: lakes.Lake, table: Table, saved: bool, keep_spec: bool
) -> None:
    reads: list[int] = []
    manifest_list = table.refresh().current_snapshot().manifest_list

    def on_event(event: events.Event) -> None:
        if isinstance(event, events.Committing):
            reads.append(counting.opened[manifest_list])

    options = {"rewrite-all": True, "keep-spec": keep_spec}
    compactor = Compactor(local_lake.catalog, engine="inline", options=options, on_event=on_event)
    plan = compactor.plan_table("db.t") if saved else None
    counting.opened.clear()
    outcome = compactor.compact_table("db.t") if plan is None else compactor.apply(plan)
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert reads == [1]
    assert counting.opened[manifest_list] == 2  # the commit reads its head's list, which is the same one here
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [n for n in range(60) if n != 5]
