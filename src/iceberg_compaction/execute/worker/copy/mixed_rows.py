"""Rows and row groups in the order of the inputs, where a task copies some of them as bytes: these bypass `arrange`. A
source and a writer come in; the measurements of the copies and the effort go out."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.schema import Schema

from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.copy import copied_row_groups, join_choice, join_rows
from iceberg_compaction.execute.worker.input import project, read_files
from iceberg_compaction.execute.worker.output import used_values
from iceberg_compaction.execute.worker.proof import copied_bytes, measure, measurements
from iceberg_compaction.model import policies, proof, rewrite_task

if TYPE_CHECKING:
    from iceberg_compaction.execute.worker import source
    from iceberg_compaction.execute.worker.output import output_file, rolling_writer

_log = logging.getLogger(__name__)
_MASK = 2**64 - 1
_DIGESTED = (policies.ProofLevel.CHECKSUM, policies.ProofLevel.DEEP)


class MixedRows:
    """Moves the rows of a task into a writer, encoded or as bytes."""

    def __init__(
        self, rows: source.PartSource, writer: rolling_writer.RollingWriter, level: policies.ProofLevel
    ) -> None:
        self._source = rows
        self._prepared = rows.prepared
        self._writer = writer
        self._level = level
        self._decoded = measure.Meter(self._prepared.output.schema, level, self._prepared.constants)
        self._patches_read = proof.Side()
        self._patches_encoded = proof.Side()
        self.effort = rewrite_task.Effort(kept_from_copying=self._prepared.steps.kept)

    def move(self) -> None:
        """Takes every step in order."""
        for step in self._prepared.steps.order:
            started = time.monotonic()
            if isinstance(step, copied_row_groups.Encode):
                self._encode(step, started)
            elif isinstance(step, copied_row_groups.Join):
                self._join(step)
            elif (reason := self._reason_to_encode(step)) is not None:
                self._encode(_encode_step((step,)), started)
                self.effort += rewrite_task.Effort(kept_from_copying={reason.value: 1})
            else:
                self._copy(step, started)
        self._source.check()

    def take_measurements(self, files: list[output_file.WrittenFile]) -> measurements.CopyMeasurements:
        """The copied row groups of the finished files, in the inputs and on storage."""
        tops = self._prepared.output.tops
        return measurements.CopyMeasurements(
            copied=copied_bytes.measure_inputs(files, tops),
            landed=copied_bytes.measure_outputs(self._prepared.io, files, tops),
            patches_read=self._patches_read,
            patches_encoded=self._patches_encoded,
            # Patches count as rows of the source already.
            decoded=_less(self._decoded.side, self._patches_read) if self._level is policies.ProofLevel.DEEP else None,
        )

    def _encode(self, step: copied_row_groups.Encode, started: float) -> None:
        self._writer.begin_run(step.rows)
        for batch in self._source.batches(step.parts):
            self._writer.expect(self._source.expected_rows)
            self._writer.write(batch)
        seconds = time.monotonic() - started
        self.effort += rewrite_task.Effort(encoded_groups=step.groups, encoded_bytes=step.bytes, encode_seconds=seconds)

    def _reason_to_encode(self, step: copied_row_groups.Copy) -> copied_row_groups.Kept | None:
        """The reason why a row group is not copied after all, by what was written so far."""
        if self._prepared.steps.merges and self._writer.leaves_undersized_row_group:
            return copied_row_groups.Kept.NEIGHBOUR
        return None if self._writer.takes(step.bytes) else copied_row_groups.Kept.TOO_LARGE

    def _copy(self, step: copied_row_groups.Copy, started: float) -> None:
        patch, meter = self._patch((step,), step.patched)
        with read_files.translated(step.footer.path):
            self._writer.copy(step, patch, meter, digest=self._level in _DIGESTED)
        self._after_bytes((step,), meter)
        seconds = time.monotonic() - started
        self.effort += rewrite_task.Effort(copied_groups=1, copied_bytes=step.bytes, copy_seconds=seconds)

    def _join(self, step: copied_row_groups.Join) -> None:
        """Joins row groups into as many as the sizes of row groups and files call for."""
        rest, wanted = step.sources, self._prepared.wanted
        assert wanted is not None
        while rest:
            started = time.monotonic()
            count = join_rows.take(rest, self._writer.next_joined_bytes(sum(source.weight for source in rest)))
            decoded = join_choice.decoded_columns(rest[:count], wanted)
            if (fewer := join_choice.held_at_once(rest[:count], decoded)) < count:
                count, decoded = fewer, join_choice.decoded_columns(rest[:fewer], wanted)
            sources, rest = rest[:count], rest[count:]
            if (joined := self._joined(sources, decoded)) is None:
                self._encode(_encode_step(sources), started)
                self.effort += rewrite_task.Effort(kept_from_copying={copied_row_groups.Kept.PAGES.value: count})
                continue
            patch, meter = self._patch(sources, joined[1])
            self._writer.join(joined[0], patch, meter, digest=self._level in _DIGESTED)
            self._after_bytes(sources, meter)
            seconds, size = time.monotonic() - started, joined[0].bytes
            self.effort += rewrite_task.Effort(joined_groups=count, joined_bytes=size, join_seconds=seconds)

    def _joined(
        self, sources: tuple[copied_row_groups.Copy, ...], decoded: frozenset[int]
    ) -> tuple[output_file.JoinedRows, frozenset[int]] | None:
        """Joined row groups, and the columns that have to be decoded, `decoded` among them. None: their pages cannot be
        joined after all, so rows are decoded, which tells what is wrong with which file."""
        try:
            joined, decoded = join_rows.join(self._prepared, sources, decoded)
        except (ValueError, OSError, pa.ArrowException) as error:
            _log.info("%d row groups are encoded, because their pages cannot be joined: %s", len(sources), error)
            return None
        # More columns than foreseen may have to be decoded, and so more memory be needed than there is.
        is_possible = joined.columns and join_choice.fits_memory(sources, decoded)
        return (joined, decoded) if is_possible else None

    def _after_bytes(self, sources: tuple[copied_row_groups.Copy, ...], meter: measure.Meter | None) -> None:
        """Counts and checks rows that went into the outputs as bytes."""
        self._source.count_copied(sum(source.rows for source in sources), sum(source.deleted for source in sources))
        if meter is not None:
            self._patches_encoded += _columns_only(meter.side)
        if self._level is policies.ProofLevel.DEEP:
            for source in sources:
                for _, first, batch in self._prepared.reader.batches([source.part], frozenset()):
                    self._decoded.add(self._alive(source, first, batch))

    def _alive(self, source: copied_row_groups.Copy, first: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that live, which begins at so many rows of its file."""
        deletes = self._prepared.deletes
        return batch if deletes is None or not source.deleted else deletes.alive(source.number, first, batch)

    def _patch(
        self, sources: tuple[copied_row_groups.Copy, ...], patched: frozenset[int]
    ) -> tuple[pa.Table | None, measure.Meter | None]:
        """The columns of row groups that must be encoded, in the schema of the output; and a meter for them."""
        if not patched:
            return None, None
        prepared, output = self._prepared, self._prepared.output
        schema = Schema(*(field for field in output.schema.fields if field.field_id in patched))
        columns = pa.schema([field for field in output.columns if arrow_schemas.field_id(field) in patched])
        meter = measure.Meter(schema, self._level, prepared.constants)
        batches = []
        for source in sources:  # one by one: a file that lacks all of these columns is read for its number of rows
            only = read_files.columns_with([source.footer], patched) or _smallest_column(source)
            for footer, first, stored in prepared.reader.batches([source.part], prepared.dictionaries, only):
                batch = self._alive(source, first, stored)
                meter.add(batch)
                with read_files.translated(footer.path):
                    projection = project.Projection(batch.schema, schema, columns, prepared.constants)
                    batches.append(projection.apply(batch))
        self._patches_read += _columns_only(meter.side)
        patch = used_values.unified(pa.Table.from_batches(batches, schema=columns))
        return patch, measure.Meter(schema, self._level)


