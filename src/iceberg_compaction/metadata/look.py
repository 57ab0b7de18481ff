"""One look at a table: a branch comes in, the TableView of its head goes out, with the manifests that it was read from.
Only metadata is read."""

from __future__ import annotations

import difflib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import index_by_id
from pyiceberg.table import refs

from iceberg_compaction import errors
from iceberg_compaction.metadata import cluster_column, read_shape, sort_order, support
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.metadata.deletes import delete_index, delete_scopes, useless_deletes
from iceberg_compaction.metadata.manifest import live_files, snapshot_manifests
from iceberg_compaction.model import plurals, table_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.metadata.filter.where_clause import Filter

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLook:
    """A view of a branch's head, and the manifests of that snapshot for those who read more of it later."""

    view: table_view.TableView
    manifests: snapshot_manifests.SnapshotManifests | None  # None: there is no snapshot, or it cannot be read


def _parsed(where: str, table: Table) -> Filter:
    from iceberg_compaction.metadata.filter import where_clause  # late: most looks have no filter

    return where_clause.parse(where, table.schema())


def pin_filter(where: str, table: Table, now_ms: int) -> str:
    """The filter with times in it for whatever asks for the time. ConfigError: it cannot be read."""
    from iceberg_compaction.metadata.filter import where_clause  # late, as above

    return where_clause.pin(where, table.schema(), now_ms)


def look(
    table: Table,
    *,
    name: str,
    branch: str = refs.MAIN_BRANCH,
    where: str | None = None,
    cluster: str | None = None,
    cache: arrow_cache.ArrowCache = arrow_cache.NO_CACHE,
) -> TableLook:
    """Looks at the branch's head. `where` marks, in `selected`, the files that may hold matching rows. `cluster` names
    the column whose bounds the view has; by default the table's own says. `cache` keeps parsed manifests."""
    clustering = cluster_column.column(table) if cluster is None else table.schema().find_field(cluster)
    condition = None if where is None else _parsed(where, table)
    metrics = () if condition is None else condition.field_ids
    snapshot = head_of(table, name, branch)
    manifests, files = None, live_files.no_files(metrics=metrics)
    if snapshot is not None:
        try:
            manifests = snapshot_manifests.read(table.io, snapshot)
            files = live_files.live_files(
                table, manifests, metrics=metrics, cluster=clustering, cache=cache, branch=branch
            )
        except errors.MetadataError as error:
            if support.ENCRYPTION_KEY not in table.properties:
                raise errors.MetadataError(f"Table {name}: {error}") from error
            manifests = None  # manifests are encrypted as well; `unsupported` says so in better words
    selected = None if condition is None else condition.select(files, table.specs())
    files = files.select(table_view.FILES.names)
    manifest_files = () if manifests is None else manifests.manifest_files
    with_files = tuple(filter(snapshot_manifests.has_live_files, manifest_files))
    view = table_view.TableView(
        table=name,
        pin=None if snapshot is None else pin_of(table, branch, snapshot),
        files=files,
        properties=dict(table.properties),
        selected=selected,
        manifests=len(with_files),
        manifest_sizes=tuple(manifest.manifest_length for manifest in with_files),
        manifest_files=_live_counts(manifest_files, files.num_rows),
        clustering_column=None if clustering is None else table.schema().find_column_name(clustering.field_id),
        sorts_rows=sort_order.followed(table, table.schema()) is not None,
        unwritable_specs=support.unwritable_specs(table),
        **_delete_columns(table, files),
        columns=_leaf_count(table.schema()),
        commits=read_shape.commits(table.metadata),
        snapshots=len(table.metadata.snapshots),
        refs=len(table.metadata.refs),
        unsupported=support.unsupported(table, files),
    )
    _log.info(
        "%s: %s, snapshot %s of %s, %s, %s",
        name,
        table.metadata_location,
        snapshot.snapshot_id if snapshot is not None else "none",
        branch,
        plurals.count(view.manifests, "manifest"),
        plurals.count(files.num_rows, "live file"),
    )
    return TableLook(view=view, manifests=manifests)


def _leaf_count(schema: Schema) -> int:
    """The columns of a data file of this schema."""
    return sum(field.field_type.is_primitive for field in index_by_id(schema).values())


def _live_counts(manifest_files: Sequence[ManifestFile], total: int) -> tuple[int, ...]:
    """The number of live files in each manifest; empty if the manifest list lacks counts, or they do not add up."""
    pairs = [(manifest.added_files_count, manifest.existing_files_count) for manifest in manifest_files]
    counts = tuple(added + existing for added, existing in pairs if added is not None and existing is not None)
    return counts if len(counts) == len(pairs) and sum(counts) == total else ()


def _delete_columns(table: Table, files: pa.Table) -> dict[str, Any]:
    """The fields of a view that tell what deletes mean for each file; none if the table has no deletes."""
    if (pc.max(files["content"]).as_py() or table_view.DATA) == table_view.DATA:
        return {}
    global_specs = delete_scopes.unpartitioned(table.specs())
    index = delete_index.build(files, unpartitioned_specs=global_specs)
    figures = index.figures_per_data_file()
    dangling = np.zeros(files.num_rows, np.bool_)
    dangling[index.dangling().to_numpy()] = True
    columns: dict[str, Any] = {
        "dangling": pa.array(dangling),
        "useless_deletes": useless_deletes.of_snapshot(files, index, global_specs),
    }
    for name in ("delete_files", "deleted_rows"):
        columns[name] = _spread(figures, name, files.num_rows)
    if pc.max(files["content"]).as_py() == table_view.EQUALITY_DELETES:
        columns["equality_keys"] = _spread(index.deleted_rows_per_data_file(), "equality_keys", files.num_rows)
    return columns


def _spread(figures: pa.Table, name: str, rows: int) -> pa.Int64Array:
    """Figures of data files as a column over all files."""
    column = np.zeros(rows, np.int64)
    column[figures["row"].to_numpy()] = figures[name].to_numpy()
    return pa.array(column)


def head_of(table: Table, name: str, branch: str) -> Snapshot | None:
    """The snapshot that a branch points to; None: the table has none yet. `name` is for errors."""
    all_refs = table.metadata.refs
    if branch not in all_refs:
        if branch == refs.MAIN_BRANCH and not table.metadata.snapshots:
            return None
        branches = sorted(key for key, ref in all_refs.items() if ref.snapshot_ref_type == refs.SnapshotRefType.BRANCH)
        near = difflib.get_close_matches(branch, branches, n=3) or branches
        be = plurals.form(len(near), "is", "are")
        raise errors.ConfigError(f"Table {name} has no branch {branch!r}; there {be} {', '.join(near) or 'none'}.")
    if all_refs[branch].snapshot_ref_type != refs.SnapshotRefType.BRANCH:
        raise errors.ConfigError(f"{branch!r} is a tag of table {name}, and a tag does not move; name a branch.")
    snapshot = table.metadata.snapshot_by_id(all_refs[branch].snapshot_id)
    if snapshot is None:
        raise errors.MetadataError(
            f"Branch {branch!r} of table {name} points to snapshot {all_refs[branch].snapshot_id}, which does not "
            "exist."
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
