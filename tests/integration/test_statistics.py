"""Statistics on real tables: counts that are right, made once, for the snapshot that they are of; files that surely did
not become part of the table are gone, and all others stay where expiry and orphans find them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampType
from tests.factories import lake as lakes
from tests.factories import racing, runs, storage
from tests.lab import scene
from typer.testing import CliRunner

from iceberg_compaction import Compactor, Kind, errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.interfaces import upkeep_operations, wiring
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.metadata.partitions import partition_counts, unified_partition
from iceberg_compaction.operations import upkeep_file
from iceberg_compaction.operations.statistics import partition_file, statistics_change
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from tests.factories.lake import Lake

    from iceberg_compaction.model.outcome import Outcome


def build(lake: Lake) -> Table:
    """The table of the labs. SeaweedFS takes no statistics of anybody into its buckets of tables, so that the metadata
    of a table there lies in another one."""
    table = scene.build(lake.catalog, lake.name("t"))
    if table.location().startswith("s3://"):
        given = table.io.properties
        plain = fs.S3FileSystem(
            access_key=given["s3.access-key-id"],
            secret_key=given["s3.secret-access-key"],
            endpoint_override=given["s3.endpoint"],
            allow_bucket_creation=True,
        )
        plain.create_dir("plain")
        with table.transaction() as change:
            change.set_properties({"write.metadata.path": f"s3://plain/{lake.namespace}"})
    return table


def perform(table: Table, run: Any = None, **options: Any) -> Outcome:
    operation = upkeep_operations.statistics(".".join(table.name()), **options)
    house = operate.House(catalog=table.catalog, engines=wiring.engine_factory("inline"))
    return operate.operate(operation, house, run or runs.make_run())


def loaded(table: Table) -> Table:
    return table.catalog.load_table(table.name())


def ndv(table: Table) -> dict[str, int]:
    (file,) = loaded(table).metadata.statistics
    return {
        loaded(table).schema().find_column_name(blob.fields[0]): int((blob.properties or {})["ndv"])  # type: ignore[misc]
        for blob in file.blob_metadata
    }


def partitions(table: Table) -> list[dict[str, Any]]:
    (file,) = loaded(table).metadata.partition_statistics
    with table.io.new_input(file.statistics_path).open() as stream:
        content = stream.read()
    assert len(content) == file.file_size_in_bytes
    return pq.read_table(pa.BufferReader(content)).to_pylist()


def metadata_files(table: Table) -> set[str]:
    folder = Path(table.location().removeprefix("file://")) / "metadata"
    return {
        path.name for path in folder.iterdir() if path.name.startswith("partition-stats") or path.suffix == ".stats"
    }


def test_statistics_are_right_and_made_once(lake: Lake) -> None:
    table = build(lake)
    result = perform(table, columns="id,name")
    assert result.kind is Kind.MAINTAINED, result.sentence
    assert ndv(table) == {"id": 52, "name": 52}  # deletes are applied
    head = loaded(table).current_snapshot()
    assert [
        (row["partition"]["day"], row["data_record_count"], row["data_file_count"], row["position_delete_file_count"],
         row["position_delete_record_count"], row["equality_delete_file_count"], row["equality_delete_record_count"])
        for row in partitions(table)
    ] == [(0, 20, 2, 1, 2, 1, 3), (1, 20, 2, 1, 2, 0, 0), (2, 20, 2, 0, 0, 1, 3)]  # fmt: skip
    assert partitions(table)[2]["last_updated_snapshot_id"] == head.snapshot_id
    assert partitions(table)[2]["last_updated_at"] == head.timestamp_ms
    before = loaded(table).metadata_location
    again = perform(table, columns="id,name")
    assert (again.kind, loaded(table).metadata_location) == (Kind.HEALTHY, before), again.sentence
    # Another column is added to those that are there.
    assert perform(table, columns="day", partitions=False).kind is Kind.MAINTAINED
    assert ndv(table) == {"id": 52, "name": 52, "day": 3}


def test_commits_that_change_no_count_need_no_new_statistics(local_lake: Lake) -> None:
    table = scene.build(local_lake.catalog, "db.t")
    assert perform(table, columns="id").kind is Kind.MAINTAINED
    compactor = Compactor(local_lake.settings, "small-files", options=scene.OPTIONS, engine="inline")
    assert compactor.rewrite_manifests("db.t").kind is Kind.COMPACTED
    plan = compactor.plan_statistics("db.t", columns=["id"])
    assert plan.empty, plan.sentence
    assert "still hold" in plan.kept[0].sentence
    assert compactor.compact_table("db.t").kind is Kind.COMPACTED  # files change, and rows do not
    plan = compactor.plan_statistics("db.t", columns=["id"])
    assert (plan.of_partitions, plan.columns) == (True, ())
    loaded(table).append(scene.rows(100, 1, 7))
    assert compactor.plan_statistics("db.t", columns=["id"]).columns == ("id",)
    compactor.catalog.close()


def test_partitions_of_all_specs_and_nulls(local_lake: Lake) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "x", DoubleType()), NestedField(3, "at", TimestampType()),
        NestedField(4, "city", StringType()),
    )  # fmt: skip
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "x"))
    table = lakes.make_table(local_lake.catalog, "db.t", schema, spec=spec)

    def append(xs: list[Any], cities: list[Any]) -> None:
        ids = list(range(len(xs)))
        micros = pa.array([1_700_000_000_000_000] * len(xs), pa.int64()).cast(pa.timestamp("us"))
        table.append(pa.table({"id": ids, "x": pa.array(xs, pa.float64()), "at": micros, "city": cities}))

    append([-0.5, None, 7.0], ["a", "b", None])
    with table.update_spec() as change:
        change.remove_field("x")
        change.add_field("at", DayTransform(), "at_day")
        change.add_identity("city")
    append([1.0, 2.0, 3.0], ["ü", None, "a"])
    with table.update_spec() as change:
        change.remove_field("city")
    with table.update_schema() as change:
        change.delete_column("city")
    assert perform(table).kind is Kind.MAINTAINED
    rows = partitions(table)
    assert {tuple(row["partition"]) for row in rows} == {("x", "at_day")}  # not the dropped column
    found = [(str(row["partition"]["x"]), str(row["partition"]["at_day"]), row["spec_id"], row["data_record_count"])
             for row in rows]  # fmt: skip
    assert found == [
        ("None", "None", 0, 1),
        ("None", "2023-11-14", 1, 3),
        ("-0.5", "None", 0, 1),
        ("7.0", "None", 0, 1),
    ]


def test_rows_are_in_the_order_of_iceberg_and_a_third_version_counts_vectors(local_lake: Lake) -> None:
    schema = Schema(NestedField(1, "x", DoubleType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "x"))
    table = lakes.make_table(local_lake.catalog, "db.t", schema, spec=spec)
    texts = ['{"x":"NaN"}', '{"x":"Infinity"}', '{"x":null}', '{"x":-0.0}', '{"x":0.0}', '{"x":"-Infinity"}']
    columns = {name: [1] * len(texts) for name in partition_counts.PARTITION_COUNTS.names}
    columns |= {"partition": texts, "spec_id": [0] * len(texts), "last_change": [None] * len(texts)}
    counts = pa.table(columns, schema=partition_counts.PARTITION_COUNTS)
    found = [str(row["partition"]["x"]) for row in partition_file.rows(table, counts).to_pylist()]
    assert found in (["None", "-inf", "-0.0", "0.0", "inf", "nan"], ["None", "-inf", "0.0", "-0.0", "inf", "nan"])
    third = partition_file.statistics_schema(unified_partition.fields(table), 3)
    assert third.find_field("dv_count").field_id == 13
    assert all(field.required for field in third.fields if not field.name.startswith(("total_record", "last_")))


def test_tables_without_partitions_or_snapshots_have_nothing_to_count(local_lake: Lake) -> None:
    table = lakes.make_table(local_lake.catalog, "db.t")
    assert "no snapshot yet" in perform(table, columns="id").sentence
    table.append(lakes.rows(table.schema().as_arrow(), 14))
    compactor = Compactor(local_lake.settings, engine="inline")
    plan = compactor.plan_statistics("db.t")
    assert plan.empty
    assert plan.kept[0].sentence == "the table is not partitioned"
    assert perform(table, columns="all").figures == {"columns": 3}
    assert ndv(table) == {"id": 12, "name": 12, "amount": 12}
    for wrong in ({"columns": "idd"}, {"columns": [], "partitions": False}):
        with pytest.raises(errors.ConfigError):
            compactor.plan_statistics("db.t", **wrong)
    compactor.catalog.close()


def meddle(monkeypatch: pytest.MonkeyPatch, act: Callable[[Table], None], *, after: bool = True) -> list[Any]:
    """Somebody else acts after, or before, the first attempt is staged."""
    real, stages = statistics_change.StatisticsChange.stage, []

    def stage(change: Any, given: Table, now_ms: int) -> Any:
        stages.append(change)
        if len(stages) == 1 and not after:
            act(loaded(given))
            given = loaded(given)
        staged = real(change, given, now_ms)
        if len(stages) == 1 and after:
            act(loaded(given))
        return staged

    monkeypatch.setattr(statistics_change.StatisticsChange, "stage", stage)
    return stages


def test_commits_of_others_do_not_matter(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = build(lake)
    head = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    stages = meddle(monkeypatch, lambda now: now.append(scene.rows(900, 3, 9)))
    result = perform(table)
    assert (result.kind, len(stages)) == (Kind.MAINTAINED, 2), result.sentence
    assert [each.snapshot_id for each in loaded(table).metadata.partition_statistics] == [head]
    assert len(partitions(table)) == 3  # not the day that came later


@pytest.mark.parametrize("after", [True, False])
def test_r82_an_expired_snapshot_gets_no_statistics(
    local_lake: Lake, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    table = scene.build(local_lake.catalog, "db.t")
    head = table.current_snapshot().snapshot_id  # type: ignore[union-attr]

    def expire(now: Table) -> None:
        now.append(scene.rows(900, 3, 9))
        now.maintenance.expire_snapshots().by_id(head).commit()

    meddle(monkeypatch, expire, after=after)
    result = perform(table, columns="id")
    assert result.kind is Kind.CONFLICT, result
    assert "has expired" in result.sentence
    assert not loaded(table).metadata.partition_statistics
    assert metadata_files(table) == set()


def test_r82_the_snapshot_must_be_there_when_the_commit_lands(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = build(lake)
    counted = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    meddle(monkeypatch, lambda now: now.append(scene.rows(900, 3, 9)), after=False)  # it is the head no more

    def expire() -> None:
        loaded(table).maintenance.expire_snapshots().by_id(counted).commit()

    racing.before_publishing(monkeypatch, expire)
    result = perform(table)
    # A server may refuse it in words of its own.
    said = "has expired" in result.sentence or "unknown snapshot" in result.sentence
    assert (result.ok, said) == (False, True), result.sentence
    now = loaded(table).metadata
    assert (now.partition_statistics, set(now.refs)) == ([], {"main"})
    paths = {path for path in storage.files_under(table) if result.run_id in path}
    assert paths == set()


def test_statistics_that_somebody_else_made_first_stay(local_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = scene.build(local_lake.catalog, "db.t")
    real = statistics_change.StatisticsChange.stage
    meddle(monkeypatch, lambda now: _others(now, monkeypatch, real), after=False)
    result = perform(table)
    assert result.kind is Kind.HEALTHY, result.sentence
    assert "Somebody else" in result.sentence
    (file,) = loaded(table).metadata.partition_statistics
    assert metadata_files(table) == {file.statistics_path.rpartition("/")[2]}
    monkeypatch.undo()


def _others(table: Table, monkeypatch: pytest.MonkeyPatch, real: Any) -> None:
    with monkeypatch.context() as plain:
        plain.setattr(statistics_change.StatisticsChange, "stage", real)
        assert perform(table).kind is Kind.MAINTAINED


def test_files_of_a_refused_commit_go_and_those_in_doubt_stay(
    local_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = scene.build(local_lake.catalog, "db.t")

    def refuse(*given: Any) -> None:
        raise errors.CommitError("No.")

    def doubt(*given: Any) -> None:
        raise errors.StateUnknownError("Who knows.")

    monkeypatch.setattr(publish, "publish", refuse)
    assert perform(table, columns="id").kind is Kind.FAILED
    assert metadata_files(table) == set()
    monkeypatch.setattr(publish, "publish", doubt)
    assert perform(table, columns="id").kind is Kind.FAILED
    assert len(metadata_files(table)) == 2


def test_a_saved_plan_makes_no_other_statistics(local_lake: Lake, tmp_path: Path) -> None:
    table = scene.build(local_lake.catalog, "db.t")
    compactor = Compactor(local_lake.settings, engine="inline")
    plan = compactor.plan_statistics("db.t", columns="name", partitions=False)
    compactor.catalog.close()
    upkeep_file.save(plan, tmp_path / "plan.json")
    assert perform(table, columns="id").kind is Kind.MAINTAINED
    operation = upkeep_file.load_operation(tmp_path / "plan.json")
    house = operate.House(catalog=table.catalog, engines=wiring.engine_factory("inline"))
    assert operate.operate(operation, house, runs.make_run()).kind is Kind.MAINTAINED
    assert ndv(table) == {"id": 52, "name": 52}


def test_expiry_takes_statistics_and_orphans_leaves_them(local_lake: Lake) -> None:
    table = scene.build(local_lake.catalog, "db.t")
    compactor = Compactor(local_lake.settings, engine="inline")
    for number in range(2):
        assert compactor.refresh_statistics("db.t", columns="id").kind is Kind.MAINTAINED
        if not number:
            loaded(table).append(scene.rows(500, 2, 1))
    assert len(metadata_files(table)) == 4
    old = time.time() - 10 * 86_400
    for path in Path(table.location().removeprefix("file://")).rglob("*"):
        os.utime(path, (old, old))
    assert compactor.find_orphans("db.t").empty
    expired = compactor.expire_snapshots("db.t", older_than="2100-01-01", allow_recent=True)
    assert expired.figures["statistics-files"] == 2
    now = loaded(table).metadata
    head = now.current_snapshot_id
    assert [each.snapshot_id for each in (*now.statistics, *now.partition_statistics)] == [head, head]
    assert metadata_files(table) == {
        each.statistics_path.rpartition("/")[2] for each in (*now.statistics, *now.partition_statistics)
    }
    compactor.catalog.close()


def test_the_command_and_the_step_of_upkeep(local_lake: Lake, tmp_path: Path) -> None:
    scene.build(local_lake.catalog, "db.t")
    flags = ["--table", "db.t", "--catalog-uri", str(local_lake.settings.uri), "--output", "json"]
    shown = CliRunner().invoke(app, ["statistics", *flags, "--columns", "id", "--dry-run"])
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["columns"] == ["id"]
    policy = tmp_path / "policy.yaml"
    policy.write_text("maintenance:\n  statistics: {enabled: true, columns: 'id, day'}\n")
    upkeep = ["maintain", *flags, "--policy", str(policy), "--engine", "inline", "--store", str(tmp_path / "runs.db")]
    done = CliRunner().invoke(app, [*upkeep, "--no-progress"])
    assert done.exit_code == 0, done.output
    steps = {each["step"]: each["outcome"]["kind"] for each in json.loads(done.stdout)["steps"]}
    assert list(steps)[-1] == "statistics"
    assert steps["statistics"] == "maintained"
    refused = CliRunner().invoke(app, ["statistics", *flags, "--columns", "nope"])
    assert refused.exit_code == 2, refused.output
    assert "There is no column 'nope'" in refused.output
