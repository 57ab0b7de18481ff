"""Commits after a run that is to be undone: whether the branch still has the run's snapshots and those before them, and
whether the run's files are still what others left them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.commit import snapshot_summary
from iceberg_compaction.model import plurals
from iceberg_compaction.operations.past_runs import run_commits
from iceberg_compaction.operations.undo.later_deletes import UndoRefusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.metadata.manifest.changed_files import ChangedFiles
    from iceberg_compaction.model.partition_key import PartitionKey
    from iceberg_compaction.operations.past_runs.run_commits import RunCommits


def check_present(commits: RunCommits) -> None:
    """Raises UndoRefusal unless the table has all commits of the run."""
    if commits.expired:
        gone = plurals.listed([str(snapshot_id) for snapshot_id in commits.expired[:3]])
        raise UndoRefusal(f"{plurals.form(len(commits.expired), 'Its snapshot', 'Its snapshots')} {gone} expired since")
    if not commits.snapshots:
        raise UndoRefusal("The table has no snapshot of it: the run committed none, or they expired since")


def check_line(commits: RunCommits, line: Mapping[int, Snapshot], branch: str, undone_by: str | None) -> None:
    """Raises UndoRefusal unless the branch, whose history is `line`, descends from all commits of the run, and has the
    snapshots before them. `undone_by`: a run that undid it before."""
    for snapshot in line.values():
        summary = run_commits.properties(snapshot)
        if summary.get(run_commits.UNDOES) == commits.run_id:
            by = summary.get(snapshot_summary.RUN_ID, "another run")
            raise UndoRefusal(f"It was undone already, by run {by} in snapshot {snapshot.snapshot_id}")
    for commit in commits.snapshots:
        if commit.snapshot_id not in line:
            if undone_by is not None:
                raise UndoRefusal(f"It was undone already, by run {undone_by}")
            raise UndoRefusal(
                f"The branch {branch} does not have its snapshot {commit.snapshot_id} any more: it was rolled back, or "
                "the table was replaced"
            )
    for commit in commits.snapshots:
        if commit.parent_snapshot_id not in line:
            raise UndoRefusal(
                f"The snapshot before its snapshot {commit.snapshot_id} has expired, and with it the files that it "
                "replaced"
            )


def snapshots_since(commits: RunCommits, line: Mapping[int, Snapshot]) -> list[int]:
    """The snapshots of others after the first commit of the run."""
    first, ids = commits.snapshots[0].snapshot_id, list(line)
    return [snapshot_id for snapshot_id in ids[: ids.index(first)] if snapshot_id not in commits.ids]


def check_version(changes: Sequence[ChangedFiles], version: int) -> None:
    """Raises UndoRefusal unless the entries of replaced files have the table's format version."""
    if versions := {number for change in changes for number in change.removed_versions} - {version}:
        raise UndoRefusal(
            f"The table had format version {min(versions)} then, and has {version} now; entries of the files that it "
            "replaced cannot come back"
        )


def check_files(table: Table, leaving: pa.Table, returning: pa.Table, live: pa.Table) -> None:
    """Raises UndoRefusal unless the files that leave are all live, and those that come back are not."""
    if not leaving.num_rows and not returning.num_rows:
        raise UndoRefusal(
            "It changed metadata only, and others have committed since; there is no file that could come back"
        )
    both = _among(leaving, returning)
    if both:
        raise UndoRefusal(f"It rewrote {_named(both)} that it had written itself, and others have committed in between")
    present = set(zip(live["file_path"].to_pylist(), live["sequence_number"].to_pylist(), strict=True))
    wanted = zip(leaving["file_path"].to_pylist(), leaving["sequence_number"].to_pylist(), strict=True)
    if gone := [path for path, number in wanted if (path, number) not in present]:
        raise UndoRefusal(
            f"{_named(gone)} that it wrote {plurals.form(len(gone), 'was', 'were')} deleted or rewritten since"
        )
    if again := _among(returning, live):
        raise UndoRefusal(f"{_named(again)} that it replaced came back to the table since")
    specs = table.specs()
    if missing := {spec_id for spec_id, _ in keys(returning)} - specs.keys():
        raise UndoRefusal(f"Partition spec {min(missing)} of the files that it replaced was removed from the table")


def keys(files: pa.Table) -> set[PartitionKey]:
    """The partitions of files."""
    return set(zip(files["spec_id"].to_pylist(), files["partition"].cast(pa.string()).to_pylist(), strict=True))


def _among(files: pa.Table, others: pa.Table) -> list[str]:
    """The paths of files that are among others."""
    shared = files.filter(pc.is_in(files["file_path"], value_set=others["file_path"].combine_chunks()))
    paths: list[str] = shared["file_path"].to_pylist()
    return paths


def _named(paths: list[str]) -> str:
    if len(paths) == 1:
        return f"The file {paths[0]}"
    return f"{len(paths):,} files (such as {min(paths)})"
