"""Deletes of every kind in tables of Iceberg Java: pyarrow writes the files, Java's builders describe them and its row
delta commits them, so that scope, sequence numbers and metrics are what a test wants. What Java would apply is read
from its scan planning."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib import parse

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

PATH_ID, POS_ID, ROW_ID = 2147483546, 2147483545, 2147483544  # the columns of position delete files
Scoped = Literal["reference", "bounds", "partition"]  # how a position delete says which data files it is for


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaTable:
    """A table as Iceberg Java has it. `name` is namespace.table; the catalog is `lake`."""

    session: SparkSession
    name: str
    table: Any

    @property
    def jvm(self) -> Any:
        return self.session.sparkContext._jvm

    @property
    def iceberg(self) -> Any:
        return self.jvm.org.apache.iceberg

    def spec(self, spec_id: int | None) -> Any:
        return self.table.spec() if spec_id is None else self.table.specs().get(spec_id)


def load(session: SparkSession, name: str) -> JavaTable:
    spark = session.sparkContext._jvm.org.apache.iceberg.spark  # type: ignore[union-attr]
    return JavaTable(
        session=session, name=name, table=spark.Spark3Util.loadIcebergTable(session._jsparkSession, f"lake.{name}")
    )


def data_file(java: JavaTable, rows: pa.Table, *, partition: str = "", spec_id: int | None = None) -> Any:
    """A data file without metrics. `partition` is a path such as p=a; the columns are matched to the schema by name."""
    path = _write(java, rows, _field_ids(java, rows), "data")
    builder = java.iceberg.DataFiles.builder(java.spec(spec_id))
    return _described(builder, path, rows, partition).build()


def equality_delete(
    java: JavaTable, keys: pa.Table, *, partition: str = "", spec_id: int | None = None, metrics: bool = False
) -> Any:
    """An equality delete file on the columns of `keys`; one of an unpartitioned spec is global. With `metrics`, Java
    leaves out data files whose bounds do not meet."""
    ids = _field_ids(java, keys)
    path = _write(java, keys, ids, "eq")
    gateway = java.session.sparkContext._gateway
    columns = gateway.new_array(gateway.jvm.int, len(ids))  # type: ignore[union-attr]
    for at, field_id in enumerate(ids):
        columns[at] = field_id
    builder = java.iceberg.FileMetadata.deleteFileBuilder(java.spec(spec_id)).ofEqualityDeletes(columns)
    builder = _described(builder, path, keys, partition)
    if metrics:
        config = java.iceberg.MetricsConfig.getDefault()
        source = java.table.io().newInputFile(f"file://{path}")
        builder = builder.withMetrics(java.iceberg.parquet.ParquetUtil.fileMetrics(source, config))
    return builder.build()


def position_delete(
    java: JavaTable,
    positions: Sequence[tuple[str, int]],
    *,
    scoped: Scoped = "partition",
    partition: str = "",
    spec_id: int | None = None,
    with_rows: bool = False,
) -> Any:
    """A position delete file for pairs of data file and position. `reference` and `bounds` need a single data file.
    `with_rows` adds the optional column `row`, with an id only."""
    pairs = sorted(positions)
    rows = pa.table(
        {"file_path": [path for path, _ in pairs], "pos": pa.array([position for _, position in pairs], pa.int64())}
    )
    ids = [PATH_ID, POS_ID]
    if with_rows:
        first = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
        rows = rows.append_column("row", pa.array([{"id": 7}] * len(pairs), pa.struct([first])))
        ids.append(ROW_ID)
    path = _write(java, rows, ids, "pos")
    builder = java.iceberg.FileMetadata.deleteFileBuilder(java.spec(spec_id)).ofPositionDeletes()
    builder = _described(builder, path, rows, partition)
    if scoped == "reference":
        builder = builder.withReferencedDataFile(pairs[0][0])
    if scoped == "bounds":
        builder = builder.withMetrics(_path_bounds(java, pairs[0][0], pairs[-1][0], len(pairs)))
    return builder.build()


def commit(java: JavaTable, *, rows: Sequence[Any] = (), deletes: Sequence[Any] = ()) -> None:
    """One row delta: all of them get the same sequence number."""
    java.table.refresh()
    delta = java.table.newRowDelta()
    for file in rows:
        delta = delta.addRows(file)
    for file in deletes:
        delta = delta.addDeletes(file)
    delta.commit()


def remove(java: JavaTable, paths: Sequence[str]) -> None:
    """Data files leave the table; their delete files stay. Files are named by Java's own values: given a path, the
    bridge would find another method of this name, which deletes from storage."""
    java.table.refresh()
    tasks = java.table.newScan().planFiles()
    change = java.table.newDelete()
    for task in java.iceberg.relocated.com.google.common.collect.Lists.newArrayList(tasks):
        if str(task.file().location()) in paths:
            change = change.deleteFile(task.file())
    tasks.close()
    change.commit()


def applied(java: JavaTable) -> dict[str, set[tuple[str, int | None]]]:
    """For each live data file, the delete files that Java's scan gives it: path and, in a Puffin file, offset."""
    java.table.refresh()
    found: dict[str, set[tuple[str, int | None]]] = {}
    tasks = java.table.newScan().planFiles()
    for task in java.iceberg.relocated.com.google.common.collect.Lists.newArrayList(tasks):
        deletes = {(str(delete.location()), delete.contentOffset()) for delete in task.deletes()}
        found.setdefault(str(task.file().location()), set()).update(deletes)
    tasks.close()
    return found


def _field_ids(java: JavaTable, rows: pa.Table) -> list[int]:
    return [java.table.schema().findField(name).fieldId() for name in rows.column_names]


def _write(java: JavaTable, rows: pa.Table, ids: Sequence[int], kind: str) -> Path:
    folder = Path(parse.urlsplit(str(java.table.location())).path) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{kind}-{uuid.uuid4()}.parquet"
    named = [field.with_metadata({"PARQUET:field_id": str(i)}) for field, i in zip(rows.schema, ids, strict=True)]
    pq.write_table(rows.cast(pa.schema(named)), path)
    return path


def _described(builder: Any, path: Path, rows: pa.Table, partition: str) -> Any:
    builder = builder.withPath(f"file://{path}").withFormat("parquet").withFileSizeInBytes(path.stat().st_size)
    builder = builder.withRecordCount(rows.num_rows)
    return builder.withPartitionPath(partition) if partition else builder


def _path_bounds(java: JavaTable, lower: str, upper: str, count: int) -> Any:
    text = java.iceberg.types.Types.StringType.get()
    bounds = []
    for path in (lower, upper):
        bound = java.jvm.java.util.HashMap()
        bound.put(PATH_ID, java.iceberg.types.Conversions.toByteBuffer(text, path))
        bounds.append(bound)
    return java.iceberg.Metrics(count, None, None, None, None, *bounds)
