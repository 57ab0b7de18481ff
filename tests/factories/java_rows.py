"""Rows through Iceberg Java without a Spark job: Arrow tables go in as Java's records, which its own writers put into
data and delete files of any format; Java's generic reader gives a table's rows back with all deletes applied."""

from __future__ import annotations

import io
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession
    from tests.factories.java_deletes import JavaTable


def create(session: SparkSession, name: str, schema: Schema, properties: Mapping[str, str]) -> None:
    """An unpartitioned table of types that Spark does not know, by Java's catalog."""
    iceberg: Any = session.sparkContext._jvm.org.apache.iceberg  # type: ignore[union-attr]
    made = iceberg.SchemaParser.fromJson(schema.model_dump_json())
    catalog = iceberg.spark.Spark3Util.loadIcebergCatalog(session._jsparkSession, "lake")
    builder = catalog.buildTable(iceberg.catalog.TableIdentifier.parse(name), made)
    for key, value in properties.items():
        builder = builder.withProperty(key, value)
    builder.create()


def schema_of(java: JavaTable) -> Schema:
    return Schema.model_validate_json(java.iceberg.SchemaParser.toJson(java.table.schema()))


def arrow(java: JavaTable, rows: pa.Table | Iterable[Mapping[str, Any]], schema: Schema | None = None) -> pa.Table:
    """Rows as an Arrow table of the table's schema, with field ids. Names that a row lacks are null."""
    wanted = schema_to_pyarrow(schema or schema_of(java))
    if isinstance(rows, pa.Table) and rows.column_names != wanted.names:
        return rows  # by Java, which spells some names otherwise in files; it finds columns by their ids
    if not isinstance(rows, pa.Table):
        # Arrow makes no nested values of extension types, as UUID is, but casts to them.
        rows = pa.Table.from_pylist(list(rows), schema=pa.schema([f.with_type(_stored(f.type)) for f in wanted]))
    return rows.cast(wanted)


def _stored(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_stored(field.type)) for field in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_stored(kind.key_type)), kind.item_field.with_type(_stored(kind.item_type))
        )
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_stored(kind.value_type)))
    return pa.list_(kind.value_field.with_type(_stored(kind.value_type))) if pa.types.is_list(kind) else kind


def records(java: JavaTable, rows: pa.Table, schema: Any = None) -> Any:
    """The rows as a Java list of generic records."""
    buffer = io.BytesIO()
    pq.write_table(rows, buffer)
    source = java.iceberg.inmemory.InMemoryInputFile(buffer.getvalue())
    reader = java.iceberg.formats.FormatModelRegistry.readBuilder(
        java.iceberg.FileFormat.PARQUET, _record_class(java), source
    )
    found = reader.project(schema if schema is not None else java.table.schema()).build()
    listed = _lists(java).newArrayList(found)
    found.close()
    return listed


def read(java: JavaTable, *, branch: str = "main") -> pa.Table:
    """All rows of a branch as Java reads them."""
    java.table.refresh()
    scan = java.iceberg.data.IcebergGenerics.read(java.table)
    if java.table.currentSnapshot() is None:
        return arrow(java, [])
    found = scan.useSnapshot(java.table.snapshot(branch).snapshotId()).project(java.table.schema()).build()
    listed = _lists(java).newArrayList(found)
    found.close()
    if listed.isEmpty():
        return arrow(java, [])  # Java writes no file at all for no rows
    out = java.iceberg.inmemory.InMemoryOutputFile()
    writer = _factory(java, "parquet", {}).newDataWriter(_plain(java, out), _unpartitioned(java), None)
    _write_all(java, writer, listed)
    return pq.read_table(io.BytesIO(bytes(out.toByteArray())), arrow_extensions_enabled=False)


def rows(java: JavaTable, *, branch: str = "main") -> Counter[str]:
    """All rows of a branch as a multiset; every bit of a value counts."""
    return multiset(read(java, branch=branch))


