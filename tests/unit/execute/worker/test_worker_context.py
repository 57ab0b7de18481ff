"""The context from a real table: what workers need is in it and what they must not know is not; and outputs agree with
PyIceberg's own reading of their footers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from tests.factories import tasks

from iceberg_compaction import errors
from iceberg_compaction.execute.prepare import shared_context
from iceberg_compaction.execute.worker import execute_task
from iceberg_compaction.metadata import look
from iceberg_compaction.model.copy_plan import Rate, Rates
from iceberg_compaction.model.output_layout import OutputLayout, RowOrder
from iceberg_compaction.model.policies import CopyMode, Policy
from iceberg_compaction.model.rewrite_plan import Groups
from iceberg_compaction.plan import build, copy_or_encode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table


RATES = Rates(encoding=Rate(bytes_per_second=50e6), copying=Rate(bytes_per_second=900e6))


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    catalog = SqlCatalog(
        "local",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse=f"file://{tmp_path}/lake",
        token="top-secret",
        **{"s3.region": "eu-west-1"},
    )
    catalog.create_namespace("db")
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "name": ["a", None, "a name that is longer than sixteen characters"],
            "price": [1.5, -2.5, float("nan")],
        }
    )
    properties = {"write.parquet.compression-codec": "gzip", "owner": "somebody"}
    found = catalog.create_table("db.t", rows.schema, properties=properties)
    for _ in range(6):
        found.append(rows)
    yield found
    catalog.close()


def test_a_task_of_a_real_table(table: Table) -> None:
    seen = look.look(table, name="db.t").view
    plan = build.build(seen, Policy(), plan_id="p", now_ms=0)
    found = shared_context.build_context(table, plan, "run-1")
    assert found.properties == {"write.parquet.compression-codec": "gzip"}
    assert found.io_properties == {"s3.region": "eu-west-1"}
    assert "secret" not in found.model_dump_json()
    assert Schema.model_validate_json(found.table_schema) == table.schema()
    paths = [path.removeprefix("file://") for path in plan.files["file_path"].to_pylist()]
    task = tasks.make_task([]).model_copy(
        update={
            "file_paths": tuple(plan.files["file_path"].to_pylist()),
            "file_sizes": tuple(plan.files["file_size_in_bytes"].to_pylist()),
            "record_counts": tuple(plan.files["record_count"].to_pylist()),
        }
    )
    result = execute_task.rewrite(task, found, "0")
    expected = [row for path in paths for row in tasks.comparable(pq.read_table(path).to_pylist())]
    local = [
        row
        for file in result.staged
        for row in tasks.comparable(pq.read_table(file.file_path.removeprefix("file://")).to_pylist())
    ]
    assert local == expected
    (file,) = result.staged
    theirs = data_file_statistics_from_parquet_metadata(
        pq.read_metadata(file.file_path.removeprefix("file://")),
        compute_statistics_plan(table.schema(), table.properties),
        parquet_path_to_id_mapping(table.schema()),
    ).to_serialized_dict()
    assert file.record_count == theirs["record_count"]
    assert file.column_sizes == theirs["column_sizes"]
    assert file.value_counts == theirs["value_counts"]
    assert file.null_value_counts == theirs["null_value_counts"]
    assert file.lower_bounds == theirs["lower_bounds"]
    assert file.upper_bounds == theirs["upper_bounds"]
    assert list(file.split_offsets) == theirs["split_offsets"]
    assert file.nan_value_counts == {3: 6}


@pytest.mark.parametrize(
    ("mode", "asked", "least"),
    [
        (CopyMode.AUTO, 30_000_000, 30_000_000),
        (CopyMode.AUTO, 3_000_000, copy_or_encode.break_even(RATES, 128 * 2**20)),
        (CopyMode.ALWAYS, 3_000_000, 1),
        (CopyMode.NEVER, 3_000_000, 3_000_000),
    ],
)
def test_workers_are_told_which_row_groups_to_copy(table: Table, mode: CopyMode, asked: int, least: int) -> None:
    seen = look.look(table, name="db.t").view
    policy = Policy(copy_row_groups=mode, min_row_group_size_bytes=asked)
    plan = build.build(seen, policy, plan_id="p", now_ms=0, rates=RATES)
    found = shared_context.build_context(table, plan, "run-1")
    assert (found.copy_row_groups, found.min_row_group) == (mode, least)


def test_workers_sort_only_if_the_plan_says_so(table: Table) -> None:
    with table.update_sort_order() as order:
        order.asc("id", IdentityTransform())
    table.refresh()
    plan = build.build(look.look(table, name="db.t").view, Policy(), plan_id="p", now_ms=0)
    unsorted = plan.model_copy(update={"layout": OutputLayout(row_order=RowOrder.INPUT)})
    assert shared_context.build_context(table, plan, "run-1").sort_order is not None
    assert shared_context.build_context(table, unsorted, "run-1").sort_order is None


def test_a_plan_for_something_that_is_gone(table: Table) -> None:
    seen = look.look(table, name="db.t").view
    plan = build.build(seen, Policy(), plan_id="p", now_ms=0)
    pin = plan.pin.model_copy(update={"schema_id": 99})
    with pytest.raises(errors.StalePlanError, match="Schema 99"):
        shared_context.build_context(table, plan.model_copy(update={"pin": pin}), "run-1")
    groups = Groups.of([plan.groups[0].model_copy(update={"spec_id": 7})], plan.sizes, plan.copying)
    with pytest.raises(errors.StalePlanError, match=r"specs \[7\]"):
        shared_context.build_context(table, plan.model_copy(update={"groups": groups}), "run-1")
