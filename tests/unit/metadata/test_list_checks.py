"""Manifest lists that are whole Avro files, but not the whole list of their snapshot (R70)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.snapshots import Operation, Summary

from iceberg_compaction import Compactor, errors
from iceberg_compaction.formats.avro import container
from iceberg_compaction.metadata import list_checks, reachable
from iceberg_compaction.metadata.reach import avro_bulk, listed_manifests

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

NAME = "shop.events"
RUN = "0b6a7f0e3f524d6c9a3b6f1c9d0e2a11"


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = catalog.create_table(NAME, rows.schema)
    for _ in range(4):
        table.append(rows)
    return catalog


def local(path: str) -> str:
    return path.removeprefix("file://")


def list_of(table: Table, at: int = -1) -> str:
    return local(table.metadata.snapshots[at].manifest_list)


def cut(path: str) -> None:
    """Cut the file before its first block, which leaves a whole Avro file without records."""
    with open(path, "r+b") as file:
        parsed = container.parse(file.read())
        file.truncate(int(parsed.starts[0]))


def files(tmp_path: Path) -> set[str]:
    return {str(path) for path in tmp_path.rglob("*") if path.is_file() and "catalog.db" not in path.name}


def test_expiry_deletes_nothing_by_a_list_that_was_cut(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = catalog.load_table(NAME)
    cut(list_of(table))
    before = files(tmp_path)
    outcome = Compactor(catalog, engine="inline").expire_snapshots(NAME, older_than="2100-01-01", allow_recent=True)
    assert outcome.kind.value == "failed"
    assert "lists 0 data files, but the snapshot has 4 by its summary" in outcome.sentence
    assert files(tmp_path) == before
    assert len(catalog.load_table(NAME).metadata.snapshots) == 4


def test_orphans_are_not_told_by_a_list_that_was_cut(catalog: SqlCatalog) -> None:
    cut(list_of(catalog.load_table(NAME), 1))
    with pytest.raises(errors.MetadataError, match="may be cut short"):
        Compactor(catalog, engine="inline").find_orphans(NAME)


def test_a_list_of_another_snapshot_decides_nothing(catalog: SqlCatalog) -> None:
    table = catalog.load_table(NAME)
    with open(list_of(table, -2), "rb") as source, open(list_of(table), "wb") as sink:
        sink.write(source.read())
    with pytest.raises(errors.MetadataError, match="is the list of another snapshot"):
        listed_manifests.read(table.io, table.metadata.snapshots)


def test_files_of_dead_runs_are_not_judged_by_damaged_metadata(catalog: SqlCatalog) -> None:
    table = catalog.load_table(NAME)
    (*_, manifest) = listed_manifests.read(table.io, table.metadata.snapshots)["path"].to_pylist()
    cut(local(manifest))
    with pytest.raises(errors.MetadataError, match="holds 0 entries"):
        reachable.names(table, [RUN])
    cut(list_of(table))
    with pytest.raises(errors.MetadataError, match="lists 0 data files"):
        reachable.names(table, [RUN])


def test_a_summary_that_is_wrong_stops_nothing(catalog: SqlCatalog) -> None:
    """A list of few entries has no further block, so that it is whole."""
    snapshots = catalog.load_table(NAME).metadata.snapshots
    summary = snapshots[-1].summary
    assert summary is not None
    wrong = snapshots[-1].model_copy(update={"summary": Summary(summary.operation, **{"total-data-files": "5"})})
    assert listed_manifests.read(catalog.load_table(NAME).io, [wrong]).num_rows == 4


@pytest.mark.parametrize(("block", "is_doubtful"), [(31, False), (32, True), (200, True)])
def test_a_list_that_ends_with_a_full_block_may_be_cut(catalog: SqlCatalog, block: int, is_doubtful: bool) -> None:
    table = catalog.load_table(NAME)
    snapshot = table.metadata.snapshots[-1].model_copy(
        update={"summary": Summary(Operation.APPEND, **{"total-data-files": "1000"})}
    )
    counts = np.array([200, block])
    parsed = container.Container(metadata={}, sync=b"", data=b"", counts=counts, starts=counts, ends=counts)
    rows = int(counts.sum())
    entries = pa.table({"added": pa.array([1] * rows), "existing": pa.array([0] * rows), "content": [0] * rows})
    file = avro_bulk.BulkFile(location="", where="The list", snapshot=snapshot)
    with pytest.raises(errors.MetadataError) if is_doubtful else contextlib.nullcontext():
        list_checks.check_counts([file], [parsed], entries)


def test_snapshots_that_count_nothing_say_nothing(catalog: SqlCatalog) -> None:
    table = catalog.load_table(NAME)
    bare = [each.model_copy(update={"summary": None}) for each in table.metadata.snapshots]
    cut(list_of(table))
    assert listed_manifests.read(table.io, bare).num_rows == 3
