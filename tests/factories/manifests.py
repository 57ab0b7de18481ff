"""Snapshots that PyIceberg's writers cannot make: delete files, data files of other formats, entries with key metadata.
Manifests are written by hand and committed through the catalog like any other snapshot."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, AssertTableUUID, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, ListType, NestedField, StructType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import ManifestFile, ManifestWriter
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

FILE_PATH_ID, POS_ID = 2147483546, 2147483545  # reserved field ids of position delete files


def add_position_delete(
    table: Table, positions: dict[str, Sequence[int]], *, file_scoped: bool = True, branch: str = "main"
) -> Table:
    """Delete rows by position: a real Parquet delete file for data files of one partition, given as path → positions.
    `file_scoped` (one path only) records the path as both bounds, so readers match by path; else by partition.
    Returns the table as committed."""
    paths = sorted(positions)
    rows = [(path, position) for path in paths for position in sorted(positions[path])]
    schema = pa.schema(
        [_field("file_path", pa.string(), FILE_PATH_ID), _field("pos", pa.int64(), POS_ID)],
    )
    data = pa.table([[row[0] for row in rows], [row[1] for row in rows]], schema=schema)
    like = data_file_of(table, paths[0], branch=branch)
    metrics: dict[str, Any] = {}
    if file_scoped:
        assert len(paths) == 1, "a file-scoped delete file names one data file"
        metrics = {
            "lower_bounds": {FILE_PATH_ID: paths[0].encode()},
            "upper_bounds": {FILE_PATH_ID: paths[0].encode()},
        }
    file = _write_delete_file(table, data, like, DataFileContent.POSITION_DELETES, metrics)
    return add_files(table, [file], operation=Operation.DELETE, branch=branch)


def add_equality_delete(table: Table, rows: pa.Table, *, like: str | None = None, branch: str = "main") -> Table:
    """Delete rows by equality with `rows` (its columns are the equality columns): a real Parquet delete file.
    `like` is the path of a data file whose spec and partition the delete file takes; None: an unpartitioned spec, which
    makes the delete global. Returns the table as committed."""
    schema = table.schema()
    ids = [schema.find_field(name).field_id for name in rows.column_names]
    fields = [
        _field(name, rows.schema.field(name).type, id_).with_nullable(rows[name].null_count > 0)
        for name, id_ in zip(rows.column_names, ids, strict=True)
    ]
    if like is not None:
        source = data_file_of(table, like, branch=branch)
    else:
        source = DataFile.from_args(partition=Record())
        source.spec_id = next(spec.spec_id for spec in table.specs().values() if spec.is_unpartitioned())
    file = _write_delete_file(
        table, rows.cast(pa.schema(fields)), source, DataFileContent.EQUALITY_DELETES, {"equality_ids": ids}
    )
    return add_files(table, [file], operation=Operation.DELETE, branch=branch)


def fake_data_file(table: Table, name: str, *, partition: Record | None = None, **changes: Any) -> DataFile:
    """An entry for a data file that does not exist; `changes` are fields of DataFile, and `spec_id`."""
    spec_id = changes.pop("spec_id", table.spec().spec_id)
    arguments: dict[str, Any] = {
        "content": DataFileContent.DATA,
        "file_path": f"{table.location()}/data/{name}",
        "file_format": FileFormat.PARQUET,
        "partition": partition if partition is not None else Record(),
        "record_count": 10,
        "file_size_in_bytes": 1000,
    }
    file = DataFile.from_args(**(arguments | changes))
    file.spec_id = spec_id
    return file


def data_file_of(table: Table, path: str, *, branch: str = "main") -> DataFile:
    """The live data file of that path."""
    snapshot = table.metadata.snapshot_by_name(branch)
    assert snapshot is not None
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io):
            if entry.data_file.file_path == path:
                return entry.data_file
    raise AssertionError(f"{path} is not live")


def add_files(
    table: Table,
    files: list[DataFile],
    *,
    operation: Operation = Operation.APPEND,
    branch: str = "main",
    sequence_number: int | None = None,
) -> Table:
    """Commit a snapshot that adds these files (of one spec and one content kind) to the branch, or makes the branch.
    They have the commit's sequence number, or an older one as a rewrite's have. Returns the table as committed."""
    snapshot_id = table.metadata.new_snapshot_id()
    manifest = write_manifest_of(table, files, snapshot_id, sequence_number=sequence_number)
    return commit_manifests(table, snapshot_id, [manifest], files, operation=operation, branch=branch)


def write_manifest_of(
    table: Table,
    files: list[DataFile],
    snapshot_id: int,
    *,
    writer_class: type[ManifestWriterV2] | None = None,
    sequence_number: int | None = None,
) -> ManifestFile:
    """A manifest with one ADDED entry per file, by PyIceberg's writer for the table unless given."""
    with _manifest_writer(table, files[0], snapshot_id, writer_class) as writer:
        for file in files:
            writer.add(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=snapshot_id,
                    sequence_number=sequence_number,
                    file_sequence_number=None,
                    data_file=file,
                )
            )
    return writer.to_manifest_file()


