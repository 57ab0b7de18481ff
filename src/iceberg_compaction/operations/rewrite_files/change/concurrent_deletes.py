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
from iceberg_compaction.metadata.manifest import parse_manifest, written_manifests
from iceberg_compaction.model import table_view
from iceberg_compaction.operations.rewrite_files.change import replace_request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from iceberg_compaction.operations.rewrite_files.change.replace_request import ReplaceRequest


def conflicts(
    table: Table, rows: Iterable[ManifestFile], request: ReplaceRequest, paths: delete_paths.NamedPaths
) -> dict[int, str]:
    """The groups beside which a delete newer than the plan cannot hold, each with a sentence."""
    # A delete file newer than the plan came in a manifest newer than the plan, whatever manifest it has moved to since.
    start = request.pin.sequence_number
    newer = [row for row in rows if row.content == written_manifests.DELETES and row.sequence_number > start]
    if not newer:
        return {}
    how = parse_manifest.reading(table, ())
    found = pa.concat_tables([_deletes(table, row, how) for row in newer]).unify_dictionaries()
    found = found.filter(pc.greater(found["sequence_number"], start))
    equality = pc.equal(found["content"], table_view.EQUALITY_DELETES)
    lost = _equality(table, found.filter(equality), request)
    return lost | _position(table, found.filter(pc.invert(equality)), request, paths)


def _deletes(table: Table, row: ManifestFile, how: parse_manifest.Reading) -> pa.Table:
    data = fetch.read_bytes(table.io, row.manifest_path, where=f"Manifest {row.manifest_path}")
    return parse_manifest.parse(data, row, how).select(table_view.FILES.names)


def _position(
    table: Table, deletes: pa.Table, request: ReplaceRequest, paths: delete_paths.NamedPaths
) -> dict[int, str]:
    """No position delete or deletion vector may apply to a replaced file (R6): the new files hold the rows that it
    deletes, at other positions. One for a whole partition is opened, because most writers delete from files that they
    have just written, and not from ours."""
    named = deletes["referenced_data_file"]
    targets = dict(zip(named.to_pylist(), deletes["file_path"].to_pylist(), strict=True))
    found: dict[int, str] = {}
    shared = deletes.filter(named.is_null())
    owners = replace_request.by_place(request.groups, lambda group: group.partitions)
    places = dict(zip(shared["file_path"].to_pylist(), _places(shared), strict=True))
    here = pa.array([place in owners for place in places.values()], pa.bool_())
    for path, read in paths.read(table.io, shared.filter(here).select(delete_paths.COLUMNS)).items():
        if isinstance(read, errors.CompactionError):
            raise read
        if read is None:
            found |= dict.fromkeys(owners[places[path]], _unread(path))
        else:
            targets |= dict.fromkeys(read.to_pylist(), path)
    replaced = request.removed["file_path"]
    hit = pc.is_in(replaced, value_set=pa.array([path for path in targets if path is not None], pa.string()))
    for path, owner in zip(replaced.filter(hit).to_pylist(), request.owners[hit.to_numpy()].tolist(), strict=True):
        found[owner] = _deleted(targets[path])
    return found


def _deleted(path: str) -> str:
    return (
        f"Rows of a rewritten file were deleted since the plan was made, by the position delete file {path}; "
        "make a new plan."
    )


def _unread(path: str) -> str:
    return (
        f"The position delete file {path} came since the plan was made, and whether it is for rewritten files was not "
        "looked into, because it is encrypted or too large; make a new plan."
    )


def _equality(table: Table, deletes: pa.Table, request: ReplaceRequest) -> dict[int, str]:
    """An equality delete of one partition must not begin or cease to apply to rows that move (R4), nor compare columns
    that the new files lack (R23)."""
    if not deletes.num_rows or not request.added:
        return {}
    metadata = table.metadata
    everywhere = delete_scopes.unpartitioned(metadata.specs())
    written = next((schema for schema in metadata.schemas if schema.schema_id == request.pin.schema_id), None)
    known = frozenset(() if written is None else written.field_ids)
    moving = replace_request.by_place(request.groups, lambda group: group.moved)
    writing = replace_request.by_place(request.groups, lambda group: group.outputs)
    found: dict[int, str] = {}
    for place, delete in zip(_places(deletes), deletes.select(["file_path", "equality_ids"]).to_pylist(), strict=True):
        is_global = place[0] in everywhere
        if not is_global:
            found |= dict.fromkeys(moving.get(place, ()), _moving(delete["file_path"]))
        if not known.issuperset(delete["equality_ids"] or ()):
            hit = [group.id for group in request.groups if group.added] if is_global else writing.get(place, ())
            found |= dict.fromkeys(hit, _lacking(delete["file_path"]))
    return found


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


def _places(rows: pa.Table) -> list[tuple[int, str]]:
    return list(zip(rows["spec_id"].to_pylist(), rows["partition"].cast(pa.string()).to_pylist(), strict=True))
