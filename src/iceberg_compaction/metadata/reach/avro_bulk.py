"""Reads very many small Avro files at once: fetched side by side, and decoded together where they are of one form, as a
query for a few records costs more than decoding them. Locations come in; one table for each batch goes out, in order.
A few batches are under way at a time, which bounds memory."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import queue
from concurrent import futures
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_decode, container
from iceberg_compaction.metadata import fetch
from iceberg_compaction.storage import exact_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot

_FETCHES = 16  # at once
_TOGETHER, _BYTES = 512, 8 << 20  # files that are decoded together, and their bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkFile:
    """One file to read."""

    location: str
    where: str  # its name in errors
    length: int = 0  # about, if it is known; decides how many go together
    records: int | None = None  # that it must have; None: unknown
    snapshot: Snapshot | None = None  # whose manifest list it is


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkRead:
    """What is read of each file, and how a wrong number of records is told."""

    select: Mapping[str, Sequence[str | int]]
    check: Callable[[BulkFile, container.Container], None]
    # Files whose records follow one another in a table.
    check_records: Callable[[Sequence[BulkFile], Sequence[container.Container], pa.Table], None] | None = None
    may_be_gone: bool = False  # files that do not exist any more are passed over


_Fetched: TypeAlias = "tuple[BulkFile, container.Container]"


def read(io: FileIO, files: Iterable[BulkFile], request: BulkRead) -> Iterator[list[pa.Table]]:
    """The records of each batch of files, in one table for each form of Avro schema that the batch has."""
    cores = os.cpu_count() or 1  # more would wait for the interpreter
    scratches: queue.SimpleQueue[avro_decode.Scratch] = queue.SimpleQueue()
    under_way: collections.deque[futures.Future[list[pa.Table]]] = collections.deque()
    headers: container.Headers = {}
    with contextlib.ExitStack() as stack:
        for _ in range(cores):
            scratches.put(stack.enter_context(contextlib.closing(avro_decode.Scratch())))
        fetching = stack.enter_context(futures.ThreadPoolExecutor(_FETCHES, thread_name_prefix="reach"))
        decoding = stack.enter_context(futures.ThreadPoolExecutor(cores, thread_name_prefix="reach-decode"))
        try:
            for batch in _batches(files):
                fetch_one = functools.partial(_fetch, io, request, headers)
                # A local file is there before another thread would be told of it.
                fetched = (fetching.map if exact_paths.is_remote(batch[0].location) else map)(fetch_one, batch)
                under_way.append(decoding.submit(_decode, fetched, request, scratches))
                while len(under_way) > cores:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        except BaseException:
            for pool in (fetching, decoding):
                pool.shutdown(wait=False, cancel_futures=True)  # the first failure is the answer
            raise


def _batches(files: Iterable[BulkFile]) -> Iterator[list[BulkFile]]:
    batch: list[BulkFile] = []
    size = 0
    for file in files:
        if batch and (len(batch) == _TOGETHER or size + file.length > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.length
    if batch:
        yield batch


def _fetch(io: FileIO, request: BulkRead, headers: container.Headers, file: BulkFile) -> _Fetched | None:
    try:
        data = fetch.read_bytes(io, file.location, where=file.where)
    except errors.MetadataError as error:
        if request.may_be_gone and isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    parsed = container.parse(data, where=file.where, headers=headers)
    request.check(file, parsed)
    return file, parsed


def _decode(
    fetched: Iterator[_Fetched | None], request: BulkRead, scratches: queue.SimpleQueue[avro_decode.Scratch]
) -> list[pa.Table]:
    alike: dict[tuple[Any, ...], list[_Fetched]] = {}
    for each in fetched:
        if each is not None:
            alike.setdefault((each[1].metadata[container.SCHEMA], each[1].codec), []).append(each)
    scratch = scratches.get()
    try:
        return [_read(each, request, scratch) for each in alike.values()]
    finally:
        scratches.put(scratch)


def _read(files: list[_Fetched], request: BulkRead, scratch: avro_decode.Scratch) -> pa.Table:
    first = files[0][0].where
    where = first if len(files) == 1 else f"{first}, or one of the {len(files) - 1} read with it,"
    table = avro_decode.read(
        container.join([parsed for _, parsed in files]), request.select, where=where, scratch=scratch
    )
    if request.check_records is not None:
        request.check_records([file for file, _ in files], [parsed for _, parsed in files], table)
    # A column of DataFusion keeps everything alive that was decoded with it.
    return pa.concat_tables([table, table.slice(0, 0)]).combine_chunks()
