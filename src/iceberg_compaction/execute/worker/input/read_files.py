"""Data files as streams of raw Arrow batches with field ids. Footers of all inputs are looked at first, so that what
cannot be rewritten is refused before anything is written; then one file at a time, memory bounded whatever its size."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.input import decoding
from iceberg_compaction.formats.parquet import parquet_footer
from iceberg_compaction.storage import look_ahead, passing_faults

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table.name_mapping import NameMapping

WHOLE_FILE = 16 * 2**20  # bytes; smaller files are read in one go
_BUFFERED_GROUP = 64 * 2**20  # larger row groups are streamed through small buffers
_FILES_AHEAD = 4
_READERS = 8  # threads that wait for storage; decoding stays on one
# What to do about a file of the table that is damaged. Without a delete file deleted rows would come back.
_CURES = {"Data file": "; restore it or drop it from the table.", "Delete file": "; restore it."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What the footer of an input says."""

    path: str
    rows: int
    size: int
    data_bytes: int  # compressed, without the footer
    group_rows: tuple[int, ...]
    group_bytes: tuple[int, ...]  # compressed
    schema: pa.Schema  # the file's own, with field ids; columns that the partition has values of have none (R51)
    dictionaries: frozenset[int]  # field ids of top-level text columns that are stored as dictionaries throughout
    needs: decoding.Needs  # memory
    raw: parquet_footer.RawFooter | None = None  # all that it says, if the file has row groups worth copying


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one file: those of some row groups, or all."""

    footer: Footer
    groups: tuple[int, ...] | None = None

    @property
    def rows(self) -> int:
        counts = self.footer.group_rows
        return self.footer.rows if self.groups is None else sum(counts[group] for group in self.groups)


def read_footers(
    io: FileIO,
    paths: Sequence[str],
    record_counts: Sequence[int],
    mapping: NameMapping | None,
    worth_copying: int | None = None,
    partitioned: Collection[int] = (),
) -> list[Footer]:
    """The footers of all files, each checked against the manifest's record count. `worth_copying`: the bytes from which
    on a row group may be copied; None: none is. `partitioned`: columns whose values come from the partition, so that
    what a file holds of them is as good as not there."""
    tails = look_ahead.in_order(lambda path: _read_tail(io, path), paths, at_once=_READERS)
    return [
        _footer(
            path,
            tail,
            rows,
            lambda schema: arrow_schemas.without_ids(_with_ids(schema, mapping), partitioned),
            worth_copying,
        )
        for path, tail, rows in zip(paths, tails, record_counts, strict=True)
    ]


def _read_tail(io: FileIO, path: str) -> tuple[bytes, int]:
    with translated(path):
        return parquet_footer.read_tail(io, path)


def _footer(
    path: str,
    found: tuple[bytes, int],
    expected: int,
    with_ids: Callable[[pa.Schema], pa.Schema],
    worth_copying: int | None,
) -> Footer:
    tail, size = found
    with translated(path), in_memory():
        file = pq.ParquetFile(pa.BufferReader(tail), arrow_extensions_enabled=False, coerce_int96_timestamp_unit="us")
        metadata, schema = file.metadata, with_ids(file.schema_arrow)
        if metadata.num_rows != expected:
            raise errors.DamagedFileError(f"it has {metadata.num_rows} rows where the manifest says {expected}")
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        group_bytes = tuple(_compressed(group) for group in groups)
        is_worth_it = worth_copying is not None and max(group_bytes, default=0) >= worth_copying
        return Footer(
            path=path,
            rows=metadata.num_rows,
            size=size,
            data_bytes=sum(group_bytes),
            group_rows=tuple(group.num_rows for group in groups),
            group_bytes=group_bytes,
            schema=schema,
            dictionaries=_dictionary_columns(schema, groups),
            needs=decoding.needs(schema, groups),
            raw=parquet_footer.parse(path, tail, size) if is_worth_it else None,
        )


@contextlib.contextmanager
def translated(path: str, kind: str = "Data file", act: str = "rewritten") -> Iterator[None]:
    """Errors of storage and of Parquet as ours, with the file's name. What is surely wrong with a file of the table
    itself is a DamagedFileError; OSError is both what storage and what a decoder raises."""
    damaged = errors.DamagedFileError if kind in _CURES else errors.ExecuteError
    try:
        yield
    except errors.CompactionError as error:
        hurt = isinstance(error, errors.DamagedFileError) and error.path is None
        made = type(error)(f"{kind} {path} cannot be {act}: {error}{_CURES.get(kind, '') if hurt else ''}")
        raise _about(made, error.path or path) from error
    except FileNotFoundError as error:
        raise _about(damaged(f"{kind} {path} is missing{_CURES.get(kind, '.')}"), path) from error
    except PermissionError as error:
        made = errors.ExecuteError(f"{kind} {path} may not be read with the given credentials.")
        raise _about(made, path) from error
    except (OSError, MemoryError) as error:
        raise _about(errors.ExecuteError(f"{kind} {path} is not readable: {_first_line(error)}"), path) from error
    except (pa.ArrowException, ValueError) as error:
        told = f"{kind} {path} is not readable: {_first_line(error)}{_CURES.get(kind, '')}"
        raise _about(damaged(told), path) from error


@contextlib.contextmanager
def in_memory() -> Iterator[None]:
    """What a decoder says of bytes that are here already: they are damaged, storage has no part in it."""
    try:
        yield
    except OSError as error:
        raise ValueError(_first_line(error)) from error


def _about(error: errors.CompactionError, path: str) -> errors.CompactionError:
    error.path = path
    return error


def _first_line(error: Exception) -> str:
    told = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return "".join(letter if letter.isprintable() else "?" for letter in told)  # a decoder quotes what it finds


def _compressed(group: Any) -> int:
    return sum(group.column(index).total_compressed_size for index in range(group.num_columns))


def _with_ids(schema: pa.Schema, mapping: NameMapping | None) -> pa.Schema:
    """The file's schema in plain layouts and with field ids, its own or those of the name mapping (R27, R30)."""
    plain = pa.schema([field.with_type(arrow_schemas.plain(field.type)) for field in schema])
    if arrow_schemas.has_ids(plain):
        return plain
    if mapping is None:
        raise errors.UnsupportedError(
            "it has no field ids and the table has no name mapping; set the table property schema.name-mapping.default"
        )
    return arrow_schemas.with_mapped_ids(plain, mapping.root)


