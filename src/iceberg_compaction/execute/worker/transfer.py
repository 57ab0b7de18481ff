"""All rows of a task on their way from the inputs into the outputs, step by step: decoded, stripped of deleted rows and
encoded, or row group by row group as bytes. What a proof needs is measured where rows and bytes leave the inputs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.schema import Schema

from iceberg_compaction.execute.worker import copying, measure, project, read, schemas, write
from iceberg_compaction.execute.worker.parquet import fields
from iceberg_compaction.model import policy, proof
from iceberg_compaction.model import task as task_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iceberg_compaction.execute.worker import output_file, sink
    from iceberg_compaction.execute.worker.parquet import footer
    from iceberg_compaction.execute.worker.setting import Setting

_MASK = 2**64 - 1


class Transfer:
    """One task's rows. `effort` tells afterwards how they went, the sides what was seen of them."""

    def __init__(self, setting: Setting, level: policy.ProofLevel | None) -> None:
        self._setting = setting
        self._level = level
        self._source = measure.Meter(setting.schema, level, setting.constants)
        self._decoded = measure.Meter(setting.schema, level, setting.constants)
        self._patches = (proof.Side(), proof.Side())
        self._alive = 0
        self.effort = task_model.Effort()

    def run(self, writer: sink.Sink) -> None:
        """Every step in order."""
        for step in self._setting.steps.order:
            started = time.monotonic()
            if isinstance(step, copying.Encode):
                self._encode(step, writer)
                self._add_effort(step.groups, step.bytes, started)
            else:
                self._copy(step, writer, started)
        if self._setting.deletes:
            self._setting.deletes.check()
        reasons = task_model.Effort(kept_from_copying=self._setting.steps.kept)
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
        return _less(self._decoded.side, self._patches[0]) if self._level is policy.ProofLevel.DEEP else None

    # Rows

    def _encode(self, step: copying.Encode, writer: sink.Sink) -> None:
        if self._setting.steps.copies:
            _rolling(writer).begin_run(step.rows)
        deletes = self._setting.deletes
        for batch in carry(self._measured(step.parts), self._setting):
            self._alive += batch.num_rows
            if deletes and deletes.found:
                left = self._setting.stored_rows - deletes.marked
                writer.expect(left * self._alive // (self._alive + deletes.found))
            writer.write(batch)

    def _measured(self, parts: tuple[read.Part, ...]) -> Iterator[tuple[read.Footer, pa.RecordBatch]]:
        """The rows that live, with every one of them measured."""
        setting = self._setting
        deletes = setting.deletes
        wanted = {field.field_id for field in setting.schema.fields} | (deletes.fields if deletes else set())
        only = read.columns_with(setting.footers, wanted)  # what the table has dropped need not be decoded
        for footer, first_row, batch in read.read_batches(setting.io, parts, setting.dictionaries, only):
            with read.translated(footer.path):
                alive = deletes.apply(footer, first_row, batch) if deletes else batch
            if alive.num_rows:
                self._source.add(alive)
                yield footer, alive

    # Bytes

    def _copy(self, step: copying.Copy, writer: sink.Sink, started: float) -> None:
        rolling = _rolling(writer)
        rows = step.footer.group_rows[step.group]
        if (kept := self._kept(step, rolling)) is not None:
            self._encode(copying.Encode(parts=(step.part,), rows=rows, bytes=step.bytes, groups=1), writer)
            self._add_effort(1, step.bytes, started)
            self.effort += task_model.Effort(kept_from_copying={kept.value: 1})
            return
        patch, meter = self._patch(step)
        with read.translated(step.footer.path):
            rolling.copy(step, patch, meter, digest=self._level in _DIGESTED)
        self._alive += rows
        if meter is not None:
            self._patches = (self._patches[0], self._patches[1] + _columns_only(meter.side))
        if self._level is policy.ProofLevel.DEEP:
            for _, _, batch in read.read_batches(self._setting.io, [step.part], frozenset()):
                self._decoded.add(batch)
        seconds = time.monotonic() - started
        self.effort += task_model.Effort(copied_groups=1, copied_bytes=step.bytes, copy_seconds=seconds)

    def _kept(self, step: copying.Copy, rolling: write.RollingWriter) -> copying.Kept | None:
        """Why a row group is not copied after all, by what was written so far."""
        if self._setting.steps.merges and rolling.leaves_crumb:
            return copying.Kept.NEIGHBOUR
        return None if rolling.takes(step.bytes) else copying.Kept.TOO_LARGE

    def _patch(self, step: copying.Copy) -> tuple[pa.Table | None, measure.Meter | None]:
        """The columns of a row group that must be encoded, in the schema of the output; and what measures them."""
        if not step.patched:
            return None, None
        setting = self._setting
        schema = Schema(*(field for field in setting.schema.fields if field.field_id in step.patched))
        columns = pa.schema([field for field in setting.columns if schemas.field_id(field) in step.patched])
        source = measure.Meter(schema, self._level, setting.constants)
        only = read.columns_with([step.footer], step.patched) or _smallest(step)
        batches = []
        for footer, _, batch in read.read_batches(setting.io, [step.part], setting.dictionaries, only):
            source.add(batch)
            with read.translated(footer.path):
                batches.append(project.Projection(batch.schema, schema, columns, setting.constants).apply(batch))
        self._patches = (self._patches[0] + _columns_only(source.side), self._patches[1])
        return pa.Table.from_batches(batches, schema=columns).unify_dictionaries(), measure.Meter(schema, self._level)

    def _add_effort(self, groups: int, size: int, started: float) -> None:
        seconds = time.monotonic() - started
        self.effort += task_model.Effort(encoded_groups=groups, encoded_bytes=size, encode_seconds=seconds)


def finish(writer: sink.Sink) -> tuple[list[output_file.WrittenFile], task_model.Effort]:
    """The finished files, and what the last of their rows took."""
    started = time.monotonic()
    files = writer.close()
    return files, task_model.Effort(encode_seconds=time.monotonic() - started)


_DIGESTED = (policy.ProofLevel.CHECKSUM, policy.ProofLevel.DEEP)


def carry(raw: Iterator[tuple[read.Footer, pa.RecordBatch]], setting: Setting) -> Iterator[pa.RecordBatch]:
    """The way from source to writer: every raw batch in the table's schema. The meters stand on either side of it."""
    known: project.Projection | None = None
    of_schema = None
    for footer, batch in raw:
        with read.translated(footer.path):
            if known is None or not batch.schema.equals(of_schema, check_metadata=True):
                known = project.Projection(batch.schema, setting.schema, setting.columns, setting.constants)
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
    raw: footer.RawFooter, group: int, places: Sequence[int | None], tops: tuple[int, ...]
) -> dict[int, int]:
    """Nulls of the top-level columns whose statistics tell them, given each column's place in the file, or None where
    it does not come from there."""
    found = {}
    for top, place in zip(tops, places, strict=True):
        if place is None or len(raw.leaves[place].path) > 1:
            continue  # the nulls of a nested leaf are not those of its column
        count = fields.optional(raw.groups[group].chunks[place].statistics, fields.Statistics.NULLS)
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


