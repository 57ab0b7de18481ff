"""The commits of a run, from the table's own metadata: every snapshot that a run commits has its id in the summary. So
they are known without a run store, as long as they have not expired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from iceberg_compaction.commit import snapshot_summary
from iceberg_compaction.model.past_rows import PastRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

BRANCH = "compaction.branch"  # a property of every snapshot that a run commits: the branch that it was committed to
UNDOES = "compaction.undoes-run-id"  # of a snapshot that undoes a run
_PAST_FIELD, _PAST_LEAST = "compaction.ttl.field-id", "compaction.ttl.least"  # of a snapshot that `ttl` made


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommits:
    """The commits of one run."""

    run_id: str
    snapshots: tuple[Snapshot, ...]  # that the table has, in their order
    expired: tuple[int, ...] = ()  # ids of those that the store names and the table has not any more

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(snapshot.snapshot_id for snapshot in self.snapshots)


def of_run(metadata: TableMetadata, run_id: str, remembered: Sequence[int] = ()) -> RunCommits:
    """The commits of a run. `remembered`: the ids that the run store has of it."""
    mine = [snapshot for snapshot in metadata.snapshots if properties(snapshot).get(snapshot_summary.RUN_ID) == run_id]
    mine.sort(key=lambda snapshot: (snapshot.sequence_number or 0, snapshot.timestamp_ms))
    present = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    return RunCommits(
        run_id=run_id,
        snapshots=tuple(mine),
        expired=tuple(snapshot_id for snapshot_id in remembered if snapshot_id not in present),
    )


def past_properties(past: PastRows | None) -> dict[str, str]:
    """The properties of a snapshot which say that these rows are not in it; none: it has all rows."""
    return {} if past is None else {_PAST_FIELD: str(past.field_id), _PAST_LEAST: str(past.least)}


def past_rows(snapshot: Snapshot) -> PastRows | None:
    """The rows that a commit took out of the table because of their time; None: it kept all."""
    stated = properties(snapshot)
    try:
        return PastRows(field_id=int(stated[_PAST_FIELD]), least=int(stated[_PAST_LEAST]))
    except (KeyError, ValueError):
        return None


def branch_of(metadata: TableMetadata, commits: RunCommits) -> str | None:
    """The branch that the run committed to. Older versions did not write it down: then it is the branch that has the
    commits, `main` before others. None: there is none, or there are several."""
    stated = {properties(snapshot).get(BRANCH) for snapshot in commits.snapshots} - {None}
    if len(stated) == 1:
        return stated.pop()
    with_all = [
        name
        for name, ref in metadata.refs.items()
        if ref.snapshot_ref_type is SnapshotRefType.BRANCH and commits.ids <= set(history(metadata, ref.snapshot_id))
    ]
    if MAIN_BRANCH in with_all:
        return MAIN_BRANCH
    return with_all[0] if len(with_all) == 1 else None


def history(metadata: TableMetadata, head_id: int | None) -> dict[int, Snapshot]:
    """A snapshot and its parents by id, the newest first, as far as they have not expired."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    line: dict[int, Snapshot] = {}
    while head_id is not None and head_id in by_id and head_id not in line:
        line[head_id] = by_id[head_id]
        head_id = by_id[head_id].parent_snapshot_id
    return line


def full_id(metadata: TableMetadata, beginning: str) -> list[str]:
    """The ids of the runs in the table's history that begin so, the newest first; `latest` and nothing else means all
    of them."""
    newest_first = sorted(metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms, reverse=True)
    run_ids = (properties(snapshot).get(snapshot_summary.RUN_ID) for snapshot in newest_first)
    return [run_id for run_id in dict.fromkeys(run_ids) if run_id is not None and run_id.startswith(beginning)]


def properties(snapshot: Snapshot) -> Mapping[str, str]:
    """The properties in the summary of a snapshot."""
    return {} if snapshot.summary is None else snapshot.summary.additional_properties
