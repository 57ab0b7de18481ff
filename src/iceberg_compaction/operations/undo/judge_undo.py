"""Judges whether a run can be undone on the table as it is now, and how. Metadata comes in; a decision goes out that
names the files that leave and those that come back, or the reason for a refusal. It is judged again on each attempt to
commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.metadata.deletes import delete_paths, delete_scopes
from iceberg_compaction.metadata.manifest import changed_files, live_files, snapshot_manifests
from iceberg_compaction.model import plurals, table_view
from iceberg_compaction.model.undo_plan import UndoPlan, UndoWay
from iceberg_compaction.operations.past_runs import run_commits
from iceberg_compaction.operations.undo import later_commits, later_deletes
from iceberg_compaction.operations.undo.later_deletes import UndoRefusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.metadata.cache.arrow_cache import ArrowCache
    from iceberg_compaction.metadata.manifest.changed_files import ChangedFiles

_VERSIONS = (1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRequest:
    """The run to undo."""

    table: str
    undone_run_id: str
    branch: str | None = None  # None: the one that the run committed to
    remembered: tuple[int, ...] = ()  # its snapshots, as the run store has them
    undone_by: str | None = None  # the run that undid it, as the run store has it
    paths: delete_paths.NamedPaths = field(default_factory=delete_paths.NamedPaths)


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBack:
    """The files that leave and those that come back (model.table_view.FILES)."""

    way: UndoWay
    branch: str
    head: Snapshot
    commits: tuple[Snapshot, ...]  # of the run, in their order
    changes: tuple[ChangedFiles, ...]  # of each commit
    before: pa.Table  # live files of the head
    after: pa.Table  # live files once the run is undone
    leaving: pa.Table  # data files
    returning: pa.Table  # data files
    restored: pa.Table  # delete files that come back
    since: int  # snapshots of others after the first commit of the run

    @property
    def target(self) -> int:
        """The snapshot before the run."""
        parent = self.commits[0].parent_snapshot_id
        assert parent is not None  # a run replaces files, which some snapshot has added
        return parent

    @property
    def parents(self) -> tuple[int, ...]:
        """The snapshots that keep the files that come back."""
        return tuple({commit.parent_snapshot_id: None for commit in self.commits if commit.parent_snapshot_id})


def plan(request: UndoRequest, table: Table, cache: ArrowCache) -> UndoPlan:
    """The plan, for people and for the main line."""
    commits = run_commits.of_run(table.metadata, request.undone_run_id, request.remembered)
    branch = request.branch or run_commits.branch_of(table.metadata, commits) or "main"
    ids: dict[str, Any] = {
        "table": request.table,
        "branch": branch,
        "undone_run_id": request.undone_run_id,
        "snapshot_ids": tuple(commit.snapshot_id for commit in commits.snapshots),
    }
    try:
        back = judge(request, table, cache)
    except UndoRefusal as refusal:
        sentence = f"Run {request.undone_run_id} cannot be undone: {_lower(str(refusal)).rstrip('.')}."
        return UndoPlan(**ids, way=UndoWay.REFUSED, sentence=sentence)
    return UndoPlan(
        **ids,
        way=back.way,
        sentence=_sentence(back),
        target_snapshot_id=back.target if back.way is UndoWay.ROLLBACK else None,
        files_removed=back.leaving.num_rows,
        bytes_removed=pc.sum(back.leaving["file_size_in_bytes"]).as_py() or 0,
        files_added=back.returning.num_rows,
        bytes_added=pc.sum(back.returning["file_size_in_bytes"]).as_py() or 0,
        delete_files_added=back.restored.num_rows,
        partitions=tuple(sorted(later_commits.keys(back.leaving) | later_commits.keys(back.returning))),
    )


def judge(request: UndoRequest, table: Table, cache: ArrowCache) -> WayBack:
    """The way back. Raises UndoRefusal if there is none."""
    metadata = table.metadata
    if metadata.format_version not in _VERSIONS:
        raise UndoRefusal(f"Tables of format version {metadata.format_version} cannot be changed yet")
    commits = run_commits.of_run(metadata, request.undone_run_id, request.remembered)
    later_commits.check_present(commits)
    branch = request.branch or run_commits.branch_of(metadata, commits)
    if branch is None or branch not in metadata.refs:
        raise UndoRefusal(_no_branch(branch))
    head = metadata.snapshot_by_name(branch)
    assert head is not None
    line = run_commits.history(metadata, head.snapshot_id)
    later_commits.check_line(commits, line, branch, request.undone_by)
    changes = tuple(changed_files.read(table, commit) for commit in commits.snapshots)
    before = _live(table, head, cache, branch)
    since = later_commits.snapshots_since(commits, line)
    parts: dict[str, Any] = {"branch": branch, "head": head, "commits": commits.snapshots, "changes": changes}
    parts["since"] = len(since)
    if not since:
        return _rollback(table, before, **parts)
    return _replace(request, table, before, **parts)


def _rollback(table: Table, before: pa.Table, **parts: Any) -> WayBack:
    """The branch goes back to the snapshot before the run."""
    first = parts["commits"][0].parent_snapshot_id
    target = table.metadata.snapshot_by_id(first)
    assert target is not None  # `check_line` has seen it
    after = _live(table, target)
    leaving = _without(_data(before), after["file_path"])
    returning = _without(_data(after), before["file_path"])
    restored = _without(_deletes(after), before["file_path"])
    later_deletes.check_columns(restored.to_pylist(), table.schema())
    return WayBack(
        way=UndoWay.ROLLBACK,
        before=before,
        after=after,
        leaving=leaving,
        returning=returning,
        restored=restored,
        **parts,
    )


def _replace(request: UndoRequest, table: Table, before: pa.Table, **parts: Any) -> WayBack:
    """A new snapshot takes the place of the run's files."""
    changes: Sequence[ChangedFiles] = parts["changes"]
    leaving = _joined([_data(change.added) for change in changes])
    returning = _joined([_data(change.removed) for change in changes])
    later_commits.check_files(table, leaving, returning, before)
    later_commits.check_version(changes, table.metadata.format_version)
    rules = later_deletes.DeleteRules(
        io=table.io, global_specs=delete_scopes.unpartitioned(table.specs()), paths=request.paths
    )
    of_head = later_deletes.delete_files(before)
    needed: dict[str, dict[str, Any]] = {}
    for commit, change in zip(parts["commits"], changes, strict=True):
        around = later_deletes.CommitAndDeletes(
            written=_data(change.added).to_pylist(),
            replaced=_data(change.removed).to_pylist(),
            before=_deletes_before(table, commit),
            of_head=of_head,
        )
        around.check_newer(rules)
        needed |= {delete["file_path"]: delete for delete in around.missing(rules)}
    removed_deletes = _joined([_deletes(change.removed) for change in changes])
    others = _without(_data(before), leaving["file_path"]).to_pylist() if needed else []
    later_deletes.check_restored(needed.values(), removed_deletes["file_path"].to_pylist(), others, rules)
    later_deletes.check_columns(needed.values(), table.schema())
    restored = removed_deletes.filter(pc.is_in(removed_deletes["file_path"], pa.array(list(needed), pa.string())))
    kept = _without(before, leaving["file_path"])
    return WayBack(
        way=UndoWay.REPLACE,
        before=before,
        after=_joined([kept, returning, restored]),
        leaving=leaving,
        returning=returning,
        restored=restored,
        **parts,
    )


