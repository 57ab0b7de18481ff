"""The table that the crash and fault labs work on: three days of two small files each, position deletes of both
scopes and equality deletes. It is small, so that a whole compaction of it takes a fraction of a second, and has several
groups, so that a run makes several commits. What it holds is known."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from tests.factories import lake as lakes
from tests.factories import manifests, reader, storage

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from tests.factories.reader import Row

ROWS = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.int64()), pa.field("name", pa.string())])
SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "day", LongType()), NestedField(3, "name", StringType())
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"), spec_id=0)
OPTIONS = {"min-input-files": 2, "partial-progress": True}
# A test does not wait: attempts follow each other at once.
IMPATIENT = {
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "5",
    "commit.status-check.num-retries": "3",
    "commit.status-check.min-wait-ms": "1",
    "commit.status-check.max-wait-ms": "5",
}
DAYS, FILES_PER_DAY, ROWS_PER_FILE = 3, 2, 10
ROWS_PER_DAY = FILES_PER_DAY * ROWS_PER_FILE
_DELETED = {0, 3, 4, 15, 20 + 1, 20 + 19, 40 + 4, 40 + 15}


def rows(first: int, count: int, day: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table([list(numbers), [day] * count, [f"n{number}" for number in numbers]], schema=ROWS)


def build(catalog: Catalog, name: str) -> Table:
    """The table, with its deletes."""
    table = lakes.make_table(catalog, name, SCHEMA, spec=BY_DAY, properties=IMPATIENT)
    for number in range(FILES_PER_DAY):
        parts = [rows((day * FILES_PER_DAY + number) * ROWS_PER_FILE, ROWS_PER_FILE, day) for day in range(DAYS)]
        table.append(pa.concat_tables(parts))
    first, _ = data_files(table, 0)
    table = manifests.add_position_delete(table, {first: [0, 3]})
    first, second = data_files(table, 1)
    table = manifests.add_position_delete(table, {first: [1], second: [9]}, file_scoped=False)
    for day in (0, 2):
        lowest = day * ROWS_PER_DAY
        keys = pa.table({"id": pa.array([lowest + 4, lowest + 15, 999_999], pa.int64())})
        table = manifests.add_equality_delete(table, keys, like=data_files(table, day)[0])
    return table


def data_files(table: Table, day: int) -> list[str]:
    """The live data files of a day, in the order of their rows."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = []
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io):
            if int(entry.data_file.content) == 0 and entry.data_file.partition[0] == day:
                found.append((entry.data_file.lower_bounds[1], entry.data_file.file_path))
    return [path for _, path in sorted(found)]


def model() -> Counter[Row]:
    """The rows that the table holds, deletes applied: told from what was written, without reading anything."""
    numbers = set(range(DAYS * ROWS_PER_DAY)) - _DELETED
    return Counter((number, number // ROWS_PER_DAY, f"n{number}") for number in numbers)


def unexplained(table: Table) -> set[str]:
    """Files below the table's location that its metadata does not know."""
    return storage.files_under(table) - reader.known_files(table)


def run_snapshots(table: Table) -> dict[str, list[int]]:
    """The snapshots that each run committed, as the table tells."""
    found: dict[str, list[int]] = {}
    for snapshot in table.snapshots():
        told: Any = snapshot.summary.additional_properties if snapshot.summary else {}
        if run_id := told.get("compaction.run-id"):
            found.setdefault(run_id, []).append(snapshot.snapshot_id)
    return found
