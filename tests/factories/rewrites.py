"""Rewrites without an engine: the live files of each partition joined into one staged file by pyarrow, and the request
that would commit them. For tests of what happens to a rewrite afterwards."""

from __future__ import annotations

import dataclasses
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.model.rewrite_plan import PLAN_FILES
from iceberg_compaction.model.rewrite_task import StagedFile
from iceberg_compaction.model.table_view import Pin
from iceberg_compaction.operations.rewrite_files.change.replace_files import ReplaceGroup, ReplaceRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table


def pin_of(table: Table, branch: str = "main") -> Pin:
    """The table's present state."""
    snapshot = table.metadata.snapshot_by_name(branch)
    assert snapshot is not None
    return Pin(
        table_uuid=str(table.metadata.table_uuid),
        branch=branch,
        snapshot_id=snapshot.snapshot_id,
        sequence_number=snapshot.sequence_number or 0,
        schema_id=table.metadata.current_schema_id,
        spec_id=table.metadata.default_spec_id,
        format_version=table.metadata.format_version,
    )


def live_data_files(table: Table, branch: str = "main") -> list[DataFile]:
    """As PyIceberg reads them from the branch's manifests."""
    snapshot = table.metadata.snapshot_by_name(branch)
    assert snapshot is not None
    files = []
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io):
            entry.data_file.spec_id = manifest.partition_spec_id
            if int(entry.data_file.content) == 0:
                files.append(entry.data_file)
    return files


def rewrite_request(
    table: Table,
    files: Iterable[DataFile] | None = None,
    *,
    branch: str = "main",
    properties: dict[str, str] | None = None,
    keep: Collection[int] | None = None,
    apart: bool = False,
) -> ReplaceRequest:
    """Join the files (default: all live ones) into one staged file per partition, pinned to the table as it is. `keep`:
    the values of `id` that deletes have left; `apart`: each partition is a group of its own, not all one."""
    chosen = list(files) if files is not None else live_data_files(table, branch)
    groups = defaultdict(list)
    for file in chosen:
        spec = table.specs()[file.spec_id]
        groups[file.spec_id, partition_tuples.encode_one(file.partition, spec, table.schema())].append(file)
    made = [
        ReplaceGroup(
            id=number,
            removed=pa.Table.from_pylist(
                [{name: getattr(file, name) for name in PLAN_FILES.names} for file in members], schema=PLAN_FILES
            ),
            partitions=(place,),
            added=(added := (_join(table, members, *place, keep),)),
            deleted_records=sum(file.record_count for file in members) - added[0].record_count,
        )
        for number, (place, members) in enumerate(groups.items())
    ]
    return ReplaceRequest(
        pin=pin_of(table, branch),
        groups=tuple(made) if apart else (_as_one(made),),
        snapshot_properties=properties or {},
    )


def _as_one(groups: list[ReplaceGroup]) -> ReplaceGroup:
    return ReplaceGroup(
        id=0,
        removed=pa.concat_tables([group.removed for group in groups]),
        partitions=tuple(place for group in groups for place in group.partitions),
        added=tuple(file for group in groups for file in group.added),
        deleted_records=sum(group.deleted_records for group in groups),
    )


def changed(request: ReplaceRequest, **changes: Any) -> ReplaceRequest:
    """The request with another first group."""
    first, *others = request.groups
    return dataclasses.replace(request, groups=(dataclasses.replace(first, **changes), *others))


def _join(
    table: Table, files: list[DataFile], spec_id: int, partition: str, keep: Collection[int] | None
) -> StagedFile:
    tables = []
    for file in files:
        with table.io.new_input(file.file_path).open() as stream:
            tables.append(pq.read_table(stream))
    joined = pa.concat_tables(tables)
    if keep is not None:
        joined = joined.filter(pc.is_in(joined["id"], value_set=pa.array(sorted(keep), pa.int64())))
    output = table.io.new_output(f"{table.location()}/data/joined-{uuid.uuid4()}.parquet")
    with output.create() as stream:
        pq.write_table(joined, stream)
    return StagedFile(
        file_path=output.location,
        file_size_in_bytes=len(output),
        record_count=joined.num_rows,
        spec_id=spec_id,
        partition=partition,
        value_counts=dict.fromkeys((field.field_id for field in table.schema().fields), joined.num_rows),
        split_offsets=(4,),
    )