def commit_manifests(
    table: Table,
    snapshot_id: int,
    manifests: list[ManifestFile],
    added: Sequence[DataFile] = (),
    *,
    operation: Operation = Operation.APPEND,
    branch: str = "main",
    keep_head: bool = True,
) -> Table:
    """Commit a snapshot of these manifests before the branch's own ones, or instead of them."""
    metadata, io = table.metadata, table.io
    head = metadata.snapshot_by_name(branch)
    parent_id = head.snapshot_id if head else None
    version, sequence = metadata.format_version, metadata.next_sequence_number()
    location = f"{table.location()}/metadata/snap-{snapshot_id}-{uuid.uuid4()}.avro"
    with write_manifest_list(
        version, io.new_output(location), snapshot_id, parent_id, sequence if version > 1 else None, "gzip"
    ) as writer:
        writer.add_manifests([*manifests, *(head.manifests(io) if head and keep_head else [])])
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent_id,
        manifest_list=location,
        sequence_number=sequence if version > 1 else None,
        summary=_summary(table, head, added, operation),
        schema_id=metadata.current_schema_id,
    )
    table.catalog.commit_table(
        table,
        (AssertTableUUID(uuid=metadata.table_uuid), AssertRefSnapshotId(ref=branch, snapshot_id=parent_id)),
        (
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate(snapshot_id=snapshot_id, ref_name=branch, type=SnapshotRefType.BRANCH),
        ),
    )
    return table.catalog.load_table(table.name())


class DeleteManifestWriter(ManifestWriterV2):
    """PyIceberg's writer, for delete files. `equality_ids` are ints as the spec says; Java does not read PyIceberg's
    longs."""

    def _with_partition(self, format_version: Any) -> Schema:
        struct = data_file_with_partition(
            format_version=format_version, partition_type=self._spec.partition_type(self._schema)
        )
        ids = ListType(element_id=136, element_type=IntegerType(), element_required=True)
        fields = [
            NestedField(field.field_id, field.name, ids, required=False) if field.name == "equality_ids" else field
            for field in struct.fields
        ]
        return manifest_entry_schema_with_data_file(format_version=format_version, data_file=StructType(*fields))

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _manifest_writer(
    table: Table, like: DataFile, snapshot_id: int, writer_class: type[ManifestWriterV2] | None
) -> ManifestWriter:
    output = table.io.new_output(f"{table.location()}/metadata/{uuid.uuid4()}-m0.avro")
    spec = table.specs()[like.spec_id]
    if writer_class is not None:
        return writer_class(spec, table.schema(), output, snapshot_id, "gzip")
    if like.content == DataFileContent.DATA:
        return write_manifest(table.metadata.format_version, spec, table.schema(), output, snapshot_id, "gzip")
    return DeleteManifestWriter(spec, table.schema(), output, snapshot_id, "gzip")


def _write_delete_file(
    table: Table, rows: pa.Table, like: DataFile, content: DataFileContent, fields: dict[str, Any]
) -> DataFile:
    output = table.io.new_output(f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet")
    with output.create() as stream:
        pq.write_table(rows, stream)
    file = DataFile.from_args(
        content=content,
        file_path=output.location,
        file_format=FileFormat.PARQUET,
        partition=like.partition,
        record_count=rows.num_rows,
        file_size_in_bytes=len(output),
        **fields,
    )
    file.spec_id = like.spec_id
    return file


def _field(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(field_id)})


def _summary(table: Table, head: Snapshot | None, added: Sequence[DataFile], operation: Operation) -> Summary:
    collector = SnapshotSummaryCollector()
    for file in added:
        collector.add_file(file, table.schema(), table.specs()[file.spec_id])
    # PyIceberg counts totals for its own operations only; OVERWRITE counts all of them.
    counted = update_snapshot_summaries(
        Summary(operation=Operation.OVERWRITE, **collector.build()), head.summary if head else None
    )
    return Summary(operation=operation, **counted.additional_properties)


class ManifestWriterV3(ManifestWriterV2):
    """PyIceberg's writer, with the fields of format version 3 (all null) in the file's schema."""

    @property
    def version(self) -> Any:
        return 3


def as_v3(table: Table, name: str) -> Table:
    """A copy of the table's metadata as format version 3, registered under another name; PyIceberg reads such tables
    but does not write them."""
    with table.io.new_input(table.metadata_location).open() as stream:
        metadata = json.loads(stream.read())
    metadata |= {"format-version": 3, "next-row-id": 1000}
    for snapshot in metadata.get("snapshots", []):
        snapshot |= {"first-row-id": 0, "added-rows": 10}
    output = table.io.new_output(f"{table.location()}/metadata/v3-{uuid.uuid4()}.metadata.json")
    with output.create() as stream:
        stream.write(json.dumps(metadata).encode())
    return table.catalog.register_table(name, output.location)
