"""Distinct values of columns: an engine reads them in all files of a snapshot, deletes applied, and the sketches of its
tasks are joined. A table, a snapshot and columns come in; a Puffin file goes out."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema
from pyiceberg.table import statistics

from iceberg_compaction import errors, version
from iceberg_compaction.execute import task_failure
from iceberg_compaction.execute.prepare import sketch_job
from iceberg_compaction.formats import puffin, theta_hashes
from iceberg_compaction.metadata import fetch
from iceberg_compaction.operations.past_runs import measured_files
from iceberg_compaction.operations.rewrite_files import task_rounds
from iceberg_compaction.operations.statistics import choose_statistics, statistics_change

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.execute.engine_door import Engine, Job
    from iceberg_compaction.record.runs import Run

NDV = "ndv"  # a property of a blob: the estimate
_WAVE_BYTES = 64 << 20  # of sketches that an engine may hold before they are joined
_CREATED_BY = f"iceberg-compaction {version.__version__}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedColumns:
    """The columns of one snapshot whose distinct values are counted."""

    snapshot: Snapshot
    live: pa.Table  # model.table_view.FILES
    columns: tuple[str, ...]


def require_library() -> None:
    """SetupError: the library that joins sketches is not installed."""
    try:
        import datasketches  # noqa: F401
    except ImportError as error:
        raise errors.SetupError(
            "Counting distinct values needs the package datasketches; install iceberg-compaction[statistics]."
        ) from error


def count(table: Table, wanted: CountedColumns, engine: Engine, run: Run) -> statistics_change.SketchFile:
    """The statistics file with sketches of these columns, and with the blobs that the snapshot's file has of others.
    Raises the error of a file that cannot be read."""
    whole = choose_statistics.schema_of(table, wanted.snapshot)
    schema = Schema(*(whole.find_field(name) for name in wanted.columns), schema_id=whole.schema_id)
    job = sketch_job.prepare(table, wanted.live, schema, run.run_id)
    engine.cores()
    progress = measured_files.ReadingProgress(run=run, table=".".join(table.name()), jobs=[job])
    joined = _Unions([field.field_id for field in schema.fields])
    for wave in _waves(job, len(wanted.columns)):
        progress.begin(wave)
        _perform(table, wave, engine, run, progress, joined)
    return _file(table, wanted.snapshot, joined.blobs(wanted.snapshot))


def _waves(job: Job, columns: int) -> Iterator[Job]:
    """The job in parts: an engine keeps the results of a job until it ends."""
    most = max(64, _WAVE_BYTES // (8 * theta_hashes.NOMINAL * max(1, columns)))
    tasks = iter(job.tasks)
    while wave := tuple(itertools.islice(tasks, most)):
        yield dataclasses.replace(job, tasks=wave)


def _perform(
    table: Table, job: Job, engine: Engine, run: Run, progress: measured_files.ReadingProgress, joined: _Unions
) -> None:
    by_id = {task.id: task for task in job.tasks}
    job = dataclasses.replace(job, on_progress=progress.moved if run.has_listener else None)
    work = task_rounds.Rounds(engine, job, cancel=run.cancel, renew=task_rounds.renewing(table))
    with run.cancel.looking(), work:
        for end in work.results():
            if isinstance(end, task_failure.Failure):
                raise end.rebuild()
            progress.done(by_id[end.task_id])
            joined.add(end.sketches)


class _Unions:
    """The sketches of all tasks, joined by column."""

    def __init__(self, field_ids: Sequence[int]) -> None:
        import datasketches

        self._parse = datasketches.compact_theta_sketch.deserialize
        self._unions: dict[int, Any] = {field_id: datasketches.theta_union() for field_id in field_ids}

    def add(self, sketches: Mapping[int, bytes]) -> None:
        for field_id, union in self._unions.items():
            union.update(self._parse(sketches[field_id]))

    def blobs(self, snapshot: Snapshot) -> list[puffin.Blob]:
        return [self._blob(field_id, union.get_result(), snapshot) for field_id, union in self._unions.items()]

    def _blob(self, field_id: int, sketch: Any, snapshot: Snapshot) -> puffin.Blob:
        return puffin.Blob(
            kind=choose_statistics.THETA,
            fields=(field_id,),
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number or 0,
            data=sketch.serialize(),
            properties={NDV: str(int(sketch.get_estimate()))},
        )


def _file(table: Table, snapshot: Snapshot, made: list[puffin.Blob]) -> statistics_change.SketchFile:
    replaced = statistics_change.path_of(table.metadata, snapshot.snapshot_id)
    counted = {blob.fields for blob in made}
    others = [
        blob
        for blob in ([] if replaced is None else _blobs_of(table, replaced))
        if blob.kind != choose_statistics.THETA or blob.fields not in counted
    ]
    blobs = [*others, *made]
    content, footer_bytes = puffin.write(blobs, _CREATED_BY)
    return statistics_change.SketchFile(
        content=content,
        footer_bytes=footer_bytes,
        blobs=tuple(_metadata(blob) for blob in blobs),
        replaced=replaced,
    )


def _blobs_of(table: Table, path: str) -> list[puffin.Blob]:
    where = f"Statistics file {path}"
    return puffin.read(fetch.read_bytes(table.io, path, where=where), where=where)


def _metadata(blob: puffin.Blob) -> statistics.BlobMetadata:
    return statistics.BlobMetadata.model_validate(
        {
            "type": blob.kind,
            "snapshot-id": blob.snapshot_id,
            "sequence-number": blob.sequence_number,
            "fields": list(blob.fields),
            "properties": dict(blob.properties),
        }
    )
