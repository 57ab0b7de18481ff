"""Everything that planning and health may know about a table, gathered once: a table comes in, one pinned snapshot's
files, settings and counts go out. Only metadata is read."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import refs

from iceberg_compaction import errors
from iceberg_compaction.metadata import cluster_column, fetch, sort_order, support
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.metadata.deletes import delete_index, delete_scopes, useless_deletes
from iceberg_compaction.metadata.filter import where_clause
from iceberg_compaction.metadata.manifest import live_files
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def look(
    table: Table,
    *,
    name: str,
    branch: str = refs.MAIN_BRANCH,
    where: str | None = None,
    cache: arrow_cache.Cache | None = None,
) -> table_view.TableView:
    """The branch's head as an inventory. `where` marks, in `selected`, the files that may hold matching rows. `cache`
    is where parsed manifests are kept; by default the user's settings say."""
    condition = None if where is None else where_clause.parse(where, table.schema())
    snapshot = head_of(table, name, branch)
    question = _Question(
        field_ids=() if condition is None else condition.field_ids,
        branch=branch,
        cache=arrow_cache.from_environment() if cache is None else cache,
    )
    files, manifests = _read(table, snapshot, question)
    selected = None if condition is None else condition.select(files, table.specs())
    files = files.select(table_view.FILES.names)
    return table_view.TableView(
        table=name,
        pin=None if snapshot is None else pin_of(table, branch, snapshot),
        files=files,
        properties=dict(table.properties),
        selected=selected,
        manifests=len(manifests),
        manifest_sizes=tuple(manifest.manifest_length for manifest in manifests),
        manifest_files=_manifest_files(manifests, files.num_rows),
        clustering_column=_clustering_column(table),
        sorts_rows=sort_order.followed(table, table.schema()) is not None,
        unwritable_specs=support.unwritable_specs(table),
        **_deletes(table, files),
        snapshots=len(table.metadata.snapshots),
        refs=len(table.metadata.refs),
        unsupported=support.unsupported(table, files),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What is asked about a snapshot's files, and where an answer may be kept."""

    field_ids: tuple[int, ...]  # whose metrics are wanted
    branch: str
    cache: arrow_cache.Cache


def _read(table: Table, snapshot: Snapshot | None, question: _Question) -> tuple[pa.Table, list[ManifestFile]]:
    """The live files, and the manifests that list them."""
    if snapshot is None:
        return live_files.no_files(metrics=question.field_ids), []
    try:
        manifests = fetch.list_manifests(table.io, snapshot)
        files = live_files.live_files(
            table,
            snapshot,
            metrics=question.field_ids,
            manifests=manifests,
            cache=question.cache,
            branch=question.branch,
        )
        return files, manifests
    except errors.MetadataError:
        if support.ENCRYPTION_KEY not in table.properties:
            raise
        # Manifests of an encrypted table are encrypted, too; that the table is not supported says it better.
        return live_files.no_files(metrics=question.field_ids), []


def _manifest_files(manifests: list[ManifestFile], count: int) -> tuple[int, ...]:
    """How many of so many live files each manifest lists, as far as their counts are there and add up."""
    counts = [(row.added_files_count, row.existing_files_count) for row in manifests]
    known = tuple(added + existing for added, existing in counts if added is not None and existing is not None)
    return known if len(known) == len(counts) and sum(known) == count else ()


def _deletes(table: Table, files: pa.Table) -> dict[str, Any]:
    """What deletes mean for each file, if there are any."""
    if (pc.max(files["content"]).as_py() or table_view.DATA) == table_view.DATA:
        return {}
    everywhere = delete_scopes.unpartitioned(table.specs())
    index = delete_index.build(files, unpartitioned_specs=everywhere)
    found = index.figures_per_data_file()
    dangling = np.zeros(files.num_rows, np.bool_)
    dangling[index.dangling().to_numpy()] = True
    columns: dict[str, Any] = {
        "dangling": pa.array(dangling),
        "useless_deletes": useless_deletes.of_snapshot(files, index, everywhere),
    }
    for name in ("delete_files", "deleted_rows"):
        column = np.zeros(files.num_rows, np.int64)
        column[found["row"].to_numpy()] = found[name].to_numpy()
        columns[name] = pa.array(column)
    return columns


def _clustering_column(table: Table) -> str | None:
    field = cluster_column.column(table)
    return None if field is None else table.schema().find_column_name(field.field_id)


def head_of(table: Table, name: str, branch: str) -> Snapshot | None:
    """The snapshot that a branch points to; None: the table has none yet. `name` is for errors."""
    known = table.metadata.refs
    if branch not in known:
        if branch == refs.MAIN_BRANCH and not table.metadata.snapshots:
            return None
        branches = sorted(key for key, ref in known.items() if ref.snapshot_ref_type == refs.SnapshotRefType.BRANCH)
        near = difflib.get_close_matches(branch, branches, n=3) or branches
        raise errors.ConfigError(f"Table {name} has no branch {branch!r}; there is {', '.join(near) or 'none'}.")
    if known[branch].snapshot_ref_type != refs.SnapshotRefType.BRANCH:
        raise errors.ConfigError(f"{branch!r} is a tag of table {name}, and a tag does not move; name a branch.")
    snapshot = table.metadata.snapshot_by_id(known[branch].snapshot_id)
    if snapshot is None:
        raise errors.MetadataError(
            f"Branch {branch!r} of table {name} points to snapshot {known[branch].snapshot_id}, which does not exist."
        )
    return snapshot


def pin_of(table: Table, branch: str, snapshot: Snapshot) -> table_view.Pin:
    """The state of the table that a decision about the snapshot is made on."""
    metadata = table.metadata
    return table_view.Pin(
        table_uuid=str(metadata.table_uuid),
        branch=branch,
        snapshot_id=snapshot.snapshot_id,
        sequence_number=snapshot.sequence_number or 0,  # v1 has none
        schema_id=metadata.current_schema_id,  # outputs are written in the current schema, whatever the snapshot's was
        spec_id=metadata.default_spec_id,
        format_version=metadata.format_version,
    )