def multiset(table: pa.Table) -> Counter[str]:
    """Rows told exactly: NaN is NaN, and -0.0 is not 0.0."""
    plain = pa.table([_plain_column(column) for column in table.columns], names=table.column_names)
    return Counter(repr(tuple(row.values())) for row in plain.to_pylist())


def _plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    # Dates and times beyond Python's years would not convert; their numbers do.
    if pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date32(column.type) else column


def data_files(
    java: JavaTable,
    rows: pa.Table | Iterable[Mapping[str, Any]],
    *,
    spec_id: int | None = None,
    file_format: str = "parquet",
    properties: Mapping[str, str] | None = None,
) -> list[Any]:
    """Data files by Java's own writer, with its metrics: one per partition, which Java computes from the rows."""
    spec = java.spec(spec_id)
    factory = _factory(java, file_format, properties or {})
    files = []
    for key, members in _by_partition(java, records(java, arrow(java, rows)), spec):
        writer = factory.newDataWriter(_new_file(java, "data", file_format), spec, key)
        _write_all(java, writer, members)
        files.append(writer.toDataFile())
    return files


def append(
    java: JavaTable, rows: pa.Table | Iterable[Mapping[str, Any]], *, branch: str = "main", **how: Any
) -> list[Any]:
    """One append, one file per partition."""
    java.table.refresh()
    files = data_files(java, rows, **how)
    change = java.table.newFastAppend()
    if branch != "main":
        change = change.toBranch(branch)
    for file in files:
        change.appendFile(file)
    change.commit()
    return files


def equality_delete(
    java: JavaTable,
    keys: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    partition: Any = "",
    spec_id: int | None = None,
    file_format: str = "parquet",
    extra: Sequence[str] = (),
) -> Any:
    """An equality delete file on the given columns (dots for nested ones), by Java's writer and with its metrics. The
    partition is a path such as p=a, or Java's own value.
    `extra` columns are in the file too, and mean nothing."""
    schema = java.table.schema().select(_strings(java, [*columns, *extra]))
    ids = [java.table.schema().findField(name).fieldId() for name in columns]
    rows = arrow(java, keys, Schema.model_validate_json(java.iceberg.SchemaParser.toJson(schema)))
    builder = _builder(java).deleteFileFormat(_format(java, file_format)).equalityDeleteRowSchema(schema)
    factory = builder.equalityFieldIds(_ints(java, ids)).build()
    spec = java.spec(spec_id)
    writer = factory.newEqualityDeleteWriter(_new_file(java, "eq", file_format), spec, _place(java, spec, partition))
    _write_all(java, writer, records(java, rows, schema))
    return writer.toDeleteFile()


def position_delete(
    java: JavaTable,
    positions: Sequence[tuple[str, int]],
    *,
    partition: Any = "",
    spec_id: int | None = None,
    file_format: str = "parquet",
) -> Any:
    """A position delete file by Java's writer; if all positions are of one data file, Java makes it file-scoped."""
    spec = java.spec(spec_id)
    factory = _builder(java).deleteFileFormat(_format(java, file_format)).build()
    writer = factory.newPositionDeleteWriter(_new_file(java, "pos", file_format), spec, _place(java, spec, partition))
    delete = java.iceberg.deletes.PositionDelete.create()
    for path, position in sorted(positions):
        writer.write(delete.set(path, position))
    writer.close()
    return writer.toDeleteFile()


def _by_partition(java: JavaTable, listed: Any, spec: Any) -> list[tuple[Any, Any]]:
    if spec.isUnpartitioned():
        return [(None, listed)]
    schema = java.table.schema()
    key = java.iceberg.PartitionKey(spec, schema)
    wrapper = java.iceberg.data.InternalRecordWrapper(schema.asStruct())
    groups: dict[str, tuple[Any, Any]] = {}
    for record in listed:
        key.partition(wrapper.wrap(record))
        _, members = groups.setdefault(key.toPath(), (key.copy(), java.jvm.java.util.ArrayList()))
        members.add(record)
    return list(groups.values())