def _dictionary_columns(schema: pa.Schema, groups: list[Any]) -> frozenset[int]:
    """Top-level text columns that are small because of their dictionaries."""
    chosen = set()
    for index, leaf in enumerate(arrow_schemas.leaves(schema)):
        if len(leaf.path) > 1 or not leaf.field_id or not pa.types.is_string(leaf.type):
            continue
        chunks = [group.column(index) for group in groups if group.num_rows]
        if chunks and all(chunk.has_dictionary_page and _bytes_per_value(chunk) <= 4 for chunk in chunks):
            chosen.add(leaf.field_id)
    return frozenset(chosen)


def _bytes_per_value(chunk: Any) -> float:
    return float(chunk.total_uncompressed_size / max(1, chunk.num_values))


def columns_with(footers: Sequence[Footer], wanted: Collection[int]) -> frozenset[int]:
    """Field ids of the top-level columns which are, or hold, one of the wanted fields in one of the files."""
    leaves = [leaf for footer in footers for leaf in arrow_schemas.leaves(footer.schema)]
    return frozenset(leaf.top for leaf in leaves if leaf.top in wanted or leaf.field_id in wanted)


def read_batches(
    io: FileIO, parts: Sequence[Part], dictionaries: frozenset[int], only: frozenset[int] | None = None
) -> Iterator[tuple[Footer, int, pa.RecordBatch]]:
    """All rows of all parts, in order, each batch with the number of its first row in its file. `only` are field ids of
    the top-level columns to read. Small files are fetched a few ahead, so storage is not waited for."""
    with_rows = [part for part in parts if part.rows]
    sources = look_ahead.in_order(
        lambda part: _open(io, part.footer), with_rows, at_once=_FILES_AHEAD, release=lambda source: source.close()
    )
    with contextlib.closing(sources):
        for part, source in zip(with_rows, sources, strict=True):
            footer = part.footer
            here = in_memory() if footer.size <= WHOLE_FILE else contextlib.nullcontext()
            with translated(footer.path), here, contextlib.closing(source):
                for first, batch in _read_part(source, part, dictionaries, only):
                    yield footer, first, batch


def _open(io: FileIO, footer: Footer) -> Any:
    with translated(footer.path):
        return passing_faults.patiently(lambda: _fetch(io, footer))


def _fetch(io: FileIO, footer: Footer) -> Any:
    stream: Any = io.new_input(footer.path).open()
    if footer.size > WHOLE_FILE:
        return stream
    with stream:
        found = stream.read()
    if len(found) != footer.size:
        raise passing_faults.EndedEarly(f"reading ended after {len(found)} of {footer.size} bytes")
    return pa.BufferReader(found)


def _read_part(
    source: Any, part: Part, dictionaries: frozenset[int], only: frozenset[int] | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    footer = part.footer
    schema = _selected(footer.schema, only)
    columns = None if len(schema) == len(footer.schema) else schema.names
    streamed = max(footer.group_bytes, default=0) > _BUFFERED_GROUP
    kept = {field.name for field in footer.schema if arrow_schemas.field_id(field) in dictionaries}
    file = decoding.Decoder(
        source,
        footer.needs,
        columns,
        pre_buffer=not streamed,
        buffer_size=2**20 if streamed else 0,
        coerce_int96_timestamp_unit="us",
        arrow_extensions_enabled=False,
        page_checksum_verification=True,
    )
    starts = [0, *itertools.accumulate(footer.group_rows)]
    whole = file.whole(footer.rows, kept) if part.groups is None else None
    if whole is not None:
        found: Any = [(0, whole)]
    else:
        # Row group by row group, because buffers of a whole file at once would hold the whole file.
        chosen = range(file.groups) if part.groups is None else part.groups
        found = ((starts[group], file.batches(group, kept)) for group in chosen)
    for first, batches in found:
        for batch in batches:
            if batch.num_rows:
                yield first, _plain(batch, schema)
                first += batch.num_rows


def _selected(schema: pa.Schema, only: frozenset[int] | None) -> pa.Schema:
    if only is None or any("." in name for name in schema.names):  # a dot means a path to pyarrow
        return schema
    return pa.schema([field for field in schema if arrow_schemas.field_id(field) in only]) or schema


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch under the schema that knows its field ids; view layouts become plain ones, dictionaries stay."""
    columns, fields = [], []
    for column, field in zip(batch.columns, schema, strict=True):
        if pa.types.is_dictionary(column.type):
            value = arrow_schemas.plain(column.type.value_type)
            kind = pa.dictionary(column.type.index_type, value)
        else:
            kind = field.type
        columns.append(column if column.type == kind else column.cast(kind))
        fields.append(field.with_type(kind))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
