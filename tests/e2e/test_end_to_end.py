"""From a sick table to one safe commit, on files with SQLite and on S3 with a REST catalog: the same tests on both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampType
from tests.factories import lake as lakes
from tests.factories import manifests, storage

from iceberg_compaction import Compactor, Kind, Plan, Strategy
from iceberg_compaction.execute.prepare import shared_context

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

EVENTS = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "at", TimestampType()),
    NestedField(3, "name", StringType()),
    NestedField(4, "amount", DoubleType()),
)
BY_DAY = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=DayTransform(), name="at_day"))


def sick_table(lake: lakes.Lake, *, partitioned: bool = True, files: int = 6) -> Table:
    spec = {"spec": BY_DAY} if partitioned else {}
    table = lakes.make_table(lake.catalog, lake.name("events"), EVENTS, **spec)
    return lakes.append_small_files(table, files, rows_each=60)


def compactor(lake: lakes.Lake, **more: object) -> Compactor:
    return Compactor(lake.settings, **{"engine": "inline", "options": {"min-input-files": 2}, **more})


@pytest.mark.parametrize("strategy", [Strategy.SMALL_FILES, Strategy.FULL])
def test_rows_stay_and_files_go(lake: lakes.Lake, strategy: Strategy) -> None:
    table = sick_table(lake)
    before = storage.row_multiset(table.scan().to_arrow())
    files = table.inspect.data_files().num_rows

    outcome = compactor(lake, strategy=strategy).compact_table(lake.name("events"))

    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    table = table.refresh()
    assert storage.row_multiset(table.scan().to_arrow()) == before
    assert table.inspect.data_files().num_rows == files - outcome.files_removed + outcome.files_added
    assert outcome.files_added < outcome.files_removed
    assert compactor(lake, strategy=strategy).compact_table(lake.name("events")).kind is Kind.HEALTHY


def test_the_snapshot_tells_who_why_and_what_was_proved(lake: lakes.Lake) -> None:
    table = sick_table(lake, partitioned=False)
    head = table.current_snapshot()
    assert head is not None
    outcome = compactor(lake).compact_table(lake.name("events"))
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    summary = {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}
    expected = {
        "operation": "replace",
        "engine-name": "iceberg-compaction",
        "compaction.run-id": outcome.run_id,
        "compaction.strategy": "small-files",
        "compaction.planned-snapshot-id": str(head.snapshot_id),
        "compaction.proof.level": "checksum",
        "compaction.proof.rows": "360",
        "added-data-files": "1",
        "deleted-data-files": "6",
        "total-data-files": "1",
        "total-records": "360",
    }
    assert {key: summary.get(key) for key in expected} == expected
    entries = table.inspect.entries().to_pylist()
    added = [entry for entry in entries if entry["status"] == 1]
    assert [(e["sequence_number"], e["file_sequence_number"]) for e in added] == [(6, 7)]


@pytest.mark.parametrize("level", ["counts", "checksum", "deep"])
def test_every_proof_level(lake: lakes.Lake, level: str) -> None:
    sick_table(lake, partitioned=False)
    outcome = compactor(lake, options={"verify": level, "min-input-files": 2}).compact_table(lake.name("events"))
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert outcome.proof is not None
    assert outcome.proof.failures == ()
    assert (outcome.proof.source.row_checksum is None) == (level == "counts")
    assert (outcome.proof.stored is not None) == (level == "deep")


def test_a_competing_append_is_survived(lake: lakes.Lake) -> None:
    table = sick_table(lake)
    plan = compactor(lake).plan_table(lake.name("events"))
    table.append(lakes.rows(table.schema().as_arrow(), 30, first=1000))
    before = storage.row_multiset(table.refresh().scan().to_arrow())
    outcome = compactor(lake).apply(plan)
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert storage.row_multiset(table.refresh().scan().to_arrow()) == before


def test_a_vanished_input_aborts_with_nothing_left_behind(lake: lakes.Lake) -> None:
    table = sick_table(lake, partitioned=False)
    plan = compactor(lake).plan_table(lake.name("events"))
    table.delete("id < 100")
    table = table.refresh()
    before, files = storage.row_multiset(table.scan().to_arrow()), storage.files_under(table)
    outcome = compactor(lake).apply(plan)
    assert outcome.kind is Kind.CONFLICT
    assert storage.files_under(table) == files
    assert storage.row_multiset(table.refresh().scan().to_arrow()) == before


def test_a_plan_survives_json(lake: lakes.Lake) -> None:
    table = sick_table(lake)
    before = storage.row_multiset(table.scan().to_arrow())
    plan = compactor(lake).plan_table(lake.name("events"))
    again = Plan.model_validate_json(plan.model_dump_json(by_alias=True))
    assert again == plan
    assert compactor(lake).apply(again).kind is Kind.COMPACTED
    assert storage.row_multiset(table.refresh().scan().to_arrow()) == before


def test_where_keeps_the_other_partitions(lake: lakes.Lake) -> None:
    table = sick_table(lake)
    options = {"where": "at < '2026-01-09T00:00:00'", "min-input-files": 2}
    before = storage.row_multiset(table.scan().to_arrow())
    plan = compactor(lake, options=options).plan_table(lake.name("events"))
    everything = compactor(lake).plan_table(lake.name("events"))
    assert 0 < plan.input_files < everything.input_files
    assert compactor(lake, options=options).apply(plan).kind is Kind.COMPACTED
    assert storage.row_multiset(table.refresh().scan().to_arrow()) == before


def test_an_empty_table_is_healthy(lake: lakes.Lake) -> None:
    lakes.make_table(lake.catalog, lake.name("nothing"))
    outcome = compactor(lake).compact_table(lake.name("nothing"))
    assert outcome.kind is Kind.HEALTHY
    assert compactor(lake).inspect_table(lake.name("nothing")).score == 100


@pytest.mark.spark
def test_through_spark(lake: lakes.Lake, spark: SparkSession) -> None:
    table = sick_table(lake)
    before = storage.row_multiset(table.scan().to_arrow())
    outcome = compactor(lake, engine="spark", spark=spark).compact_table(lake.name("events"))
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert storage.row_multiset(table.refresh().scan().to_arrow()) == before
    assert spark.range(3).count() == 3  # a session that was passed in stays open


@pytest.mark.spark
@pytest.mark.parametrize("sent_along", [True, False])
def test_deletes_through_spark(
    lake: lakes.Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, sent_along: bool
) -> None:
    """Delete files travel with the tasks if they are small, else workers read them."""
    monkeypatch.setattr(shared_context, "INLINE_BYTES", 10**6 if sent_along else 0)
    table = sick_table(lake, partitioned=False)
    before = table.scan().to_arrow()
    paths = table.inspect.data_files()["file_path"].to_pylist()
    (first,) = (path for path in paths if ids_of(table, path)[0] == 0)
    table = manifests.add_position_delete(table, {first: [0, 59]})
    table = manifests.add_equality_delete(table, pa.table({"id": pa.array([61, 200], pa.int64())}))
    outcome = compactor(lake, strategy="delete-files", engine="spark", spark=spark).compact_table(lake.name("events"))
    assert (outcome.deleted_rows, outcome.delete_files_removed) == (4, 2), outcome.sentence
    left = before.filter(pc.invert(pc.is_in(before["id"], pa.array([0, 59, 61, 200]))))
    assert storage.row_multiset(table.refresh().scan().to_arrow()) == storage.row_multiset(left)


def ids_of(table: Table, path: str) -> list[int | None]:
    with table.io.new_input(path).open() as stream:
        ids: list[int | None] = pq.read_table(stream, columns=["id"])["id"].to_pylist()
        return ids