def partitions(java: JavaTable) -> list[tuple[int, str, set[str]]]:
    """For each live data file its spec, its partition as a path, and the partitions that Java computes of its rows."""
    java.table.refresh()
    tasks = java.table.newScan().planFiles()
    found = []
    for task in _lists(java).newArrayList(tasks):
        file, spec = task.file(), task.spec()
        table = pq.read_table(str(file.location()).removeprefix("file:"), arrow_extensions_enabled=False)
        computed = {""}
        if not spec.isUnpartitioned():
            wrapper = java.iceberg.data.InternalRecordWrapper(java.table.schema().asStruct())
            key = java.iceberg.PartitionKey(spec, java.table.schema())
            computed = set()
            for record in records(java, table):
                key.partition(wrapper.wrap(record))
                computed.add(key.toPath())
        found.append((file.specId(), spec.partitionToPath(file.partition()), computed))
    tasks.close()
    return found


def _write_all(java: JavaTable, writer: Any, rows: Any) -> None:
    """All rows by one call. The bridge would choose the method for one row, so the other is named by its signature."""
    gateway: Any = java.session.sparkContext._gateway
    find = java.jvm.java.lang.Class.forName
    signature = gateway.new_array(gateway.jvm.Class, 1)
    signature[0] = find("java.lang.Iterable")
    arguments = gateway.new_array(gateway.jvm.Object, 1)
    arguments[0] = rows
    find("org.apache.iceberg.io.FileWriter").getMethod("write", signature).invoke(writer, arguments)
    writer.close()


def _place(java: JavaTable, spec: Any, partition: Any) -> Any:
    if not isinstance(partition, str):
        return partition
    return java.iceberg.DataFiles.data(spec, partition) if partition else None


def _builder(java: JavaTable) -> Any:
    return getattr(java.iceberg.data, "GenericFileWriterFactory$Builder")(java.table)


def _factory(java: JavaTable, file_format: str, properties: Mapping[str, str]) -> Any:
    # The builder takes a map of properties in place of the table's own, so both are joined.
    joined = java.jvm.java.util.HashMap(java.table.properties())
    for key, value in properties.items():
        joined.put(key, value)
    builder = _builder(java).dataFileFormat(_format(java, file_format)).dataSchema(java.table.schema())
    return builder.writerProperties(joined).build()


def _new_file(java: JavaTable, kind: str, file_format: str) -> Any:
    location = f"{java.table.location()}/data/{kind}-{uuid.uuid4()}.{file_format}"
    return _plain(java, java.table.io().newOutputFile(location))


def _plain(java: JavaTable, file: Any) -> Any:
    return java.iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(file)


def _format(java: JavaTable, name: str) -> Any:
    return java.iceberg.FileFormat.fromString(name)


def _unpartitioned(java: JavaTable) -> Any:
    return java.iceberg.PartitionSpec.unpartitioned()


def _record_class(java: JavaTable) -> Any:
    return java.jvm.java.lang.Class.forName("org.apache.iceberg.data.Record")


def _lists(java: JavaTable) -> Any:
    return java.iceberg.relocated.com.google.common.collect.Lists


def _strings(java: JavaTable, texts: Sequence[str]) -> Any:
    gateway: Any = java.session.sparkContext._gateway
    made = gateway.new_array(gateway.jvm.String, len(texts))
    for at, text in enumerate(texts):
        made[at] = text
    return made


def _ints(java: JavaTable, numbers: Sequence[int]) -> Any:
    gateway: Any = java.session.sparkContext._gateway
    made = gateway.new_array(gateway.jvm.int, len(numbers))
    for at, number in enumerate(numbers):
        made[at] = number
    return made
