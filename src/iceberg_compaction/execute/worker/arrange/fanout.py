"""Rows of one task to several files at once, where there is more to do than to append: each row to its partition of the
output spec (R31), in the order that the table asks for (R34). Batches come in, finished files come out, memory stays
bounded however many partitions there are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction.execute.worker.arrange import sort_rows
from iceberg_compaction.execute.worker.output import rolling_writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyiceberg.io import FileIO

    from iceberg_compaction.execute.worker.arrange import partition_rows, sort_order_keys
    from iceberg_compaction.execute.worker.output import output_file
    from iceberg_compaction.execute.worker.proof import measure

# Partitions that are written as their rows come. Those of further ones go to disk first, so that they come one by one.
OPEN_PARTITIONS = 16
BUFFER_BYTES = 128 * 2**20  # Arrow bytes held back by all open writers together
_CHUNK_BYTES = 16 * 2**20  # rows are parted in chunks of this size, as small batches would become tiny ones
_CHUNK_ROWS = 1 << 18
_MASK = 2**64 - 1


class _Share:
    """The meter as one writer sees it: what passes by is summed up for each of its files, too."""

    def __init__(self, meter: measure.Meter) -> None:
        self._meter = meter
        self.finished: list[output_file.WrittenFile] = []  # the writer's; rows that come next go to the one after
        self.sums: dict[int, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        before = self._meter.row_sum
        self._meter.add(batch)
        if before is not None and (after := self._meter.row_sum) is not None:
            place = len(self.finished)
            self.sums[place] = self.sums.get(place, 0) + after - before


class Outputs:
    """The writers of one attempt, one after another or side by side, and how to undo all of them."""

    def __init__(
        self,
        io: FileIO,
        request: rolling_writer.WriteRequest,
        meter: measure.Meter,
        found: partition_rows.PartitionTuples | None,
    ) -> None:
        self._io, self._request, self._meter, self._tuples = io, request, meter, found
        self._writers: list[rolling_writer.RollingWriter] = []
        self._shares: list[_Share] = []

    def open(self, number: int, rows: int | None, columns: pa.Schema) -> rolling_writer.RollingWriter:
        """A writer for one partition; without partition tuples there is only that of the request."""
        request = replace(self._request, rows=rows, columns=columns)
        if self._tuples is not None:
            request = replace(
                request,
                partition=self._tuples.texts[number],
                locations=request.locations.of_partition(number, self._tuples.path(number)),
            )
        self._shares.append(_Share(self._meter))
        self._writers.append(rolling_writer.RollingWriter(self._io, request, self._shares[-1]))
        self._shares[-1].finished = self._writers[-1].finished
        return self._writers[-1]

    def row_checksums(self) -> dict[str, int]:
        """Of the rows of each finished file, by its path; nothing where they are not measured."""
        return {
            file.path: share.sums[place] & _MASK
            for share in self._shares
            for place, file in enumerate(share.finished)
            if place in share.sums
        }

    def write_all(self, sorter: sort_rows.Sorter) -> Iterator[output_file.WrittenFile]:
        """Everything that was sorted, partition by partition."""
        writer: rolling_writer.RollingWriter | None = None
        current = -1
        for number, batch in sorter.batches():
            if writer is None or number != current:
                if writer is not None:
                    yield from writer.close()
                writer, current = self.open(number, sorter.counts[number], sorter.columns), number
            writer.write(batch)
        if writer is not None:
            yield from writer.close()

    def abort(self) -> tuple[str, ...]:
        return tuple(path for writer in self._writers for path in writer.abort())


class SortedSink:
    """All rows of the task in order, and where there is an output spec by partition first."""

    def __init__(
        self,
        outputs: Outputs,
        fields: tuple[sort_order_keys.Field, ...],
        columns: pa.Schema,
        found: partition_rows.PartitionTuples | None,
    ) -> None:
        self.outputs = outputs
        self._tuples = found
        self._sorter = sort_rows.Sorter(fields, columns)

    def write(self, batch: pa.RecordBatch) -> None:
        self._sorter.add(batch, None if self._tuples is None else self._tuples.numbers(batch))

    def expect(self, rows: int) -> None:
        """Nothing is written before all rows are here."""

    def close(self) -> list[output_file.WrittenFile]:
        try:
            return list(self.outputs.write_all(self._sorter))
        finally:
            self._sorter.close()

    def abort(self) -> tuple[str, ...]:
        self._sorter.close()
        return self.outputs.abort()


class FanOut:
    """Rows in the order in which they come, each to its partition."""

    def __init__(self, outputs: Outputs, columns: pa.Schema, found: partition_rows.PartitionTuples) -> None:
        self.outputs = outputs
        self._columns = columns
        self._tuples = found
        self._open: dict[int, rolling_writer.RollingWriter] = {}
        self._later = sort_rows.Sorter((), columns, sort_rows.RUN_BYTES // 2)  # while the open writers hold rows too
        self._chunk: list[pa.RecordBatch] = []
        self._chunk_rows = self._chunk_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._chunk.append(batch)
        self._chunk_rows += batch.num_rows
        self._chunk_bytes += batch.nbytes
        if self._chunk_rows >= _CHUNK_ROWS or self._chunk_bytes >= _CHUNK_BYTES:
            self._part()

    def expect(self, rows: int) -> None:
        """Of no use, as long as nobody knows to which partitions they go."""

    def close(self) -> list[output_file.WrittenFile]:
        try:
            self._part()
            files = [file for number in sorted(self._open) for file in self._open[number].close()]
            return [*files, *self.outputs.write_all(self._later)]
        finally:
            self._later.close()

    def abort(self) -> tuple[str, ...]:
        self._later.close()
        return self.outputs.abort()

    def _part(self) -> None:
        """The chunk's rows to their writers."""
        if not self._chunk_rows:
            return
        chunk = sort_rows.joined(self._chunk)
        self._chunk, self._chunk_rows, self._chunk_bytes = [], 0, 0
        numbers = self._tuples.numbers(chunk)
        for number in np.unique(numbers).tolist():
            if number >= OPEN_PARTITIONS:
                break
            if number not in self._open:
                self._open[number] = self.outputs.open(number, None, self._columns)
            self._open[number].write(_rows(chunk, numbers == number))
        if (later := numbers >= OPEN_PARTITIONS).any():
            self._later.add(_rows(chunk, later), numbers[later])
        self._free()

    def _free(self) -> None:
        while sum(writer.buffered_bytes for writer in self._open.values()) > BUFFER_BYTES:
            max(self._open.values(), key=lambda writer: writer.buffered_bytes).flush()


def _rows(chunk: pa.RecordBatch, wanted: NDArray[np.bool_]) -> pa.RecordBatch:
    return chunk if wanted.all() else chunk.take(pa.array(np.flatnonzero(wanted)))