def _deletes_before(table: Table, commit: Snapshot) -> list[dict[str, Any]]:
    parent = table.metadata.snapshot_by_id(commit.parent_snapshot_id or -1)
    assert parent is not None  # `check_line` has seen it
    manifests = snapshot_manifests.read(table.io, parent)
    only = snapshot_manifests.SnapshotManifests(
        snapshot=parent, manifest_files=manifests.live(snapshot_manifests.DELETES)
    )
    return later_deletes.delete_files(live_files.live_files(table, only).select(table_view.FILES.names))


def _live(table: Table, snapshot: Snapshot, cache: ArrowCache | None = None, branch: str = "main") -> pa.Table:
    manifests = snapshot_manifests.read(table.io, snapshot)
    options: dict[str, Any] = {} if cache is None else {"cache": cache, "branch": branch}
    return live_files.live_files(table, manifests, **options).select(table_view.FILES.names)


def _data(files: pa.Table) -> pa.Table:
    return files.filter(pc.equal(files["content"], table_view.DATA))


def _deletes(files: pa.Table) -> pa.Table:
    return files.filter(pc.not_equal(files["content"], table_view.DATA))


def _without(files: pa.Table, paths: pa.ChunkedArray) -> pa.Table:
    return files.filter(pc.invert(pc.is_in(files["file_path"], value_set=paths.combine_chunks())))


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([table_view.FILES.empty_table(), *tables]).unify_dictionaries().combine_chunks()


def _no_branch(branch: str | None) -> str:
    if branch is None:
        return "It is not known which branch it was committed to; name it with --branch"
    return f"The table has no branch {branch}"


def _sentence(back: WayBack) -> str:
    leaving, returning = plurals.count(back.leaving.num_rows, "file"), plurals.count(back.returning.num_rows, "file")
    files = f"{returning} come back for {leaving}" if back.leaving.num_rows or back.returning.num_rows else ""
    deletes = f"with {plurals.count(back.restored.num_rows, 'delete file')}" if back.restored.num_rows else ""
    which = " ".join(filter(None, [files, deletes]))
    if back.way is UndoWay.ROLLBACK:
        target = f"snapshot {back.target}{': ' if which else ''}{which}"
        return f"Nothing was committed after the run, so the branch {back.branch} goes back to {target}."
    came = plurals.count(back.since, "other snapshot")
    return f"{came} came after the run and touched none of its files, so a new snapshot replaces them: {which}."


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
