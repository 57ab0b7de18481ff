"""Rows of many types to make Parquet files of, and a look at every byte of a file: whether its footer and its indexes
say where things really are."""

from __future__ import annotations

import datetime
import decimal
import itertools
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO
from tests.factories import parquet_files

from iceberg_compaction.formats.parquet import parquet_footer, splice, thrift

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

MAGIC = b"PAR1"
OFFSET, SIZE, FIRST_ROW = 1, 2, 3  # of a page location
BLOOM, BLOOM_LENGTH, INDEX_LENGTHS = 14, 15, {4: 5, 6: 7}
UNCOMPRESSED, COMPRESSED = 6, 7


class StreamIO(PyArrowFileIO):
    """A FileIO that files are not taken away from: everything goes through its streams."""


class CountingIO(StreamIO):
    """A FileIO that remembers where and how much is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[str, int, int]] = []

    def new_input(self, location: str) -> Any:
        return _CountedInput(super().new_input(location), self.reads)


class _CountedInput:
    def __init__(self, real: Any, reads: list[tuple[str, int, int]]) -> None:
        self._real, self._reads = real, reads

    def open(self) -> _CountedStream:
        return _CountedStream(self._real.open(), self._real.location, self._reads)


class _CountedStream:
    def __init__(self, real: Any, location: str, reads: list[tuple[str, int, int]]) -> None:
        self._real, self._location, self._reads = real, location, reads
        self.seek, self.tell, self.close = real.seek, real.tell, real.close

    def read(self, size: int) -> bytes:
        self._reads.append((self._location, self._real.tell(), size))
        return bytes(self._real.read(size))

    def read_at(self, size: int, start: int) -> bytes:
        self._reads.append((self._location, start, size))
        return bytes(self._real.read_at(size, start))

    def __enter__(self) -> _CountedStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def with_id(name: str, kind: pa.DataType, number: int, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={b"PARQUET:field_id": str(number).encode()})


SCHEMA = pa.schema(
    [
        with_id("id", pa.int64(), 1, nullable=False),
        with_id("word", pa.string(), 2),
        with_id("amount", pa.decimal128(12, 2), 3),
        with_id("at", pa.timestamp("us", tz="UTC"), 4),
        with_id("flag", pa.bool_(), 5),
        with_id("ratio", pa.float64(), 6),
        with_id("raw", pa.binary(), 7),
        with_id(
            "place",
            pa.struct(
                [
                    with_id("x", pa.int32(), 9),
                    with_id("names", pa.list_(with_id("element", pa.string(), 11)), 10),
                ]
            ),
            8,
        ),
        with_id(
            "counts",
            pa.map_(with_id("key", pa.string(), 13, nullable=False), with_id("value", pa.int64(), 14)),
            12,
        ),
    ]
)
ARGUMENTS: dict[str, Any] = {
    "compression": "zstd",
    "version": "2.6",
    "max_rows_per_page": 200,
    "write_page_index": True,
    "write_page_checksum": True,
    "store_schema": False,
    "store_decimal_as_integer": True,
    "bloom_filter_options": {"word": {"ndv": 1000, "fpp": 0.01}, "id": {"ndv": 1000, "fpp": 0.01}},
}
LEAVES = 11


def rows(seed: int, count: int, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Some rows, every type of column with nulls where they may be."""
    chance = random.Random(seed)
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)

    def maybe(make: Callable[[], Any]) -> Any:
        return None if chance.random() < 0.1 else make()

    made = [
        {
            "id": seed * 1_000_000 + number,
            "word": maybe(lambda: f"word {chance.randrange(300)}"),
            "amount": maybe(lambda: decimal.Decimal(chance.randrange(-(10**9), 10**9)) / 100),
            "at": maybe(lambda: start + datetime.timedelta(microseconds=chance.randrange(10**15))),
            "flag": maybe(lambda: chance.random() < 0.5),
            "ratio": maybe(chance.random),
            "raw": maybe(lambda: chance.randbytes(chance.randrange(20))),
            "place": maybe(
                lambda: {
                    "x": maybe(lambda: chance.randrange(100)),
                    "names": maybe(
                        lambda: [maybe(lambda: f"n{chance.randrange(9)}") for _ in range(chance.randrange(4))]
                    ),
                }
            ),
            "counts": maybe(
                lambda: [(f"k{key}", maybe(lambda: chance.randrange(99))) for key in range(chance.randrange(3))]
            ),
        }
        for number in range(count)
    ]
    return pa.Table.from_pylist(made, schema=SCHEMA).select(schema.names).cast(schema)


def write(path: Path | str, table: pa.Table, group: int | None = None, **arguments: Any) -> str:
    """A file as pyarrow makes it; returns its path."""
    pq.write_table(table, path, row_group_size=group or max(1, table.num_rows), **{**ARGUMENTS, **arguments})
    return str(path)


