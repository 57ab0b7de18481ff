"""The rows of a commit's files, compared: the files that it wrote with those that it replaced, partition by partition,
and all that it wrote with the proof in its summary. Measurements come in, checks with a sentence each go out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import plurals
from iceberg_compaction.model.verification import CheckVerdict, CommitCheck, PartitionCheck, worst
from iceberg_compaction.operations.past_runs import measured_files
from iceberg_compaction.operations.verify import commit_files, recorded_proof

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.schema import Schema

    from iceberg_compaction.execute.task_failure import Failure
    from iceberg_compaction.model.partition_key import PartitionKey
    from iceberg_compaction.model.proof import Side
    from iceberg_compaction.operations.past_runs.measured_files import Measurement
    from iceberg_compaction.operations.verify.commit_files import CommitFiles
    from iceberg_compaction.operations.verify.recorded_proof import RecordedProof

_DAMAGE = (errors.DamagedFileError.__name__, errors.ProofError.__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FilesOfPartition:
    """The measured files of one partition on one side, or of all partitions."""

    measurements: Sequence[Measurement]

    @property
    def failures(self) -> list[Failure]:
        return [each.failure for each in self.measurements if each.failure is not None]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(failure.file_path for failure in self.failures if failure.file_path)

    @property
    def side(self) -> Side:
        return measured_files.total(self.measurements)

    @property
    def files(self) -> int:
        return sum(each.files for each in self.measurements)


def check_commit(
    files: CommitFiles, written: Sequence[Measurement], replaced: Sequence[Measurement] | None, schema: Schema
) -> CommitCheck:
    """The check of one commit. `replaced`: None if the parent snapshot has expired."""
    recorded = recorded_proof.of_snapshot(files.snapshot)
    partitions = [
        _check_partition(key, _FilesOfPartition(measurements=after), _before(before, replaced), schema, files)
        for key, after, before in _by_partition(files, written, replaced or ())
    ]
    stored = measured_files.total(written)
    whole = all(each.failure is None for each in written)
    difference = recorded.difference(stored) if whole else ""
    verdicts = [partition.verdict for partition in partitions]
    if difference:
        verdict, sentence = CheckVerdict.DIFFERS, f"Snapshot {files.snapshot.snapshot_id} differs: {difference}."
    elif replaced is None and whole:
        verdict, sentence = _by_record_alone(files, recorded, stored)
        partitions = [partition.model_copy(update={"verdict": verdict}) for partition in partitions]
    else:
        verdict = worst(verdicts)
        sentence = _sentence(files, partitions, verdict, stored)
    return CommitCheck(
        snapshot_id=files.snapshot.snapshot_id,
        verdict=verdict,
        sentence=sentence,
        rows_recorded=recorded.rows,
        rows_written=stored.rows if whole else None,
        checksum_recorded=recorded.checksum,
        checksum=recorded_proof.checksum_text(stored) if whole else "",
        with_inputs=replaced is not None and all(each.failure is None for each in replaced),
        partitions=tuple(partitions),
    )


def _before(measurements: Sequence[Measurement], replaced: Sequence[Measurement] | None) -> _FilesOfPartition | None:
    return None if replaced is None else _FilesOfPartition(measurements=measurements)


def _by_partition(
    files: CommitFiles, written: Sequence[Measurement], replaced: Sequence[Measurement]
) -> list[tuple[PartitionKey | None, list[Measurement], list[Measurement]]]:
    """The measurements of both sides by partition; of all partitions together if rows moved."""
    if files.moves:
        return [(None, list(written), list(replaced))]
    after: dict[PartitionKey, list[Measurement]] = defaultdict(list)
    before: dict[PartitionKey, list[Measurement]] = defaultdict(list)
    for sides, measurements in ((after, written), (before, replaced)):
        for each in measurements:
            sides[each.partition_key].append(each)
    every = sorted(commit_files.keys(files.replaced) | after.keys())
    return [(key, after.get(key, []), before.get(key, [])) for key in every]


def _check_partition(
    key: PartitionKey | None,
    after: _FilesOfPartition,
    before: _FilesOfPartition | None,
    schema: Schema,
    files: CommitFiles,
) -> PartitionCheck:
    verdict, sentence, paths = _compare(after, before, schema, files)
    return PartitionCheck(
        partition=None if key is None else key[1],
        verdict=verdict,
        sentence=sentence,
        files_read=0 if before is None else before.files,
        files_written=after.files,
        rows_read=None if before is None or before.failures else before.side.rows,
        rows_written=None if after.failures else after.side.rows,
        file_paths=paths,
    )


def _compare(
    after: _FilesOfPartition, before: _FilesOfPartition | None, schema: Schema, files: CommitFiles
) -> tuple[CheckVerdict, str, tuple[str, ...]]:
    if after.failures:
        damaged = any(failure.error in _DAMAGE for failure in after.failures)
        return CheckVerdict.DIFFERS if damaged else CheckVerdict.UNCHECKED, after.failures[0].sentence, after.paths
    if before is None:
        return CheckVerdict.UNCHECKED, f"The replaced files were not read: {files.parent_gone}.", ()
    if before.failures:
        return CheckVerdict.UNCHECKED, f"A replaced file cannot be read: {before.failures[0].sentence}", before.paths
    if difference := difference_of(before.side, after.side, schema):
        return CheckVerdict.DIFFERS, f"{difference}.", ()
    rows = plurals.count(after.side.rows, "row")
    return CheckVerdict.PROVED, f"{rows} in the written files are those of the replaced ones.", ()


def difference_of(before: Side, after: Side, schema: Schema) -> str:
    """The first difference between the rows of two sets of files, in words; empty: they hold the same rows."""
    if before.rows != after.rows:
        held = plurals.count(before.rows, "row")
        return f"The replaced files hold {held}, and the written ones {after.rows:,}"
    differing = [
        schema.find_column_name(number) or str(number)
        for number in sorted(before.checksums.keys() | after.checksums.keys())
        if before.checksums.get(number, 0) != after.checksums.get(number, 0)
    ]
    if differing:
        return f"Values of {plurals.listed(differing)} differ between the replaced files and the written ones"
    if before.row_checksum != after.row_checksum and before.rows:
        return "Values have changed rows between the replaced files and the written ones"
    return ""


def _by_record_alone(files: CommitFiles, recorded: RecordedProof, stored: Side) -> tuple[CheckVerdict, str]:
    snapshot = files.snapshot.snapshot_id
    rows = plurals.count(stored.rows, "row")
    if recorded.checksum:
        return (
            CheckVerdict.PROVED,
            f"Snapshot {snapshot} is proved: its files hold {rows} with the checksum that the run recorded. The "
            f"replaced files were not read again, because {files.parent_gone}.",
        )
    reason = "row groups were copied as bytes" if recorded.copied else "the proof of the run had counts only"
    return (
        CheckVerdict.UNCHECKED,
        f"Snapshot {snapshot} cannot be checked in full: its files hold the {rows} that were recorded, but {reason}, "
        f"so there is no checksum of rows, and the replaced files were not read again, because {files.parent_gone}.",
    )


def _sentence(files: CommitFiles, partitions: Sequence[PartitionCheck], verdict: CheckVerdict, stored: Side) -> str:
    snapshot = files.snapshot.snapshot_id
    if verdict is CheckVerdict.PROVED:
        replaced = plurals.count(files.replaced.num_rows, "file")
        written = plurals.count(files.written.num_rows, "file")
        rows = plurals.count(stored.rows, "row")
        return f"Snapshot {snapshot} is proved: {rows} in {written} are those of the {replaced} that it replaced."
    first = next(partition for partition in partitions if partition.verdict is verdict)
    count = sum(partition.verdict is verdict for partition in partitions)
    which = f"{count} of {plurals.count(len(partitions), 'partition')}"
    does = plurals.form(count, "differs", "differ") if verdict is CheckVerdict.DIFFERS else "cannot be checked"
    return f"Snapshot {snapshot}: {which} {does}. {first.sentence}"
