"""Snapshot history of real tables: the line of a branch, what summaries state, and who wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes

from iceberg_compaction.metadata import snapshot_log
from iceberg_compaction.model.snapshot_history import SNAPSHOTS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("summary", "writer"),
    [
        ({}, ("unknown", None)),
        ({"spark.app.id": "local-1", "engine-name": "spark", "app-id": "local-1"}, ("spark", "local-1")),
        ({"spark.app.id": "application_1"}, ("spark", "application_1")),
        ({"flink.job-id": "5f1c", "flink.max-committed-checkpoint-id": "7"}, ("flink", "5f1c")),
        ({"trino_query_id": "20260101_000000_00001_abcde"}, ("trino", None)),
        ({"kafka.connect.commit-id": "c", "kafka.connect.offsets.control.group": "{}"}, ("kafka-connect", None)),
        ({"engine-name": "Dremio", "engine-version": "25"}, ("dremio", None)),
        ({"engine-name": "iceberg-compaction", "compaction.run-id": "r"}, ("iceberg-compaction", None)),
    ],
)
def test_writers_by_what_they_leave(summary: dict[str, str], writer: tuple[str, str | None]) -> None:
    assert snapshot_log.writer_of(summary) == writer


def test_a_table_without_snapshots(local_lake: lakes.Lake) -> None:
    table = lakes.make_table(local_lake.catalog, local_lake.name("t"))
    found = snapshot_log.read_history(table)
    assert found.snapshots.schema == SNAPSHOTS
    assert (found.snapshots.num_rows, found.metadata_files, found.partitioned) == (0, 1, False)


def test_real_commits(local_lake: lakes.Lake) -> None:
    table = lakes.make_table(local_lake.catalog, local_lake.name("t"))
    rows = lakes.rows(lakes.NUMBERS, 10)
    table.append(rows)
    table.append(rows, snapshot_properties={"spark.app.id": "local-1"})
    table.delete("id < 5")
    found = snapshot_log.read_history(table)
    columns = found.snapshots.to_pydict()
    assert columns["operation"][:2] == ["append", "append"]
    assert columns["operation"][2] in ("overwrite", "delete")
    assert columns["engine"] == ["unknown", "spark", "unknown"]
    assert columns["app"] == [None, "local-1", None]
    assert columns["sequence_number"] == [1, 2, 3]
    assert columns["added_files"][:2] == [1, 1]
    assert columns["added_records"][:2] == [10, 10]
    assert columns["total_records"] == [10, 20, 10]
    assert columns["timestamp_ms"] == sorted(columns["timestamp_ms"])
    assert found.metadata_files == 4
    assert found.metadata_file_bytes == len(table.io.new_input(table.metadata_location))


def test_only_the_line_of_the_branch_counts(local_lake: lakes.Lake) -> None:
    table = lakes.make_table(local_lake.catalog, local_lake.name("t"))
    lakes.append_small_files(table, 2)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.manage_snapshots().create_branch(snapshot.snapshot_id, "audit").commit()
    table.append(lakes.rows(lakes.NUMBERS, 1), branch="audit")
    assert snapshot_log.read_history(table).snapshots.num_rows == 2
    assert snapshot_log.read_history(table, branch="audit").snapshots.num_rows == 3
    assert snapshot_log.read_history(table, branch="nothing").snapshots.num_rows == 0


def test_a_metadata_file_that_cannot_be_asked_for(local_lake: lakes.Lake) -> None:
    table = lakes.make_table(local_lake.catalog, local_lake.name("t"))
    folder: Path | str = table.metadata_location.removeprefix("file://")
    table.metadata_location = f"file://{folder}.gone"
    assert snapshot_log.read_history(table).metadata_file_bytes is None