@dataclass
class Making:
    """A file being put together, with what was put into it."""

    path: str
    schema: pa.Schema = SCHEMA
    arguments: dict[str, Any] = field(default_factory=lambda: ARGUMENTS)
    io: PyArrowFileIO = field(default_factory=PyArrowFileIO)

    def __post_init__(self) -> None:
        self.file = splice.SplicedFile(self.io, self.path, self.schema, self.arguments)
        self.copied: list[splice.Copied] = []

    def copy(self, path: str, places: Sequence[int | None] | None = None, **more: Any) -> Making:
        """Take all row groups of a file over."""
        found = parquet_footer.read(self.io, path)
        with splice.Source(self.io, found) as source:
            for group in found.groups:
                self.copied.append(self.file.copy(source, group, places or range(len(found.leaves)), **more))
        return self

    def encode(self, table: pa.Table) -> Making:
        self.file.encode(table, self.arguments)
        return self

    def finish(self) -> str:
        metadata, size = self.file.finish()
        with open(self.path, "rb") as stream:
            assert len(stream.read()) == size
        assert metadata.to_dict() == pq.read_metadata(self.path).to_dict()
        return self.path


@dataclass
class Seen:
    """What was found in a file, to see that there was something to look at."""

    groups: int = 0
    pages: int = 0
    offset_indexes: int = 0
    column_indexes: int = 0
    blooms: int = 0


def check(path: str) -> Seen:
    """Look at every page and every index of a file; all must lie where the footer says."""
    with open(path, "rb") as stream:
        data = stream.read()
    assert data[:4] == data[-4:] == MAGIC
    found = parquet_footer.read(PyArrowFileIO(), path)
    seen = Seen(groups=len(found.groups))
    taken: list[tuple[int, int]] = [(0, 4)]
    for ordinal, group in enumerate(found.groups):
        raw = group.raw
        assert raw[7] == (thrift.I16, ordinal)
        assert raw[5][1] == min(chunk.start for chunk in group.chunks)
        assert raw[6][1] == group.bytes
        assert raw[2][1] == sum(chunk.uncompressed for chunk in group.chunks)
        for chunk, leaf in zip(group.chunks, found.leaves, strict=True):
            assert [name.decode() for name in chunk.meta[3][1][1]] == list(leaf.path)
            pages = _pages(data, chunk)
            seen.pages += len(pages)
            taken.append((chunk.start, chunk.length))
            _look_at_indexes(data, chunk, pages, group.rows, seen, taken)
    taken.append((found.body, len(data) - found.body))
    taken.sort()
    for (start, length), (following, _) in itertools.pairwise(taken):
        assert start + length == following, "bytes that belong to nothing, or to two things"
    return seen


def _pages(data: bytes, chunk: parquet_footer.Chunk) -> list[tuple[int, int]]:
    """Where the data pages of a column are, and how large they are."""
    at, end, found, values, raw_bytes = chunk.start, chunk.start + chunk.length, [], 0, 0
    first = None
    while at < end:
        head: Any
        head, body = thrift.parse(data, at)
        size = body - at + head[3][1]
        raw_bytes += body - at + head[2][1]
        if head[1][1] == parquet_files.DICTIONARY:
            assert at == chunk.start == chunk.meta[parquet_files.DICTIONARY_PAGE][1]
        else:
            first = at if first is None else first
            values += head[{parquet_files.DATA_V1: 5, parquet_files.DATA_V2: 8}[head[1][1]]][1][1][1]
            found.append((at, size))
        at += size
    assert at == end
    assert first in (None, chunk.meta[parquet_files.DATA_PAGE][1])
    assert values == chunk.values
    assert raw_bytes == chunk.uncompressed
    return found


def _look_at_indexes(
    data: bytes,
    chunk: parquet_footer.Chunk,
    pages: list[tuple[int, int]],
    group_rows: int,
    seen: Seen,
    taken: list[tuple[int, int]],
) -> None:
    if parquet_files.OFFSET_INDEX in chunk.raw:
        seen.offset_indexes += 1
        index = _index(data, chunk, parquet_files.OFFSET_INDEX, taken)
        locations = index[1][1][1]
        assert [(page[OFFSET][1], page[SIZE][1]) for page in locations] == pages
        firsts = [page[FIRST_ROW][1] for page in locations]
        assert firsts[0] == 0
        assert firsts == sorted(set(firsts))
        assert firsts[-1] < group_rows
    if parquet_files.COLUMN_INDEX in chunk.raw:
        seen.column_indexes += 1
        assert len(_index(data, chunk, parquet_files.COLUMN_INDEX, taken)[1][1][1]) == len(pages)
    if BLOOM in chunk.meta:
        seen.blooms += 1
        start = chunk.meta[BLOOM][1]
        head, body = thrift.parse(data, start)
        assert body + head[1][1] == start + chunk.meta[BLOOM_LENGTH][1]
        taken.append((start, chunk.meta[BLOOM_LENGTH][1]))


def _index(data: bytes, chunk: parquet_footer.Chunk, number: int, taken: list[tuple[int, int]]) -> thrift.Struct:
    start, length = chunk.raw[number][1], chunk.raw[INDEX_LENGTHS[number]][1]
    taken.append((start, length))
    found, end = thrift.parse(data, start)
    assert end == start + length
    return found
