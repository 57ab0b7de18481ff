"""R55: dates and times outside the years 1 to 9999, which Iceberg has and Python has not, in partitions and
summaries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import transforms, types
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import SnapshotSummaryCollector
from pyiceberg.typedef import Record
from tests.factories import lake as lakes
from tests.factories import manifests

from iceberg_compaction import Compactor, Kind

if TYPE_CHECKING:
    from pyiceberg.table import Table

SCHEMA = Schema(
    types.NestedField(1, "d", types.DateType()),
    types.NestedField(2, "t", types.TimestampType()),
    types.NestedField(3, "z", types.TimestamptzType()),
)
SPEC = PartitionSpec(
    PartitionField(1, 1000, transforms.IdentityTransform(), "d"),
    PartitionField(1, 1001, transforms.MonthTransform(), "month"),
    PartitionField(2, 1002, transforms.HourTransform(), "hour"),
    PartitionField(3, 1003, transforms.IdentityTransform(), "z"),
)
FAR = {  # days, and microseconds: what they are called
    (
        2_932_897,
        253_402_300_800_000_001,
    ): "d=10000-01-01/month=10000-01/hour=10000-01-01-00/z=10000-01-01T00:00:00.000001",
    (-719_529, -62_167_219_200_000_001): "d=-001-12-31/month=-001-12/hour=-001-12-31-23/z=-001-12-31T23:59:59.999999",
    (-(2**31), -(2**63)): "d=-5877641-06-23/month=-5877641-06/hour=199660-07-08-11/z=-290308-12-21T19:59:05.224192",
}


def add(table: Table, days: int, micros: int, number: int) -> Table:
    path = Path(table.location().removeprefix("file://")) / "data" / f"{number}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    times: Any = pa.array([micros], pa.int64())
    columns = [pa.array([days], pa.int32()).view(pa.date32()), times.view(pa.timestamp("us"))]
    pq.write_table(pa.table([*columns, times.view(pa.timestamp("us", "UTC"))], schema=SCHEMA.as_arrow()), path)
    cycles, day = divmod(days, 146_097)
    month = transforms.MonthTransform().transform(types.DateType())(day) + cycles * 4800
    hour = (micros // 3_600_000_000 + 2**31) % 2**32 - 2**31  # as Iceberg Java counts
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path.as_uri(),
        file_format=FileFormat.PARQUET,
        partition=Record(days, month, hour, micros),
        record_count=1,
        file_size_in_bytes=path.stat().st_size,
    )
    file.spec_id = 0
    return manifests.add_files(table, [file])


@pytest.mark.parametrize("far", FAR)
def test_tables_with_far_times_are_compacted_and_told(
    local_lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch, far: tuple[int, int]
) -> None:
    asked = {"write.summary.partition-limit": "10"}
    table = lakes.make_table(local_lake.catalog, "db.t", SCHEMA, spec=SPEC, properties=asked)
    with monkeypatch.context() as patch:
        patch.setattr(SnapshotSummaryCollector, "update_partition_metrics", lambda *_, **__: None)  # cannot tell them
        for number in range(2):
            table = add(table, *far, number)
        table = add(table, 0, 0, 2)
    compactor = Compactor(local_lake.settings, "full", engine="inline", options={"min-input-files": 2})

    worst = compactor.inspect_table("db.t").worst_partitions[0].partition
    (group,) = compactor.plan_table("db.t").groups
    outcome = compactor.compact_table("db.t")

    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    table.refresh()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    path = FAR[far].replace(":", "%3A") + "%2B00%3A00"
    told = snapshot.summary[f"partitions.{path}"]
    assert told is not None
    assert told.startswith("added-data-files=1,deleted-data-files=2,added-records=2,deleted-records=2,")
    assert list(Path(table.location().removeprefix("file://")).glob(f"data/{path}/*.parquet"))
    day = FAR[far].split("/")[0].removeprefix("d=")
    assert f'"d":"{day}"' in worst
    assert group.partition == worst