def _encode_step(sources: tuple[copied_row_groups.Copy, ...]) -> copied_row_groups.Encode:
    return copied_row_groups.Encode(
        parts=tuple(source.part for source in sources),
        rows=sum(source.rows for source in sources),
        bytes=sum(source.bytes for source in sources),
        groups=len(sources),
    )


def _columns_only(side: proof.Side) -> proof.Side:
    """A side of which only columns count, because its rows are counted elsewhere."""
    return side.model_copy(update={"rows": 0, "row_checksum": None})


def _less(side: proof.Side, columns: proof.Side) -> proof.Side:
    nulls = {number: count - columns.nulls.get(number, 0) for number, count in side.nulls.items()}
    sums = {number: (total - columns.checksums.get(number, 0)) & _MASK for number, total in side.checksums.items()}
    return side.model_copy(update={"nulls": nulls, "checksums": sums})


def _smallest_column(step: copied_row_groups.Copy) -> frozenset[int]:
    """A column that costs little to read, where only the number of rows matters; empty if there is none to choose."""
    chunks = step.raw.groups[step.group].chunks
    positions = arrow_schemas.positions(step.footer.schema)
    indexes = [index for index, leaf in enumerate(step.raw.leaves) if leaf.ids[0] in positions]
    cheapest = min(indexes, key=lambda index: chunks[index].length, default=None)
    return frozenset() if cheapest is None else frozenset({int(step.raw.leaves[cheapest].ids[0] or 0)})
