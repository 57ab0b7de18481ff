"""Other tools that rewrite a table are recognised by their snapshots, named, and given way to if the policy says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.factories import rewrites, runs, work
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.lake import make_table

from iceberg_compaction import Kind, Policy, errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.metadata import maintainers
from iceberg_compaction.model.maintainer import LEAST_MS
from iceberg_compaction.operations.rewrite_files.change import replace_files
from iceberg_compaction.workflow import diagnose

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from tests.factories.lake import Lake

    from iceberg_compaction.model.rewrite_plan import Plan

SPARK = {"engine-name": "spark", "spark.app.id": "local-1"}
YIELD = {"others": "yield"}


@pytest.fixture
def table(local_lake: Lake) -> Table:
    made = make_table(local_lake.catalog, "db.t", SCHEMA, spec=BY_CITY)
    append(made)
    return made


def append(table: Table) -> None:
    for first in range(0, 30, 10):
        ids = pa.array(range(first, first + 10), pa.int64())
        table.append(pa.table({"id": ids, "city": ["Bern", "Oslo"] * 5}))


def rewrite(table: Table, city: str, properties: dict[str, str]) -> None:
    """A rewrite by another tool."""
    chosen = [file for file in rewrites.live_data_files(table) if file.partition[0] == city]
    replace_files.replace(table, rewrites.rewrite_request(table, chosen, properties=properties), runs.make_run())
    table.refresh()


def plan(table: Table, **given: Any) -> Plan:
    clock = given.pop("clock", wiring.new_run().clock)
    return work.plan_table(table.catalog, "db.t", Policy(min_input_files=2, **given), runs.make_run(clock=clock))


@pytest.mark.parametrize(
    ("properties", "name", "whole_table"),
    [
        (SPARK, "spark", False),
        ({"spark.app.id": "local-1"}, "spark", False),
        ({"trino_query_id": "20260120_051928_00000_uh66u"}, "trino", False),
        ({"engine-name": "trino"}, "trino", False),
        ({"flink.job-id": "5f1c"}, "flink", False),
        ({"snapshot.producer": "OPTIMIZE"}, "amoro", True),
        ({"maintenance": "compact_data_files"}, "seaweedfs", True),
        ({"engine-name": "Databricks Runtime"}, "databricks", True),
        ({"engine-name": "Snowflake"}, "snowflake", True),
        ({}, "unknown", False),
    ],
)
def test_a_maintainer_is_known_by_its_mark(
    table: Table, properties: dict[str, str], name: str, whole_table: bool
) -> None:
    rewrite(table, "Bern", properties)
    (only,) = maintainers.read(table.metadata, "main")
    assert (only.maintainer.name, only.maintainer.whole_table, only.maintainer.rewrites) == (name, whole_table, 1)


def test_a_bucket_of_s3_tables_has_a_maintainer(table: Table) -> None:
    rewrite(table, "Bern", {})
    moved = table.metadata.model_copy(update={"location": "s3://63a8e430-6e0b-46f5-k833abtw--table-s3/t"})
    (only,) = maintainers.read(moved, "main")
    assert only.maintainer.label == "S3 Tables"


def test_appends_and_our_own_runs_are_no_maintainers(table: Table) -> None:
    work.compact_table(
        table.catalog, "db.t", Policy(min_input_files=2), wiring.engine_factory("inline"), runs.make_run()
    )
    table.refresh()
    assert maintainers.read(table.metadata, "main") == ()


def test_others_are_named_in_plan_and_health(table: Table) -> None:
    rewrite(table, "Bern", SPARK)
    append(table)
    rewrite(table, "Oslo", SPARK)
    append(table)
    seen = plan(table).maintainers
    assert seen == diagnose.diagnose(table.catalog, "db.t", Policy()).maintainers
    assert (seen[0].name, seen[0].rewrites) == ("spark", 2)
    assert seen[0].words.startswith("Iceberg's procedures on Spark rewrote files 2 times, last on 20")
    assert len(plan(table).groups) == 2


def test_partitions_that_a_procedure_rewrites_are_left_to_it(table: Table) -> None:
    rewrite(table, "Bern", SPARK)
    append(table)
    made = plan(table, **YIELD)
    assert [group.partition for group in made.groups] == ['{"city":"Oslo"}']
    (left,) = (left for left in made.left_out if left.reason == "maintained-by-others")
    assert left.files == 4
    assert "left to another maintainer (Iceberg's procedures on Spark rewrote files once" in left.sentence


def test_a_table_of_a_service_is_left_to_it(table: Table) -> None:
    rewrite(table, "Bern", {"snapshot.producer": "OPTIMIZE"})
    append(table)
    assert plan(table, **YIELD).empty
    outcome = work.compact_table(
        table.catalog, "db.t", Policy(min_input_files=2, **YIELD), wiring.engine_factory("inline"), runs.make_run()
    )
    assert outcome.kind is Kind.HEALTHY
    assert "Amoro" in outcome.sentence


def test_a_maintainer_that_has_not_come_for_long_keeps_nothing(table: Table) -> None:
    rewrite(table, "Bern", SPARK)
    append(table)
    now = wiring.new_run().clock
    assert len(plan(table, clock=lambda: now() + LEAST_MS, **YIELD).groups) == 2


def test_a_policy_may_refuse_tables_with_another_maintainer(table: Table) -> None:
    rewrite(table, "Bern", SPARK)
    with pytest.raises(errors.MaintainedError, match="Spark rewrote files once"):
        plan(table, others="refuse")
    outcome = work.compact_table(
        table.catalog, "db.t", Policy(others="refuse"), wiring.engine_factory("inline"), runs.make_run()
    )
    assert outcome.kind is Kind.FAILED
    assert "another maintainer" in outcome.sentence
