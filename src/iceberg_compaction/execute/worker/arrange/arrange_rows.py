"""Rows between source and sink: each goes to its partition of the output spec (R31) and into the order that the table
asks for (R34). Batches come in, batches of one partition each go out. Memory stays bounded for any number of partitions
and rows, because the rest waits on local disk."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction.execute.worker.arrange import partition_rows, sort_rows

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from numpy.typing import NDArray
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

    from iceberg_compaction.execute.worker import budgets
    from iceberg_compaction.execute.worker.arrange import sort_order_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrangedRows:
    """Rows of one partition."""

    partition_index: int  # partitions are numbered as they appear
    partition: str | None  # canonical JSON; None: that of the inputs
    batch: pa.RecordBatch
    # Rows of the whole partition. All of them follow one another, so that other partitions are complete. None: unknown.
    partition_rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowArrangement:
    """The wanted arrangement. `spec` is None where rows stay in the partition of the inputs."""

    schema: Schema
    columns: pa.Schema
    spec: PartitionSpec | None
    order: tuple[sort_order_keys.SortField, ...]
    budgets: budgets.Budgets


def arrange(batches: Iterable[pa.RecordBatch], wanted: RowArrangement) -> Generator[ArrangedRows]:
    """All rows of the batches as the arrangement wants them, in the simplest way."""
    tuples = None
    if wanted.spec is not None:
        tuples = partition_rows.PartitionTuples(wanted.spec, wanted.schema, wanted.columns)
    if wanted.order:
        return _sorted(batches, wanted, tuples)
    if tuples is not None:
        return _parted(batches, wanted, tuples)
    return _as_they_come(batches)


def _as_they_come(batches: Iterable[pa.RecordBatch]) -> Generator[ArrangedRows]:
    for batch in batches:
        yield ArrangedRows(partition_index=0, partition=None, batch=batch)


def _sorted(
    batches: Iterable[pa.RecordBatch], wanted: RowArrangement, tuples: partition_rows.PartitionTuples | None
) -> Generator[ArrangedRows]:
    """By partition first, then in order. Nothing goes out before all rows are here."""
    sorter = sort_rows.Sorter(wanted.order, wanted.columns, wanted.budgets)
    with contextlib.closing(sorter):
        for batch in batches:
            sorter.add(batch, None if tuples is None else tuples.numbers(batch))
        yield from _from_sorter(sorter, tuples)


def _parted(
    batches: Iterable[pa.RecordBatch], wanted: RowArrangement, tuples: partition_rows.PartitionTuples
) -> Generator[ArrangedRows]:
    """In the order of arrival. The first few partitions go out at once, further ones wait until all rows are here."""
    half = replace(wanted.budgets, run_bytes=wanted.budgets.run_bytes // 2)  # because open partitions hold rows too
    sorter = sort_rows.Sorter((), wanted.columns, half)
    most = wanted.budgets.open_partitions
    with contextlib.closing(sorter):
        for chunk in _chunks(batches, wanted.budgets):
            numbers = tuples.numbers(chunk)
            for number in np.unique(numbers[numbers < most]).tolist():
                batch = _select(chunk, numbers == number)
                yield ArrangedRows(partition_index=number, partition=tuples.texts[number], batch=batch)
            if (later := numbers >= most).any():
                sorter.add(_select(chunk, later), numbers[later])
        yield from _from_sorter(sorter, tuples)


def _from_sorter(sorter: sort_rows.Sorter, tuples: partition_rows.PartitionTuples | None) -> Iterator[ArrangedRows]:
    for number, batch in sorter.batches():
        yield ArrangedRows(
            partition_index=number,
            partition=None if tuples is None else tuples.texts[number],
            batch=batch,
            partition_rows=sorter.counts[number],
        )


def _chunks(batches: Iterable[pa.RecordBatch], limits: budgets.Budgets) -> Iterator[pa.RecordBatch]:
    """The same rows in larger batches."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= limits.chunk_rows or size >= limits.chunk_bytes:
            yield sort_rows.joined(held)  # empties the list
            rows = size = 0
    if rows:
        yield sort_rows.joined(held)


def _select(chunk: pa.RecordBatch, mask: NDArray[np.bool_]) -> pa.RecordBatch:
    return chunk if mask.all() else chunk.take(pa.array(np.flatnonzero(mask)))
