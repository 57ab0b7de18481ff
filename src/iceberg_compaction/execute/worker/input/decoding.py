"""How a Parquet file is decoded in batches of bounded memory, whatever its bytes stand for: a dictionary of long texts
that millions of rows name, runs of equal values, pages that compress to nothing. What footers and page headers tell
comes in; batches go out, texts that were dictionaries decoded only as far as they fit."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.input import value_widths
from iceberg_compaction.formats.parquet import page_headers
from iceberg_compaction.model import byte_size

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

BATCH_BYTES = 32 * 2**20  # decoded bytes that one batch should hold
BATCH_ROWS = 1 << 20
ROW_BYTES = 2**31 - 1  # of one row at most: Arrow's offsets of texts have 31 bits
_PAGES_BYTES = 2**30  # that the pages of a row group which are open at a time may take
_INDEX = 4  # bytes per value that a column takes at most if all its pages refer to its dictionary
_DENSE = 16  # times as large as on disk: from here on a column may be made to fill memory, so its pages are looked at
_LOOKED_AT = 64 * 2**20  # uncompressed bytes of a column; smaller ones do no harm
_SAMPLE_ROWS = 16


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column of a row group of which the footer alone does not tell enough."""

    group: int
    path: str
    values: int
    start: int
    length: int
    uncompressed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a footer says about the memory that its rows take."""

    row_bytes: tuple[float, ...]  # decoded, by row group; texts that are read as dictionaries excepted
    coded: frozenset[str]  # paths of texts that are read as dictionaries, since few bytes stand for many
    unsure: tuple[Chunk, ...]  # texts that perhaps should be
    dense: tuple[Chunk, ...]  # what decompresses to so much that single pages may be too large
    prefixed: frozenset[str]  # texts that are stored as what they add to the one before


def needs(schema: pa.Schema, groups: Sequence[Any]) -> Needs:
    """`groups` are the row groups of a file's metadata, as pyarrow has them."""
    row_bytes, coded, unsure, dense, prefixed = [], set(), [], [], set()
    kinds = [_width(leaf.type) for leaf in arrow_schemas.leaves(schema)]
    for number, group in enumerate(groups):
        total = 0
        for index, width in enumerate(kinds):
            column = group.column(index)
            values, stored = column.num_values, column.total_uncompressed_size
            if not values:
                continue
            if width:
                total += max(stored, values * width)
            else:
                found = _chunk(number, column)
                total += stored + _INDEX * values
                if _names_values(column) and stored <= _INDEX * values:
                    coded.add(found.path)
                elif _may_name_values(column):
                    unsure.append(found)
                if "DELTA_BYTE_ARRAY" in column.encodings:
                    prefixed.add(found.path)
            if stored > max(_LOOKED_AT, _DENSE * column.total_compressed_size):
                dense.append(_chunk(number, column))
        row_bytes.append(total / max(1, group.num_rows))
    return Needs(
        row_bytes=tuple(row_bytes),
        coded=frozenset(coded),
        unsure=tuple(chunk for chunk in unsure if chunk.path not in coded),
        dense=tuple(dense),
        prefixed=frozenset(prefixed),
    )


def _width(kind: pa.DataType) -> int:
    """Bytes of a value; 0: that differs."""
    if pa.types.is_null(kind):
        return 1
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return 0


def _chunk(group: int, column: Any) -> Chunk:
    first = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset:
        first = min(first, column.dictionary_page_offset)
    return Chunk(
        group=group,
        path=column.path_in_schema,
        values=column.num_values,
        start=first,
        length=column.total_compressed_size,
        uncompressed=column.total_uncompressed_size,
    )


def _names_values(column: Any) -> bool:
    """Whether there may be a dictionary; old writers do not say where."""
    return column.has_dictionary_page or any("DICTIONARY" in name for name in column.encodings)


def _may_name_values(column: Any) -> bool:
    """Whether all values may be in the dictionary, and much larger than it. Where a writer gave its dictionary up,
    reading values as dictionary would cost more than it is good for."""
    if not _names_values(column) or column.num_values * column.total_uncompressed_size <= BATCH_BYTES:
        return False
    dictionary = 0
    if column.has_dictionary_page and column.dictionary_page_offset:
        dictionary = column.data_page_offset - column.dictionary_page_offset
    return bool(column.total_compressed_size - dictionary <= _INDEX * column.num_values)


