"""All rows of a task into one writer, whichever partitions its inputs lie in: one after the other, because each has
partition values, deletes and a layout of files of its own. A task and a writer come in, what was seen goes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from iceberg_compaction.execute.worker import prepared_task, transfer
from iceberg_compaction.model import policies, proof, rewrite_task

if TYPE_CHECKING:
    from iceberg_compaction.execute.worker.output import output_file, sink


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What became of a task's rows."""

    files: list[output_file.WrittenFile]
    deleted: int  # rows that deletes took
    source: proof.Side
    patched: proof.Side
    decoded: proof.Side | None  # of level `deep` only
    effort: rewrite_task.Effort


def move(
    task: rewrite_task.RewriteTask,
    context: rewrite_task.RewriteContext,
    first: prepared_task.PreparedTask,
    writer: sink.Sink,
) -> Moved:
    """Every part of the task in order; `first` is the setting of the first one, whose columns the writer expects."""
    effort, deleted = rewrite_task.Effort(), 0
    source, patched, decoded = proof.Side(), proof.Side(), proof.Side()
    for number, part in enumerate(task.parts):
        known = first if number == 0 else prepared_task.prepare(part, context)
        way = transfer.Transfer(known, context.verify)
        way.run(writer if known.columns.equals(first.columns) else _Fitted(writer, first.columns))
        source, patched, decoded = source + way.source, patched + way.patched, decoded + (way.decoded or proof.Side())
        deleted += known.deletes.dropped if known.deletes else 0
        effort += way.effort
    files, closing = transfer.finish(writer)
    return Moved(
        files=files,
        deleted=deleted,
        source=source,
        patched=patched,
        decoded=decoded if context.verify is policies.ProofLevel.DEEP else None,
        effort=effort + closing,
    )


class _Fitted:
    """A writer of the same columns, of which others are kept as dictionaries."""

    def __init__(self, writer: sink.Sink, columns: pa.Schema) -> None:
        self._writer = writer
        self._columns = columns

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [_fit(column, field.type) for column, field in zip(batch.columns, self._columns, strict=True)]
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=self._columns))

    def expect(self, rows: int) -> None:
        """Of no use: so many rows of one part."""

    def close(self) -> list[output_file.WrittenFile]:
        return self._writer.close()

    def abort(self) -> tuple[str, ...]:
        return self._writer.abort()


def _fit(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return plain.dictionary_encode() if pa.types.is_dictionary(kind) else plain
