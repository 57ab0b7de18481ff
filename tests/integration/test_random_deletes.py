"""R25: random tables with random deletes: `deletes`, in any combination, leaves visible rows as they are, and a second
run finds nothing to do. Rows are read by a reader that shares no code with the product."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from pyiceberg.transforms import IdentityTransform
from tests.factories import manifests, reader, storage
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.examples import examples
from tests.factories.lake import make_table

from iceberg_compaction import Compactor, Kind

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from tests.factories.lake import Lake

_NUMBERS = itertools.count()
CITIES = ["Rome", "Oslo", None]
IDS = st.integers(0, 5) | st.none()

APPEND = st.tuples(st.just("append"), st.lists(st.tuples(IDS, st.sampled_from(CITIES)), min_size=1, max_size=6))
POSITION = st.tuples(st.just("position"), st.booleans(), st.integers(0, 9), st.integers(0, 5))
EQUALITY = st.tuples(
    st.just("equality"),
    st.booleans(),
    st.sampled_from([("id",), ("id", "city"), ("city",)]),
    st.lists(IDS, min_size=1, max_size=4),
)
REMOVE = st.tuples(st.just("remove"), st.integers(0, 9))
RESPEC = st.tuples(st.just("respec"))
WANTED = st.fixed_dictionaries(
    {
        "dangling": st.booleans(),
        "merge": st.booleans(),
        "convert": st.booleans(),
        "granularity": st.sampled_from([None, "file", "partition"]),
        "verify": st.sampled_from(["counts", "deep"]),
    }
)


def perform(table: Table, step: tuple[Any, ...]) -> Table:
    """One commit of another writer."""
    table = table.catalog.load_table(table.name())
    data = table.inspect.data_files().to_pylist() if table.current_snapshot() else []
    match step:
        case ("append", rows):
            made = pa.table({"id": [row[0] for row in rows], "city": [row[1] for row in rows]}, SCHEMA.as_arrow())
            table.append(made)
        case ("position", scoped, number, row) if data:
            chosen = data[number % len(data)]
            near = [file for file in data if file["spec_id"] == chosen["spec_id"]]
            near = [file for file in near if file["partition"] == chosen["partition"]]
            named = [chosen] if scoped else near
            positions = {file["file_path"]: [row % file["record_count"]] for file in named}
            manifests.add_position_delete(table, positions, file_scoped=scoped)
        case ("equality", everywhere, columns, ids):
            like = data[len(ids) % len(data)] if data else None
            if everywhere and any(spec.is_unpartitioned() for spec in table.specs().values()):
                like = None
            elif like is None:
                return table
            values = {"id": pa.array(ids, pa.int64()), "city": pa.array([CITIES[len(ids) % 3]] * len(ids), pa.string())}
            manifests.add_equality_delete(
                table, pa.table({name: values[name] for name in columns}), like=like and like["file_path"]
            )
        case ("remove", number) if data:
            gone = manifests.data_file_of(table, data[number % len(data)]["file_path"])
            with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
                overwrite.delete_data_file(gone)
        case ("respec",):
            with table.update_spec() as update:
                update.remove_field("city") if table.spec().fields else update.add_field("city", IdentityTransform())
    return table.catalog.load_table(table.name())


@examples(
    12, phases=(Phase.generate,), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(steps=st.lists(APPEND | POSITION | EQUALITY | REMOVE | RESPEC, min_size=2, max_size=9), wanted=WANTED)
def test_rows_stay_and_a_second_run_is_empty(
    local_lake: Lake, steps: list[tuple[Any, ...]], wanted: dict[str, Any]
) -> None:
    table = make_table(local_lake.catalog, local_lake.name(f"t{next(_NUMBERS)}"), SCHEMA, spec=BY_CITY)
    for step in steps:
        table = perform(table, step)
    before = reader.rows(table)
    compactor, name = Compactor(local_lake.catalog, engine="inline"), ".".join(table.name())
    plan = compactor.plan_deletes(name, **wanted)

    outcome = compactor.clean_deletes(name, **wanted)

    assert outcome.ok, outcome.sentence
    assert (outcome.kind is Kind.HEALTHY) == plan.empty
    table = table.catalog.load_table(table.name())
    assert reader.rows(table) == before
    assert not storage.files_under(table) - reader.known_files(table)
    again = compactor.plan_deletes(name, **wanted)
    assert again.empty, again.sentence
    left = (
        {file["file_path"] for file in table.inspect.delete_files().to_pylist()} if table.current_snapshot() else set()
    )
    gone = {*plan.dangling, *plan.merged, *plan.converted}
    assert not left & gone
