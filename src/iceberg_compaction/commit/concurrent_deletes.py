"""Deletes that came after the plan. Most do not matter: the new files keep the planned data sequence number, so that
newer equality deletes apply to them as they did to the old files (R2). Those that would be lost, or would begin to
apply, are conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata import delete_paths, delete_scopes, fetch, manifests, parse
from iceberg_compaction.model import table as table_model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from iceberg_compaction.commit.replace import ReplaceRequest


def check(table: Table, rows: Iterable[ManifestFile], request: ReplaceRequest, paths: delete_paths.NamedPaths) -> None:
    """Raise ConflictError if a delete newer than the plan cannot hold beside the request."""
    # A delete file newer than the plan came in a manifest newer than the plan, whatever manifest it has moved to since.
    start = request.pin.sequence_number
    newer = [row for row in rows if row.content == manifests.DELETES and row.sequence_number > start]
    if not newer:
        return
    how = parse.reading(table, ())
    found = pa.concat_tables([_deletes(table, row, how) for row in newer]).unify_dictionaries()
    found = found.filter(pc.greater(found["sequence_number"], start))
    equality = pc.equal(found["content"], table_model.EQUALITY_DELETES)
    _check_position(table, found.filter(pc.invert(equality)), request, paths)
    _check_equality(table, found.filter(equality), request)


def _deletes(table: Table, row: ManifestFile, how: parse.Reading) -> pa.Table:
    data = fetch.read_bytes(table.io, row.manifest_path, where=f"Manifest {row.manifest_path}")
    return parse.parse(data, row, how).select(table_model.FILES.names)


def _check_position(table: Table, deletes: pa.Table, request: ReplaceRequest, paths: delete_paths.NamedPaths) -> None:
    """No position delete or deletion vector may apply to a replaced file (R6): the new files hold the rows that it
    deletes, at other positions. One for a whole partition is opened, because most writers delete from files that they
    have just written, and not from ours."""
    replaced = frozenset(request.removed["file_path"].to_pylist())
    named = deletes["referenced_data_file"]
    for path, target in zip(deletes["file_path"].to_pylist(), named.to_pylist(), strict=True):
        if target in replaced:
            raise _deleted(path)
    shared = deletes.filter(named.is_null())
    inputs = request.inputs
    here = pa.array([place in inputs for place in _places(shared)], pa.bool_())
    for path, found in paths.read(table.io, shared.filter(here).select(delete_paths.COLUMNS)).items():
        if isinstance(found, errors.CompactionError):
            raise found
        if found is None:
            raise errors.ConflictError(
                f"The position delete file {path} came since the plan was made, and whether it is for rewritten files "
                "was not looked into, because it is encrypted or too large; make a new plan."
            )
        if not replaced.isdisjoint(found.to_pylist()):
            raise _deleted(path)


def _deleted(path: str) -> errors.ConflictError:
    return errors.ConflictError(
        f"Rows of a rewritten file were deleted since the plan was made, by the position delete file {path}; "
        "make a new plan."
    )


def _check_equality(table: Table, deletes: pa.Table, request: ReplaceRequest) -> None:
    if not deletes.num_rows or not request.added:
        return
    metadata = table.metadata
    everywhere = delete_scopes.unpartitioned(metadata.specs())
    written = next((schema for schema in metadata.schemas if schema.schema_id == request.pin.schema_id), None)
    known = frozenset(() if written is None else written.field_ids)
    moved, outputs = request.moved, request.outputs
    for place, delete in zip(_places(deletes), deletes.select(["file_path", "equality_ids"]).to_pylist(), strict=True):
        is_global = place[0] in everywhere
        if not is_global and place in moved:
            raise errors.ConflictError(
                f"The equality delete file {delete['file_path']} came since the plan was made, and the rewrite moves "
                "rows into or out of its partition; make a new plan."
            )
        if (is_global or place in outputs) and not known.issuperset(delete["equality_ids"] or ()):
            raise errors.ConflictError(
                f"The equality delete file {delete['file_path']} came since the plan was made, and the new files do "
                "not have all columns that it compares; make a new plan."
            )


def _places(rows: pa.Table) -> list[tuple[int, str]]:
    return list(zip(rows["spec_id"].to_pylist(), rows["partition"].cast(pa.string()).to_pylist(), strict=True))
