"""Gathers the rows of small files into larger batches, because each batch costs the same work on its way, however few
its rows are. Batches with their files come in; gathered ones go out, in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iceberg_compaction.execute.worker import budgets
    from iceberg_compaction.execute.worker.input import read_files

_FEW_ROWS = 8192  # a batch with more stays as it is
_ENOUGH_ROWS = 32768
_ENOUGH_BYTES = 8 * 2**20
_OF_TARGET = 10


class GatheredRows(NamedTuple):
    """A batch, and the parts that it was made of, each with the footer of its file."""

    batch: pa.RecordBatch
    parts: tuple[tuple[read_files.Footer, pa.RecordBatch], ...]


def gather(batches: Iterable[GatheredRows], limits: budgets.Budgets, target: int) -> Iterator[GatheredRows]:
    """Neighbours of the same columns are gathered as long as they are small, and small beside the target of files: a
    writer learns from batch to batch how much space rows take."""
    enough_rows = min(_ENOUGH_ROWS, limits.batch_rows)
    enough_bytes = min(_ENOUGH_BYTES, limits.batch_bytes // 4, target // _OF_TARGET)
    few_rows = min(_FEW_ROWS, enough_rows)
    waiting: list[GatheredRows] = []
    count = size = 0
    for rows in batches:
        batch = rows.batch
        is_small = batch.num_rows < few_rows and (taken := batch.nbytes) < enough_bytes
        if waiting and not (is_small and batch.schema.equals(waiting[0].batch.schema, check_metadata=True)):
            yield _gathered(waiting)
            waiting, count, size = [], 0, 0
        if not is_small:
            yield rows
            continue
        waiting.append(rows)
        count, size = count + batch.num_rows, size + taken
        if count >= enough_rows or size >= enough_bytes:
            yield _gathered(waiting)
            waiting, count, size = [], 0, 0
    if waiting:
        yield _gathered(waiting)


def _gathered(waiting: list[GatheredRows]) -> GatheredRows:
    if len(waiting) == 1:
        return waiting[0]
    parts = tuple(part for rows in waiting for part in rows.parts)
    return GatheredRows(pa.concat_batches([rows.batch for rows in waiting]), parts)
