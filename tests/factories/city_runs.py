"""Runs on a small table of cities, for tests of what can be said and done about them afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.table.update import RemoveSnapshotsUpdate
from tests.factories import manifests, rewrites
from tests.factories.cities import BY_CITY, SCHEMA, rows
from tests.factories.lake import make_table

from iceberg_compaction import Compactor

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from tests.factories.lake import Lake

ENCODED = {"min-input-files": 2, "copy-row-groups": "never"}


def compactor(lake: Lake, **options: Any) -> Compactor:
    return Compactor(lake.catalog, engine="inline", options={**ENCODED, **options})


def city_table(lake: Lake, **properties: str) -> Table:
    """`db.t` with the numbers 0 to 17: even ones in Rome, odd ones in Oslo, three files each."""
    table = make_table(lake.catalog, "db.t", SCHEMA, spec=BY_CITY, properties=properties)
    for first in range(0, 18, 6):
        table.append(rows(first))
    return table


def compact(lake: Lake, **options: Any) -> str:
    """Compacts `db.t`; the id of the run."""
    return compactor(lake, **options).compact_table("db.t").run_id


def again(table: Table) -> Table:
    """The table as it is now."""
    return table.catalog.load_table(table.name())


def files_of(table: Table, city: str, branch: str = "main") -> list[str]:
    """The paths of the live data files of a city."""
    return [file.file_path for file in rewrites.live_data_files(table, branch) if file.partition[0] == city]


def delete_id(table: Table, number: int, city: str, branch: str = "main") -> Table:
    """Deletes one row by equality, in the partition of its city."""
    keys = pa.table({"id": pa.array([number], pa.int64())})
    return manifests.add_equality_delete(table, keys, like=files_of(table, city, branch)[0], branch=branch)


def expire(table: Table, *snapshot_ids: int | None) -> None:
    """Takes snapshots out of the table's metadata; files stay."""
    table = again(table)
    ids = [snapshot_id for snapshot_id in snapshot_ids if snapshot_id is not None]
    table.catalog.commit_table(table, (), (RemoveSnapshotsUpdate(snapshot_ids=ids),))


def local(path: str) -> Path:
    return Path(path.removeprefix("file://"))
