"""The NaN counts that go with tasks are those that manifests tell, read only where they are needed."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    FloatType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)
from tests.factories import lake as lakes
from tests.factories import manifests
from tests.factories.examples import examples

from iceberg_compaction.execute.prepare import cut_tasks
from iceberg_compaction.interfaces.library import Compactor
from iceberg_compaction.metadata import fetch, look
from iceberg_compaction.metadata.manifest import column_metrics, nan_counts, snapshot_manifests
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.plan import build

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

    from iceberg_compaction.model.rewrite_plan import Plan

SCHEMA = Schema(
    NestedField(1, "part", LongType(), required=False),
    NestedField(2, "x", DoubleType(), required=False),
    NestedField(
        3,
        "place",
        StructType(
            NestedField(5, "lat", FloatType(), required=False),
            NestedField(6, "zone", StructType(NestedField(7, "height", DoubleType(), required=False)), required=False),
        ),
        required=False,
    ),
    NestedField(4, "many", ListType(8, DoubleType(), element_required=False), required=False),
)
FLOATS = ("x", "place.lat", "place.zone.height")
maps = st.none() | st.dictionaries(st.sampled_from([1, 2, 5, 7, 8]), st.integers(0, 3))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lakes.Lake]:
    lake = lakes.file_lake(tmp_path_factory.mktemp("nans"))
    yield lake
    lakes.close(lake)


def new_table(lake: lakes.Lake, schema: Schema = SCHEMA, version: int = 2) -> Table:
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "part"))
    properties = {"format-version": str(version)}
    return lakes.make_table(lake.catalog, lake.name(f"t{uuid.uuid4().hex}"), schema, spec=spec, properties=properties)


def add(table: Table, part: int, counts: list[dict[int, int] | None]) -> Table:
    fakes = [
        manifests.fake_data_file(
            table, f"{uuid.uuid4().hex}.parquet", partition=manifests.Record(part), nan_value_counts=one
        )
        for one in counts
    ]
    return manifests.add_files(table, fakes)


def planned(table: Table, **policy: Any) -> Plan:
    stock = look.look(table, name="db.t", where=policy.pop("where", None)).view
    return build.build(stock, Policy(rewrite_all=True, **policy), plan_id="p", now_ms=0)


def counted(table: Table, plan: Plan) -> nan_counts.NanCounts | None:
    return nan_counts.of_plan(table, plan, snapshot_manifests.of_plan(table, plan))


def as_pyiceberg_reads(table: Table) -> dict[str, dict[int, int]]:
    floats = {table.schema().find_field(name).field_id for name in FLOATS}
    return {
        entry.data_file.file_path: {
            field_id: count
            for field_id, count in (entry.data_file.nan_value_counts or {}).items()
            if field_id in floats
        }
        for manifest in table.current_snapshot().manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    }


@examples(25)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(maps, min_size=1, max_size=4)), min_size=1, max_size=4),
    st.sampled_from([1, 2]),
)
def test_tasks_carry_what_manifests_tell(
    lake: lakes.Lake, commits: list[tuple[int, list[dict[int, int] | None]]], version: int
) -> None:
    table = new_table(lake, version=version)
    for part, counts in commits:
        table = add(table, part, counts)
    plan = planned(table)
    tasks = cut_tasks.build_tasks(plan, nans=counted(table, plan))
    told = {path: counts for task in tasks for path, counts in zip(task.file_paths, task.nan_counts, strict=True)}
    assert told == as_pyiceberg_reads(table)
    for task in tasks:
        assert type(task).model_validate_json(task.model_dump_json()) == task


def test_files_with_the_same_counts_share_them(lake: lakes.Lake) -> None:
    table = add(new_table(lake), 1, [{2: 0}] * 50 + [{2: 7}] * 50)
    plan = planned(table)
    found = counted(table, plan)
    assert found is not None
    assert len(found.distinct) == 3  # nothing told, too
    (task,) = cut_tasks.build_tasks(plan, nans=found)
    assert len({id(counts) for counts in task.nan_counts}) == 2


def test_manifests_without_files_of_the_plan_are_not_opened(lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = add(add(add(new_table(lake), 1, [{2: 1}]), 2, [{2: 2}]), 3, [{2: 3}])
    plan = planned(table, where="part = 2")
    opened: list[str] = []
    read = fetch.read_bytes

    def spy(io: Any, location: str, *, where: str) -> bytes:
        opened.append(location)
        return read(io, location, where=where)

    monkeypatch.setattr(fetch, "read_bytes", spy)
    found = counted(table, plan)
    assert found is not None
    assert found.of(0, 1) == ({2: 2},)
    assert len(opened) == 1


def test_nobody_looks_where_nothing_is_copied(lake: lakes.Lake) -> None:
    table = add(new_table(lake), 1, [{2: 1}] * 3)
    assert counted(table, planned(table, copy_row_groups="never")) is None
    assert counted(table, planned(table, copy_row_groups="always")) is not None
    without = Schema(NestedField(1, "part", LongType(), required=False), *SCHEMA.fields[3:])
    table = add(new_table(lake, without), 1, [{2: 1}] * 3)
    assert counted(table, planned(table)) is None


def test_only_groups_that_may_be_copied_are_looked_up(lake: lakes.Lake) -> None:
    table = add(new_table(lake), 1, [{2: 5}])
    with table.update_spec() as update:
        update.remove_field("part")
        update.add_field("part", IdentityTransform(), "part_again")
    table = add(table.refresh(), 2, [{2: 6}])
    plan = planned(table)
    found = counted(table, plan)
    assert found is not None
    by_spec = {task.spec_id: task.nan_counts for task in cut_tasks.build_tasks(plan, nans=found)}
    assert by_spec == {0: ({},), 1: ({2: 6},)}


def test_counts_outlive_a_copy(lake: lakes.Lake) -> None:
    """What an encoding run counted is still told after another one has copied it."""
    name = lake.name(f"t{uuid.uuid4().hex}")
    schema = Schema(*SCHEMA.fields[:3])
    table = lakes.make_table(lake.catalog, name, schema)
    nan = float("nan")
    for number in range(3):
        places = [{"lat": nan, "zone": {"height": 1.0}}, {"lat": 2.0, "zone": {"height": nan if number else 3.0}}]
        table.append(pa.table({"part": [1, 2], "x": [nan, nan], "place": places}, schema=table.schema().as_arrow()))
    for mode in ("never", "always"):
        options = {"rewrite-all": True, "copy-row-groups": mode}
        outcome = Compactor(lake.catalog, engine="inline", options=options).compact_table(name)
        assert bool(outcome.effort.copied_groups) == (mode == "always"), outcome.sentence
        assert list(as_pyiceberg_reads(lake.catalog.load_table(name)).values()) == [{2: 6, 4: 3, 6: 2}]


def test_bounds_that_footers_lack_outlive_a_copy(lake: lakes.Lake) -> None:
    """Of long texts, and of floats without statistics: what an encoding run measured is still told afterwards."""
    name = lake.name(f"t{uuid.uuid4().hex}")
    schema = Schema(
        NestedField(1, "x", DoubleType(), required=False),
        NestedField(2, "text", StringType(), required=False),
        NestedField(3, "place", StructType(NestedField(4, "data", BinaryType(), required=False)), required=False),
        NestedField(5, "y", FloatType(), required=False),
    )
    properties = {f"write.parquet.stats-enabled.column.{column}": "false" for column in ("x", "y")}
    table = lakes.make_table(lake.catalog, name, schema, properties=properties)
    for at in range(3):
        texts = ["b" * 5000 + str(at), None, "\u00e9" * 5000]
        places = [{"data": b"\xff" * 4 + b"\x07" * 5000}, None, {"data": b"\x01" * 5000}]
        rows = {"x": [float("nan"), -0.0 - at, None], "text": texts, "place": places, "y": [at, at + 0.5, None]}
        table.append(pa.table(rows, schema=table.schema().as_arrow()))
    found = []
    for mode in ("never", "always", "always"):
        options = {"rewrite-all": True, "copy-row-groups": mode}
        outcome = Compactor(lake.catalog, engine="inline", options=options).compact_table(name)
        assert bool(outcome.effort.copied_groups) == (mode == "always"), outcome.sentence
        (entry,) = [
            entry.data_file
            for manifest in lake.catalog.load_table(name).current_snapshot().manifests(table.io)
            for entry in manifest.fetch_manifest_entry(table.io)
        ]
        found.append([getattr(entry, metric) for metric in column_metrics.METRICS])
    assert {len(one) for one in found[0]} == {4, 2}
    assert found[0] == found[1] == found[2]


def test_entries_of_deleted_files_tell_nothing() -> None:
    """A file that left and came back is listed twice, and once as DELETED: it is found once."""
    wanted = nan_counts._WantedPaths(pa.chunked_array([["a", "b"]]), np.array([True, True]))
    listed = pa.table({"status": pa.array([2, 1], pa.int32()), "file_path": ["a", "a"]})
    plan_rows, counts, bounds = nan_counts._pick(listed, wanted, nan_counts._Fields(floats=(7,), bounded=(7, 8)))
    assert bounds.num_rows == 1
    assert (plan_rows.tolist(), counts.tolist()) == ([0], [[-1]])
    assert not wanted.are_complete(plan_rows)
