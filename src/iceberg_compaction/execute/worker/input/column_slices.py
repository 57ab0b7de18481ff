"""Columns of a row group in turn, where pages of all columns at a time would take too much memory: a few columns are
decoded and wait on local disk, then the next few. Streams of batches with some columns each come in, batches with all
columns go out."""

from __future__ import annotations

import contextlib
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from iceberg_compaction.execute.worker import scratch_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Read = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]


def cut(sizes: Mapping[str, int], most: int) -> list[list[str]]:
    """The columns in slices of at most so many bytes, or of one column."""
    slices: list[list[str]] = []
    held = 0
    for name, size in sizes.items():
        if not slices or held + size > most:
            slices.append([])
            held = 0
        slices[-1].append(name)
        held += size
    return slices


def batches(slices: Sequence[Sequence[str]], read: Read) -> Iterator[pa.RecordBatch]:
    """All columns, slice by slice in their order. `read` decodes all rows of some columns."""
    with contextlib.ExitStack() as files:
        streams = []
        for names in slices:
            file = files.enter_context(scratch_files.open_file())
            if _write(file, read(names)):
                file.seek(0)
                streams.append(pa.ipc.open_stream(file))
        yield from _side_by_side(streams)


def _write(file: IO[bytes], columns: Iterable[pa.RecordBatch]) -> bool:
    """Whether there are rows."""
    writer: Any = None
    for batch in columns:
        if writer is None:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            writer = pa.ipc.new_stream(file, batch.schema, options=options)
        writer.write_batch(batch)
    if writer is not None:
        writer.close()
    return writer is not None


def _side_by_side(streams: Sequence[Any]) -> Iterator[pa.RecordBatch]:
    """The rows of all streams, which have the same number of rows but not the same batches."""
    heads: list[Any] = [next(stream, None) for stream in streams]
    while all(head is not None for head in heads) and heads:
        rows = min(head.num_rows for head in heads)
        pieces = [head.slice(0, rows) for head in heads]
        yield pa.RecordBatch.from_arrays(
            [column for piece in pieces for column in piece.columns],
            names=[name for piece in pieces for name in piece.schema.names],
        )
        heads = [
            head.slice(rows) if head.num_rows > rows else next(stream, None)
            for head, stream in zip(heads, streams, strict=True)
        ]
    if any(head is not None for head in heads):
        raise ValueError("columns of a row group differ in their number of rows")