def _rolling(writer: sink.Sink) -> write.RollingWriter:
    """Only where rows keep their place and partition can some of them come as bytes."""
    assert isinstance(writer, write.RollingWriter)
    return writer


def _columns_only(side: proof.Side) -> proof.Side:
    """A side of which only columns count, because its rows are counted elsewhere."""
    return side.model_copy(update={"rows": 0, "row_checksum": None})


def _less(side: proof.Side, columns: proof.Side) -> proof.Side:
    nulls = {number: count - columns.nulls.get(number, 0) for number, count in side.nulls.items()}
    sums = {number: (total - columns.checksums.get(number, 0)) & _MASK for number, total in side.checksums.items()}
    return side.model_copy(update={"nulls": nulls, "checksums": sums})


def _smallest(step: copying.Copy) -> frozenset[int]:
    """A column that costs little to read, where only the number of rows matters; none: there is nothing to choose."""
    chunks = step.raw.groups[step.group].chunks
    known = schemas.positions(step.footer.schema)
    places = [place for place, leaf in enumerate(step.raw.leaves) if leaf.ids[0] in known]
    cheapest = min(places, key=lambda place: chunks[place].length, default=None)
    return frozenset() if cheapest is None else frozenset({int(step.raw.leaves[cheapest].ids[0] or 0)})
