"""Writes position delete files (R21, R26): sorted by path and position, with full bounds. Positions by data file come
in, staged files go out. What was written is read again from storage and compared, row by row."""

from __future__ import annotations

import io as python_io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.deletes import delete_cache, load_deletes, positions
from iceberg_compaction.execute.worker.output import file_metrics
from iceberg_compaction.model import rewrite_task, table_view
from iceberg_compaction.storage import counted_writes, remove

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from iceberg_compaction.execute.worker.output import locations
    from iceberg_compaction.execute.worker.position_deletes import find_positions

MOST_ROWS = 1 << 24  # of a file for a partition: some 50 MB
_ROW_GROUP = 1 << 20  # rows
_LONG = 2**63 - 1
_CODECS = ("zstd", "gzip", "snappy", "lz4", "brotli")
_COLUMNS = pa.schema(
    [
        pa.field(
            "file_path",
            pa.dictionary(pa.int32(), pa.string()),
            False,
            {arrow_schemas.FIELD_ID: str(load_deletes.PATH_ID)},
        ),
        pa.field("pos", pa.int64(), False, {arrow_schemas.FIELD_ID: str(load_deletes.POSITION_ID)}),
    ],
    metadata={"delete-type": "position"},
)


@dataclass(slots=True, kw_only=True)
class PositionWriter:
    """The position delete files of one attempt of a task."""

    task: rewrite_task.RewriteTask
    taken: find_positions.TakenRows
    output: locations.OutputLocations
    granularity: rewrite_task.Granularity
    properties: Mapping[str, str]
    staged: list[rewrite_task.StagedFile] = field(default_factory=list)
    written: list[str] = field(default_factory=list)  # every path, noted before it is written

    def write(self) -> None:
        """All files. A file for a partition holds the positions of neighbouring data files, in the order of paths."""
        waiting: list[int] = []
        rows = 0
        alone = self.granularity is rewrite_task.Granularity.FILE
        for number in sorted(range(len(self.task.file_paths)), key=lambda at: self.task.file_paths[at].encode()):
            count = self.taken.count(number)
            if waiting and (alone or rows + count > MOST_ROWS):
                self._stage(waiting)
                waiting, rows = [], 0
            if count:
                waiting.append(number)
                rows += count
        if waiting:
            self._stage(waiting)

    def _stage(self, numbers: Sequence[int]) -> None:
        """One file, for the data files of these numbers. It is small as stored, and is encoded in memory."""
        path = self.output.path(len(self.written))
        self.written.append(path)
        sink = python_io.BytesIO()
        low, high = _LONG, -1
        with pq.ParquetWriter(sink, _COLUMNS, compression=_codec(self.properties), store_schema=False) as writer:
            waiting: list[pa.RecordBatch] = []
            for number in numbers:
                for part in self.taken.of_file(number):
                    low, high = min(low, int(part[0])), max(high, int(part[-1]))
                    waiting.append(_batch(self.task.file_paths[number], part))
                    if sum(batch.num_rows for batch in waiting) >= _ROW_GROUP:
                        _encode(writer, waiting)
            _encode(writer, waiting)
        content = sink.getvalue()
        with counted_writes.new_output(self.taken.io, path).create() as stream:
            stream.write(content)
        ends = (self.task.file_paths[numbers[0]], low), (self.task.file_paths[numbers[-1]], high)
        self.staged.append(self._described(path, content, ends))

    def _described(
        self, path: str, content: bytes, ends: tuple[tuple[str, int], tuple[str, int]]
    ) -> rewrite_task.StagedFile:
        """`ends`: the lowest path and position, and the highest."""
        metadata = pq.ParquetFile(pa.BufferReader(content)).metadata
        ids = (load_deletes.PATH_ID, load_deletes.POSITION_ID)
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        (first, low), (last, high) = ends
        return rewrite_task.StagedFile(
            file_path=path,
            file_size_in_bytes=len(content),
            record_count=metadata.num_rows,
            spec_id=self.task.spec_id,
            partition=self.task.partition,
            column_sizes={
                number: sum(group.column(at).total_compressed_size for group in groups) for at, number in enumerate(ids)
            },
            value_counts=dict.fromkeys(ids, metadata.num_rows),
            null_value_counts=dict.fromkeys(ids, 0),
            lower_bounds={ids[0]: first.encode(), ids[1]: low.to_bytes(8, "little")},
            upper_bounds={ids[0]: last.encode(), ids[1]: high.to_bytes(8, "little")},
            split_offsets=file_metrics.split_offsets(metadata),
            content=table_view.POSITION_DELETES,
            referenced_data_file=first if first == last else None,
        )

    def read_back(self) -> int:
        """The rows of the files as storage holds them. Raises ProofError unless they name exactly the positions that
        were found."""
        own = delete_cache.DeleteCache()  # nobody else needs these files
        reader = load_deletes.DeleteReader(io=self.taken.io, contents={}, budgets=self.taken.budgets, cache=own)
        stored = positions.DeadRows(self.task.record_counts)
        newest = max(self.task.sequence_numbers, default=0)
        positions.mark(stored, self.task, [_as_delete(file, newest) for file in self.staged], reader)
        for number, path in enumerate(self.task.file_paths):
            for first in range(0, self.task.record_counts[number], _ROW_GROUP):
                count = min(_ROW_GROUP, self.task.record_counts[number] - first)
                expected = self.taken.dead(number, first, count) & ~self.taken.kept(number, first, count)
                if not np.array_equal(stored.mask(number, first, count), expected):
                    raise errors.ProofError(
                        f"The new position deletes of {path} do not name the rows that its delete files take; task "
                        f"{self.task.id} was undone."
                    )
        return sum(file.record_count for file in self.staged)

    def abort(self) -> tuple[str, ...]:
        """Removes everything that was written. Returns the paths of files that could not be removed."""
        return remove.remove_files(self.taken.io, self.written, remove.RemovalProof.NEVER_SENT)


def _batch(path: str, numbers: NDArray[np.int64]) -> pa.RecordBatch:
    codes = pa.array(np.zeros(len(numbers), np.int32))
    names = pa.DictionaryArray.from_arrays(codes, pa.array([path], pa.string()))
    return pa.RecordBatch.from_arrays([names, pa.array(numbers)], schema=_COLUMNS)


def _encode(writer: pq.ParquetWriter, batches: list[pa.RecordBatch]) -> None:
    """The batches as row groups; none is left."""
    if batches:
        table = pa.Table.from_batches(batches, _COLUMNS).unify_dictionaries().combine_chunks()
        writer.write_table(table, row_group_size=2 * _ROW_GROUP)
        batches.clear()


def _codec(properties: Mapping[str, str]) -> str:
    name = properties.get("write.delete.parquet.compression-codec")
    name = (name or properties.get("write.parquet.compression-codec", "zstd")).lower()
    if name in ("uncompressed", "none"):
        return "none"
    return name if name in _CODECS else "zstd"


def _as_delete(file: rewrite_task.StagedFile, sequence_number: int) -> rewrite_task.DeleteFile:
    values: dict[str, Any] = {
        name: getattr(file, name) for name in ("file_path", "content", "file_size_in_bytes", "record_count")
    }
    return rewrite_task.DeleteFile(**values, file_format="PARQUET", sequence_number=sequence_number)