class Decoder:
    """An open file, read row group by row group."""

    def __init__(self, source: Any, known: Needs, columns: Sequence[str] | None, **options: Any) -> None:
        self._known = known
        self._columns = columns
        coded = known.coded | {
            chunk.path for chunk in known.unsure if self._is_asked(chunk) and _is_coded(chunk, source)
        }
        self._dense = _look_into(source, [chunk for chunk in known.dense if self._is_asked(chunk)])
        self._open = functools.partial(_open, source, options)
        self._file = self._open(coded)
        self._nested = {path for path in coded if "." in path}
        self._flat = coded - self._nested
        self.groups = self._file.num_row_groups

    def _is_asked(self, chunk: Chunk) -> bool:
        return self._columns is None or any(
            chunk.path == name or chunk.path.startswith(f"{name}.") for name in self._columns
        )

    def batches(self, group: int, kept: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        """The rows of a row group. The columns of `kept` stay dictionaries if they are."""
        rows, done = self._rows(group), 0
        options = {"row_groups": [group], "columns": self._columns, "use_threads": False}
        try:
            for batch in self._file.iter_batches(rows, **options):
                yield from bounded(batch, kept)
                done += batch.num_rows
        except pa.ArrowNotImplementedError:
            # Within lists and structs pyarrow can only read dictionaries that are not given up half-way.
            if not self._nested:
                raise
            self._file, self._nested = self._open(self._flat), set()
            for batch in self._file.iter_batches(rows, **options):
                rest = batch.slice(min(done, batch.num_rows))
                done -= batch.num_rows - rest.num_rows
                yield from bounded(rest, kept)

    def whole(self, rows: int, kept: Collection[str] = ()) -> Iterator[pa.RecordBatch] | None:
        """All rows in one go, if these are few; None: they are not."""
        if self._nested or any(self._rows(group) < rows for group in range(self.groups)):
            return None
        table = self._file.read(self._columns, use_threads=False)
        return (piece for batch in table.to_batches() for piece in bounded(batch, kept))

    def _rows(self, group: int) -> int:
        """How many rows of a row group are decoded at once."""
        each = max(self._known.row_bytes[group], self._dense.get(group, 0.0))
        if self._known.prefixed:
            each += self._sample(group)
        rows = int(BATCH_BYTES / max(1.0, each))
        if not rows and each > ROW_BYTES:
            raise too_large(int(each))
        return max(1, min(BATCH_ROWS, rows))

    def _sample(self, group: int) -> float:
        """Bytes of a row's texts that are stored as what they add to the one before."""
        paths = [path for path in self._known.prefixed if self._columns is None or path.split(".")[0] in self._columns]
        options = {"row_groups": [group], "columns": paths, "use_threads": False}
        batch = next(self._file.iter_batches(_SAMPLE_ROWS, **options), None) if paths else None
        return 0.0 if batch is None or not batch.num_rows else 2 * batch.nbytes / batch.num_rows


def _open(source: Any, options: dict[str, Any], coded: Collection[str]) -> Any:
    source.seek(0)
    return pq.ParquetFile(source, read_dictionary=sorted(coded), **options)


def _is_coded(chunk: Chunk, source: Any) -> bool:
    page = page_headers.first(source, chunk.start)
    return page.kind == page_headers.DICTIONARY and chunk.uncompressed - page.bytes <= _INDEX * chunk.values


def _look_into(source: Any, dense: Sequence[Chunk]) -> dict[int, float]:
    """The most bytes that a row takes in some page, by row group. Raises UnsupportedError where pages are too large."""
    found: dict[int, float] = {}
    open_bytes: dict[int, int] = {}
    for chunk in dense:
        largest, each = 0, 0.0
        for page in page_headers.all_pages(source, chunk.start, chunk.length):
            largest = max(largest, page.bytes)
            if page.kind != page_headers.DICTIONARY:
                each = max(each, page.bytes / max(1, page.values))
        found[chunk.group] = found.get(chunk.group, 0.0) + each
        open_bytes[chunk.group] = open_bytes.get(chunk.group, 0) + largest
    if (most := max(open_bytes.values(), default=0)) > _PAGES_BYTES:
        raise errors.UnsupportedError(
            f"its pages decompress to {byte_size.format_size(most)} at a time, and more than "
            f"{byte_size.format_size(_PAGES_BYTES)} is not taken into memory; write it anew with smaller pages"
        )
    return found


def bounded(batch: pa.RecordBatch, kept: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
    """A batch with its dictionaries decoded, but for some columns, in slices that are small when decoded."""
    coded = [column for column in batch.columns if value_widths.has_dictionary(column.type)]
    if not coded:
        yield batch
        return
    each = value_widths.row_bytes(batch)
    for start, rows in value_widths.cuts(each, batch.num_rows, BATCH_BYTES):
        if rows == 1 and (found := each if isinstance(each, int) else int(each[start])) > ROW_BYTES:
            raise too_large(found)
        piece = batch.slice(start, rows)
        columns = [
            column if name in kept else value_widths.decoded(column)
            for name, column in zip(piece.schema.names, piece.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, names=piece.schema.names)


def too_large(row: int) -> errors.UnsupportedError:
    """One row that is more than there is room for."""
    return errors.UnsupportedError(
        f"it has a row of {byte_size.format_size(row)}, and more than "
        f"{byte_size.format_size(ROW_BYTES + 1)} is not taken into memory"
    )
