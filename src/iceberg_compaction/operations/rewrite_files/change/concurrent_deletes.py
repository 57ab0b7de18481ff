"""Deletes that came after the plan. Most do not matter: the new files keep the planned data sequence number, so that
newer equality deletes apply to them as they did to the old files (R2). Those that would be lost, or would begin to
apply, are conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata import fetch
from iceberg_compaction.metadata.deletes import delete_paths, delete_scopes
from iceberg_compaction.metadata.manifest import parse_manifest, snapshot_manifests
from iceberg_compaction.model import table_view
from iceberg_compaction.operations.rewrite_files.change import replace_request

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from iceberg_compaction.operations.rewrite_files.change.replace_request import ReplaceRequest


def conflicts(
    table: Table,
    manifests: snapshot_manifests.SnapshotManifests,
    request: ReplaceRequest,
    paths: delete_paths.NamedPaths,
) -> dict[int, str]:
    """The groups that conflict with a delete newer than the plan, each with a sentence."""
    # A delete file newer than the plan came in a manifest newer than the plan, whatever manifest it has moved to since.
    start = request.pin.sequence_number
    newer = [
        manifest
        for manifest in manifests.manifest_files
        if manifest.content == snapshot_manifests.DELETES and manifest.sequence_number > start
    ]
    if not newer:
        return {}
    reading = parse_manifest.reading(table, ())
    deletes = pa.concat_tables([_deletes(table, manifest, reading) for manifest in newer]).unify_dictionaries()
    deletes = deletes.filter(pc.greater(deletes["sequence_number"], start))
    equality = pc.equal(deletes["content"], table_view.EQUALITY_DELETES)
    lost = _equality(table, deletes.filter(equality), request)
    return lost | _position(table, deletes.filter(pc.invert(equality)), request, paths)


def _deletes(table: Table, manifest: ManifestFile, reading: parse_manifest.Reading) -> pa.Table:
    data = fetch.read_bytes(table.io, manifest.manifest_path, where=f"Manifest {manifest.manifest_path}")
    return parse_manifest.parse(data, manifest, reading).select(table_view.FILES.names)


def _position(
    table: Table, deletes: pa.Table, request: ReplaceRequest, paths: delete_paths.NamedPaths
) -> dict[int, str]:
    """No position delete or deletion vector may apply to a replaced file (R6): the new files hold the rows that it
    deletes, at other positions. One for a whole partition is opened, because most writers delete from files that they
    have just written, and not from ours."""
    named = deletes["referenced_data_file"]
    targets = dict(zip(named.to_pylist(), deletes["file_path"].to_pylist(), strict=True))
    lost: dict[int, str] = {}
    shared = deletes.filter(named.is_null())
    owners = replace_request.by_partition(request.groups, lambda group: group.partitions)
    partition_of = dict(zip(shared["file_path"].to_pylist(), replace_request.partition_keys(shared), strict=True))
    rewritten = pa.array([partition_key in owners for partition_key in partition_of.values()], pa.bool_())
    for path, result in paths.read(table.io, shared.filter(rewritten).select(delete_paths.COLUMNS)).items():
        if isinstance(result, errors.CompactionError):
            raise result
        if result is None:
            lost |= dict.fromkeys(owners[partition_of[path]], _unread(path))
        else:
            targets |= dict.fromkeys(result.to_pylist(), path)
    replaced = request.removed["file_path"]
    hit = pc.is_in(replaced, value_set=pa.array([path for path in targets if path is not None], pa.string()))
    for path, owner in zip(replaced.filter(hit).to_pylist(), request.owners[hit.to_numpy()].tolist(), strict=True):
        lost[owner] = _deleted(targets[path])
    return lost


def _deleted(path: str) -> str:
    return (
        f"Rows of a rewritten file were deleted since the plan was made, by the position delete file {path}; "
        "make a new plan."
    )


def _unread(path: str) -> str:
    return (
        f"The position delete file {path} came since the plan was made. It may be for rewritten files, and it is "
        "encrypted or too large to read; make a new plan."
    )


def _equality(table: Table, deletes: pa.Table, request: ReplaceRequest) -> dict[int, str]:
    """An equality delete of one partition must not begin or cease to apply to rows that move (R4), nor compare columns
    that the new files lack (R23)."""
    if not deletes.num_rows or not request.added:
        return {}
    metadata = table.metadata
    global_specs = delete_scopes.unpartitioned(metadata.specs())
    schema = next((schema for schema in metadata.schemas if schema.schema_id == request.pin.schema_id), None)
    written = frozenset(() if schema is None else schema.field_ids)
    moving = replace_request.by_partition(request.groups, lambda group: group.moved)
    writing = replace_request.by_partition(request.groups, lambda group: group.outputs)
    lost: dict[int, str] = {}
    columns = deletes.select(["file_path", "equality_ids"]).to_pylist()
    for partition_key, delete in zip(replace_request.partition_keys(deletes), columns, strict=True):
        is_global = partition_key[0] in global_specs
        if not is_global:
            lost |= dict.fromkeys(moving.get(partition_key, ()), _moving(delete["file_path"]))
        if not written.issuperset(delete["equality_ids"] or ()):
            hit = [group.id for group in request.groups if group.added] if is_global else writing.get(partition_key, ())
            lost |= dict.fromkeys(hit, _lacking(delete["file_path"]))
    return lost


def _moving(path: str) -> str:
    return (
        f"The equality delete file {path} came since the plan was made, and the rewrite moves rows into or out of its "
        "partition; make a new plan."
    )


def _lacking(path: str) -> str:
    return (
        f"The equality delete file {path} came since the plan was made, and the new files do not have all columns that "
        "it compares; make a new plan."
    )
