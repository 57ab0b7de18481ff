"""All rows of a task on their way from the inputs into the outputs, step by step: decoded, stripped of deleted rows and
encoded, or row group by row group as bytes. What a proof needs is measured where rows and bytes leave the inputs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.schema import Schema

from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.copy import copied_row_groups
from iceberg_compaction.execute.worker.input import project, read_files
from iceberg_compaction.execute.worker.output import rolling_writer
from iceberg_compaction.execute.worker.proof import measure
from iceberg_compaction.formats.parquet import format_fields
from iceberg_compaction.model import policies, proof, rewrite_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iceberg_compaction.execute.worker.output import output_file, sink
    from iceberg_compaction.execute.worker.prepared_task import PreparedTask
    from iceberg_compaction.formats.parquet import parquet_footer

_MASK = 2**64 - 1


class Transfer:
    """One task's rows. `effort` tells afterwards how they went, the sides what was seen of them."""

    def __init__(self, prepared: PreparedTask, level: policies.ProofLevel | None) -> None:
        self._prepared = prepared
        self._level = level
        self._source = measure.Meter(prepared.schema, level, prepared.constants)
        self._decoded = measure.Meter(prepared.schema, level, prepared.constants)
        self._patches = (proof.Side(), proof.Side())
        self._alive = 0
        self.effort = rewrite_task.Effort()

    def run(self, writer: sink.Sink) -> None:
        """Every step in order."""
        for step in self._prepared.steps.order:
            started = time.monotonic()
            if isinstance(step, copied_row_groups.Encode):
                self._encode(step, writer)
                self._add_effort(step.groups, step.bytes, started)
            else:
                self._copy(step, writer, started)
        if self._prepared.deletes:
            self._prepared.deletes.check()
        reasons = rewrite_task.Effort(kept_from_copying=self._prepared.steps.kept)
        self.effort = self.effort + reasons

    @property
    def source(self) -> proof.Side:
        """Rows that were decoded, and columns of row groups that were otherwise copied."""
        return self._source.side + self._patches[0]

    @property
    def patched(self) -> proof.Side:
        """The same columns on their way into the encoder."""
        return self._patches[1]

    @property
    def decoded(self) -> proof.Side | None:
        """What was copied, read in full; only for level `deep`. Columns that were encoded count as source already."""
        return _less(self._decoded.side, self._patches[0]) if self._level is policies.ProofLevel.DEEP else None

    # Rows

    def _encode(self, step: copied_row_groups.Encode, writer: sink.Sink) -> None:
        if self._prepared.steps.copies:
            _rolling(writer).begin_run(step.rows)
        deletes = self._prepared.deletes
        for batch in carry(self._measured(step.parts), self._prepared):
            self._alive += batch.num_rows
            if deletes and deletes.found:
                left = self._prepared.stored_rows - deletes.marked
                writer.expect(left * self._alive // (self._alive + deletes.found))
            writer.write(batch)

    def _measured(self, parts: tuple[read_files.Part, ...]) -> Iterator[tuple[read_files.Footer, pa.RecordBatch]]:
        """The rows that live, with every one of them measured."""
        prepared = self._prepared
        deletes = prepared.deletes
        wanted = {field.field_id for field in prepared.schema.fields} | (deletes.fields if deletes else set())
        only = read_files.columns_with(prepared.footers, wanted)  # what the table has dropped need not be decoded
        for footer, first_row, batch in read_files.read_batches(prepared.io, parts, prepared.dictionaries, only):
            with read_files.translated(footer.path):
                alive = deletes.apply(footer, first_row, batch) if deletes else batch
            if alive.num_rows:
                self._source.add(alive)
                yield footer, alive

    # Bytes

    def _copy(self, step: copied_row_groups.Copy, writer: sink.Sink, started: float) -> None:
        rolling = _rolling(writer)
        rows = step.footer.group_rows[step.group]
        if (kept := self._kept(step, rolling)) is not None:
            self._encode(copied_row_groups.Encode(parts=(step.part,), rows=rows, bytes=step.bytes, groups=1), writer)
            self._add_effort(1, step.bytes, started)
            self.effort += rewrite_task.Effort(kept_from_copying={kept.value: 1})
            return
        patch, meter = self._patch(step)
        with read_files.translated(step.footer.path):
            rolling.copy(step, patch, meter, digest=self._level in _DIGESTED)
        self._alive += rows
        if meter is not None:
            self._patches = (self._patches[0], self._patches[1] + _columns_only(meter.side))
        if self._level is policies.ProofLevel.DEEP:
            for _, _, batch in read_files.read_batches(self._prepared.io, [step.part], frozenset()):
                self._decoded.add(batch)
        seconds = time.monotonic() - started
        self.effort += rewrite_task.Effort(copied_groups=1, copied_bytes=step.bytes, copy_seconds=seconds)

    def _kept(
        self, step: copied_row_groups.Copy, rolling: rolling_writer.RollingWriter
    ) -> copied_row_groups.Kept | None:
        """Why a row group is not copied after all, by what was written so far."""
        if self._prepared.steps.merges and rolling.leaves_crumb:
            return copied_row_groups.Kept.NEIGHBOUR
        return None if rolling.takes(step.bytes) else copied_row_groups.Kept.TOO_LARGE

    def _patch(self, step: copied_row_groups.Copy) -> tuple[pa.Table | None, measure.Meter | None]:
        """The columns of a row group that must be encoded, in the schema of the output; and what measures them."""
        if not step.patched:
            return None, None
        prepared = self._prepared
        schema = Schema(*(field for field in prepared.schema.fields if field.field_id in step.patched))
        columns = pa.schema([field for field in prepared.columns if arrow_schemas.field_id(field) in step.patched])
        source = measure.Meter(schema, self._level, prepared.constants)
        only = read_files.columns_with([step.footer], step.patched) or _smallest(step)
        batches = []
        for footer, _, batch in read_files.read_batches(prepared.io, [step.part], prepared.dictionaries, only):
            source.add(batch)
            with read_files.translated(footer.path):
                batches.append(project.Projection(batch.schema, schema, columns, prepared.constants).apply(batch))
        self._patches = (self._patches[0] + _columns_only(source.side), self._patches[1])
        return pa.Table.from_batches(batches, schema=columns).unify_dictionaries(), measure.Meter(schema, self._level)

    def _add_effort(self, groups: int, size: int, started: float) -> None:
        seconds = time.monotonic() - started
        self.effort += rewrite_task.Effort(encoded_groups=groups, encoded_bytes=size, encode_seconds=seconds)


def finish(writer: sink.Sink) -> tuple[list[output_file.WrittenFile], rewrite_task.Effort]:
    """The finished files, and what the last of their rows took."""
    started = time.monotonic()
    files = writer.close()
    return files, rewrite_task.Effort(encode_seconds=time.monotonic() - started)


_DIGESTED = (policies.ProofLevel.CHECKSUM, policies.ProofLevel.DEEP)


def carry(raw: Iterator[tuple[read_files.Footer, pa.RecordBatch]], prepared: PreparedTask) -> Iterator[pa.RecordBatch]:
    """The way from source to writer: every raw batch in the table's schema. The meters stand on either side of it."""
    known: project.Projection | None = None
    of_schema = None
    for footer, batch in raw:
        with read_files.translated(footer.path):
            if known is None or not batch.schema.equals(of_schema, check_metadata=True):
                known = project.Projection(batch.schema, prepared.schema, prepared.columns, prepared.constants)
                of_schema = batch.schema
            projected = known.apply(batch)
        yield projected


def copied(files: list[output_file.WrittenFile], tops: tuple[int, ...]) -> proof.Side:
    """What was copied into these files, as the inputs had it; `tops` are the top-level field ids of the outputs'
    columns."""
    total = proof.Side()
    for group in (group for file in files for group in file.copied):
        step = group.step
        total += proof.Side(
            rows=step.raw.groups[step.group].rows,
            nulls=null_counts(step.raw, step.group, step.places, tops),
            checksums=by_column(group.digests, tops),
        )
    return total


def null_counts(
    raw: parquet_footer.RawFooter, group: int, places: Sequence[int | None], tops: tuple[int, ...]
) -> dict[int, int]:
    """Nulls of the top-level columns whose statistics tell them, given each column's place in the file, or None where
    it does not come from there."""
    found = {}
    for top, place in zip(tops, places, strict=True):
        if place is None or len(raw.leaves[place].path) > 1:
            continue  # the nulls of a nested leaf are not those of its column
        count = format_fields.optional(raw.groups[group].chunks[place].statistics, format_fields.Statistics.NULLS)
        if count is not None:
            found[top] = count
    return found


def by_column(digests: tuple[int | None, ...], tops: tuple[int, ...]) -> dict[int, int]:
    """Digests of leaves as one number per top-level column."""
    found: dict[int, int] = {}
    for top, digest in zip(tops, digests, strict=True):
        if digest is not None:
            found[top] = (found.get(top, 0) + digest) & _MASK
    return found


def _rolling(writer: sink.Sink) -> rolling_writer.RollingWriter:
    """Only where rows keep their place and partition can some of them come as bytes."""
    assert isinstance(writer, rolling_writer.RollingWriter)
    return writer


def _columns_only(side: proof.Side) -> proof.Side:
    """A side of which only columns count, because its rows are counted elsewhere."""
    return side.model_copy(update={"rows": 0, "row_checksum": None})


def _less(side: proof.Side, columns: proof.Side) -> proof.Side:
    nulls = {number: count - columns.nulls.get(number, 0) for number, count in side.nulls.items()}
    sums = {number: (total - columns.checksums.get(number, 0)) & _MASK for number, total in side.checksums.items()}
    return side.model_copy(update={"nulls": nulls, "checksums": sums})


def _smallest(step: copied_row_groups.Copy) -> frozenset[int]:
    """A column that costs little to read, where only the number of rows matters; none: there is nothing to choose."""
    chunks = step.raw.groups[step.group].chunks
    known = arrow_schemas.positions(step.footer.schema)
    places = [place for place, leaf in enumerate(step.raw.leaves) if leaf.ids[0] in known]
    cheapest = min(places, key=lambda place: chunks[place].length, default=None)
    return frozenset() if cheapest is None else frozenset({int(step.raw.leaves[cheapest].ids[0] or 0)})
