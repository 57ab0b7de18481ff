"""Checks a past run: for each of its commits, the rows of the files that it wrote are read again and compared with the
proof in the snapshot's summary and, by time travel, with the rows of the files that it replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.model import plurals
from iceberg_compaction.model.verification import CheckVerdict, CommitCheck, Verification, worst
from iceberg_compaction.operations.past_runs import measured_files, run_commits
from iceberg_compaction.operations.verify import changed_deletes, commit_files, compare_partitions, recorded_proof

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.operations.verify.commit_files import CommitFiles
    from iceberg_compaction.record.runs import Run

_FILE_FACTS = ["file_path", "content", "sequence_number", "file_sequence_number", "record_count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRun:
    """The run to check."""

    table: str
    checked_run_id: str
    remembered: tuple[int, ...] = ()  # its snapshots, as the run store has them


def verify(request: VerifyRun, table: Table, run: Run, engines: EngineFactory) -> Verification:
    """Reads and compares. ConfigError: the table has no commit of the run, and the store knows of none."""
    commits = run_commits.of_run(table.metadata, request.checked_run_id, request.remembered)
    if not commits.snapshots and not commits.expired:
        raise errors.ConfigError(
            f"{request.table} has no snapshot of run {request.checked_run_id}: the run committed nothing, or its "
            "snapshots have expired."
        )
    checks = [_expired(snapshot_id) for snapshot_id in commits.expired]
    if commits.snapshots:
        with engines() as engine:
            checks += [_check(table, snapshot, engine, run) for snapshot in commits.snapshots]
    verdict = worst([check.verdict for check in checks])
    return Verification(
        run_id=request.checked_run_id,
        table=request.table,
        verdict=verdict,
        sentence=_sentence(checks, verdict),
        commits=tuple(checks),
        seconds=(run.clock() - run.started_ms) / 1000,
    )


def _check(table: Table, snapshot: Snapshot, engine: Engine, run: Run) -> CommitCheck:
    try:
        files = commit_files.read(table, snapshot)
        if not files.written.num_rows and not files.replaced.num_rows:
            return _check_list(table, files, engine, run)
    except errors.MetadataError as error:
        return CommitCheck(snapshot_id=snapshot.snapshot_id, verdict=CheckVerdict.DIFFERS, sentence=str(error))
    written, *replaced = measured_files.measure(table, files.requests(table), engine, run)
    schema = recorded_proof.schema_of(table, snapshot)
    return compare_partitions.check_commit(files, written, replaced[0] if replaced else None, schema)


def _expired(snapshot_id: int) -> CommitCheck:
    return CommitCheck(
        snapshot_id=snapshot_id,
        verdict=CheckVerdict.UNCHECKED,
        sentence=f"Snapshot {snapshot_id} cannot be checked: it has expired.",
    )


def _check_list(table: Table, files: CommitFiles, engine: Engine, run: Run) -> CommitCheck:
    """The check of a commit that only wrote manifests, or changed delete files: it lists the same data files, and those
    whose delete files are others have the same rows."""
    snapshot = files.snapshot
    if files.parent is None:
        verdict, sentence = CheckVerdict.UNCHECKED, files.parent_gone
    else:
        verdict, sentence = _compare_lists(table, (files.parent, commit_files.live(table, snapshot)), engine, run)
    words = {
        CheckVerdict.PROVED: "is proved",
        CheckVerdict.DIFFERS: "differs",
        CheckVerdict.UNCHECKED: "cannot be checked",
    }
    return CommitCheck(
        snapshot_id=snapshot.snapshot_id,
        verdict=verdict,
        sentence=f"Snapshot {snapshot.snapshot_id} {words[verdict]}: {sentence}.",
        with_inputs=files.parent is not None,
    )


def _compare_lists(
    table: Table, sides: tuple[pa.Table, pa.Table], engine: Engine, run: Run
) -> tuple[CheckVerdict, str]:
    """The verdict on a snapshot with the data files of its parent, and why; given the live files of both."""
    before, after = (_data_files(live) for live in sides)
    if not before.equals(after):
        return CheckVerdict.DIFFERS, "it lists other data files than its parent"
    same = f"it lists the same {plurals.count(after.num_rows, 'data file')} as its parent"
    paths = changed_deletes.reached(table, *sides)
    if not len(paths):
        return CheckVerdict.PROVED, same
    try:
        difference = changed_deletes.difference(table, sides, paths, table.schema(), engine, run)
    except errors.ExecuteError as error:
        return CheckVerdict.UNCHECKED, f"{same}, but rows could not be read: {str(error).rstrip('.')}"
    if difference:
        return CheckVerdict.DIFFERS, f"{same}, but with its delete files the rows are others. {difference}"
    files = plurals.count(len(paths), "file")
    return CheckVerdict.PROVED, f"{same}, and the rows of the {files} whose delete files are others are the same"


def _data_files(live: pa.Table) -> pa.Table:
    files = live.select(_FILE_FACTS)
    data = files.filter(pa.array(files["content"].to_numpy() == 0))
    return data.sort_by("file_path").combine_chunks()


def _sentence(checks: list[CommitCheck], verdict: CheckVerdict) -> str:
    if len(checks) == 1:
        return checks[0].sentence
    count = sum(check.verdict is verdict for check in checks)
    if verdict is CheckVerdict.PROVED:
        rows = sum(check.rows_written or 0 for check in checks)
        return f"All {len(checks)} commits of the run are proved, with {plurals.count(rows, 'row')} in their files."
    first = next(check for check in checks if check.verdict is verdict)
    does = plurals.form(count, "differs", "differ") if verdict is CheckVerdict.DIFFERS else "cannot be checked"
    return f"{count} of {len(checks)} commits of the run {does}. {first.sentence}"
