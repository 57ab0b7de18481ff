"""Data files as streams of raw Arrow batches with field ids. The footers of all inputs are read first, so that a file
that cannot be rewritten is refused before anything is written; then one file at a time, in bounded memory."""

from __future__ import annotations

import contextlib
import functools
import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.input import (
    decoding,
    file_bundles,
    file_schemas,
    row_needs,
    stored_columns,
    stretches,
)
from iceberg_compaction.formats.parquet import merged_file, parquet_footer
from iceberg_compaction.storage import look_ahead, passing_faults, task_cores
from iceberg_compaction.storage.s3 import cold_objects, object_files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table.name_mapping import NameMapping

    from iceberg_compaction.execute.worker import budgets

_TINY_CHUNK = 4096  # bytes of a column of a row group; the pages of smaller ones are encoded into larger pages
_MANY_ROWS = 10_000  # that make a row group worth a look nevertheless
_READERS = 8  # threads that wait for storage; decoding stays on one
_OPTIONS = {
    "coerce_int96_timestamp_unit": "us",
    "arrow_extensions_enabled": False,
    "page_checksum_verification": True,
}
# The remedy for a damaged file of the table. Without a delete file deleted rows would come back.
_CURES = {"Data file": "; restore it or drop it from the table.", "Delete file": "; restore it."}

_COLD = "is in an archive tier of its store, where it cannot be read; restore it there, or leave it as it is."


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFacts:
    """A data file as its manifest describes it."""

    path: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The footer of an input."""

    path: str
    rows: int
    size: int
    data_bytes: int  # compressed, without the footer
    group_rows: tuple[int, ...]
    group_bytes: tuple[int, ...]  # compressed
    schema: pa.Schema  # the file's own, with field ids; columns that the partition has values of have none (R51)
    dictionaries: frozenset[int]  # field ids of top-level text columns that are stored as dictionaries throughout
    needs: row_needs.Needs  # memory
    leaves: int  # columns of the file
    raw: parquet_footer.RawFooter | None = None  # all of it, if row groups may be copied or joined
    stored: merged_file.StoredFile | None = None  # of a tiny file that may be decoded together with others

    @property
    def decoded_bytes(self) -> int:
        """The memory of all rows, texts that stay dictionaries excepted."""
        return int(sum(rows * each for rows, each in zip(self.group_rows, self.needs.row_bytes, strict=True)))


@dataclass(frozen=True, slots=True)
class FilePart:
    """Rows of one file: those of the named row groups, or all."""

    footer: Footer
    groups: tuple[int, ...] | None = None

    @property
    def rows(self) -> int:
        counts = self.footer.group_rows
        return self.footer.rows if self.groups is None else sum(counts[group] for group in self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileReader:
    """Reads data files from storage within the budgets."""

    io: FileIO
    budgets: budgets.Budgets
    cores: task_cores.TaskCores = field(default_factory=task_cores.TaskCores)

    def footers(
        self,
        files: Sequence[InputFacts],
        mapping: NameMapping | None = None,
        partitioned: Collection[int] = (),
        *,
        worth_copying: int | None = None,
    ) -> list[Footer]:
        """The footers of all files, each checked against the manifest's record count. `partitioned`: columns whose
        values come from the partition, so that a file's own values of them are ignored. `worth_copying`: bytes
        from which on a row group is copied; None: nothing moves as bytes."""
        whole = self._whole(files)
        bundles = file_bundles.even(files, _READERS)
        read = look_ahead.in_order(
            lambda bundle: [_read_tail(self.io, file.path, whole=file.path in whole) for file in bundle],
            bundles,
            at_once=_READERS,
        )
        tails = itertools.chain.from_iterable(read)
        footers: list[Footer] = []
        schemas, arrow = parquet_footer.Schemas(), file_schemas.FileSchemas(mapping, partitioned)
        forms = merged_file.FileForms()
        for facts, (tail, size) in zip(files, tails, strict=True):
            path = facts.path
            with translated(path), in_memory():
                file = pq.ParquetFile(
                    pa.BufferReader(tail), arrow_extensions_enabled=False, coerce_int96_timestamp_unit="us"
                )
                if file.metadata.num_rows != facts.rows:
                    raise errors.DamagedFileError(
                        f"it has {file.metadata.num_rows} rows where the manifest says {facts.rows}"
                    )
                schema, groups = arrow.of(file.schema_arrow), stored_columns.of_file(file.metadata)
                footer = _footer(facts, size, groups, schema, self.budgets)
                if file_bundles.is_tiny(footer):
                    footer = replace(footer, stored=forms.stored(tail, size, file.metadata.created_by, groups, schema))
                if worth_copying is not None and _may_move(footer, file.metadata.num_columns, worth_copying):
                    footer = replace(footer, raw=parquet_footer.parse(path, tail, size, schemas))
                footers.append(footer)
        return footers

    def batches(
        self, parts: Sequence[FilePart], dictionaries: frozenset[int], only: frozenset[int] | None = None
    ) -> Iterator[tuple[Footer, int, pa.RecordBatch]]:
        """All rows of all parts, in order, each batch with the number of its first row in its file. `only` are field
        ids of the top-level columns to read."""
        for stretch in self.rows_of(parts, dictionaries, only):
            for span, batch in stretch.by_file():
                yield span.footer, span.first, batch

    def rows_of(
        self, parts: Sequence[FilePart], dictionaries: frozenset[int], only: frozenset[int] | None = None
    ) -> Iterator[stretches.Stretch]:
        """The same rows in batches of one or more files. Small files are fetched a few ahead, so storage is not waited
        for; tiny ones are decoded together, or side by side."""
        bundles = file_bundles.small([part for part in parts if part.rows], self.budgets.files_ahead)
        opened = look_ahead.in_order(
            lambda bundle: [self._open(part.footer) for part in bundle],
            bundles,
            at_once=self.budgets.files_ahead,
            release=_close_all,
        )
        chosen_columns = file_schemas.ReadColumnsBySchema(dictionaries, only)
        with contextlib.closing(opened):
            for bundle, streams in zip(bundles, opened, strict=True):
                with contextlib.ExitStack() as closed:
                    closed.callback(_close_all, streams)
                    yield from self._rows(bundle, streams, chosen_columns)

    def _rows(
        self, bundle: Sequence[FilePart], streams: Sequence[Any], chosen_columns: file_schemas.ReadColumnsBySchema
    ) -> Iterator[stretches.Stretch]:
        done = 0
        if stretches.can_be_merged(bundle):
            contents = [stream.read_buffer() for stream in streams]
            selection = chosen_columns.of(bundle[0].footer.schema)
            merged = stretches.decode(bundle, contents, selection, self.budgets, _OPTIONS)
            try:
                for stretch in stretches.placed(bundle, (_plain(batch, selection.schema) for batch in merged)):
                    yield stretch
                    done += stretch.batch.num_rows
            except (errors.CompactionError, pa.ArrowException, OSError, ValueError):
                pass  # file by file the rest can be decoded after all, or it is known which file cannot
            else:
                return
        for stretch in self._file_by_file(bundle, streams, chosen_columns):
            skipped = min(done, stretch.batch.num_rows)
            done -= skipped
            if rest := stretch.without(skipped):
                yield rest

    def _file_by_file(
        self, bundle: Sequence[FilePart], streams: Sequence[Any], chosen_columns: file_schemas.ReadColumnsBySchema
    ) -> Iterator[stretches.Stretch]:
        chosen = [chosen_columns.of(part.footer.schema) for part in bundle]
        begin = functools.partial(self._begin, file_bundles.DecodedRows())
        begun = self.cores.map(begin, list(zip(streams, bundle, chosen, strict=True)))
        for part, batches in zip(bundle, begun, strict=True):
            with self._translated(part.footer):
                for first, batch in batches:
                    yield stretches.Stretch(batch, (stretches.RowSpan(part.footer, first, batch.num_rows),))

    def _begin(
        self, waiting: file_bundles.DecodedRows, opened: tuple[Any, FilePart, file_schemas.ReadColumns]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        if waiting.are_many:
            return _in_its_turn(lambda: _read_part(*opened, self.budgets, waiting))
        with self._translated(opened[1].footer):
            return _read_part(*opened, self.budgets, waiting)

    @contextlib.contextmanager
    def _translated(self, footer: Footer) -> Iterator[None]:
        is_in_memory = footer.size <= self.budgets.whole_file_bytes
        with translated(footer.path), in_memory() if is_in_memory else contextlib.nullcontext():
            yield

    def _whole(self, files: Sequence[InputFacts]) -> set[str]:
        """Paths of small files in object stores that are read in one request and kept until their rows are wanted."""
        room = object_files.room(self.io, files[0].path) if files else 0
        chosen = set()
        for file in files:
            if file.size <= min(room, self.budgets.whole_file_bytes):
                chosen.add(file.path)
                room -= file.size
        return chosen

    def _open(self, footer: Footer) -> Any:
        with translated(footer.path):
            return passing_faults.patiently(lambda: self._fetch(footer))

    def _fetch(self, footer: Footer) -> Any:
        stream: Any = self.io.new_input(footer.path).open()
        if footer.size > self.budgets.whole_file_bytes:
            return stream
        with stream:
            content = stream.read()
        if len(content) != footer.size:
            raise passing_faults.EndedEarly(f"reading ended after {len(content)} of {footer.size} bytes")
        return pa.BufferReader(content)


def _read_tail(io: FileIO, path: str, *, whole: bool) -> tuple[bytes, int]:
    with translated(path):
        return parquet_footer.read_tail(io, path, whole=whole)


def _footer(
    facts: InputFacts,
    size: int,
    groups: Sequence[stored_columns.StoredRowGroup],
    stored: file_schemas.FileSchema,
    limits: budgets.Budgets,
) -> Footer:
    group_bytes = tuple(group.compressed for group in groups)
    return Footer(
        path=facts.path,
        rows=facts.rows,
        size=size,
        data_bytes=sum(group_bytes),
        group_rows=tuple(group.rows for group in groups),
        group_bytes=group_bytes,
        schema=stored.schema,
        dictionaries=_dictionary_columns(stored.leaves, groups),
        needs=row_needs.needs(stored.leaves, groups, limits),
        leaves=len(stored.leaves),
    )


@contextlib.contextmanager
def translated(path: str, kind: str = "Data file", act: str = "rewritten") -> Iterator[None]:
    """Translates errors of storage and of Parquet into ours, with the file's name. If a file of the table itself is
    surely wrong, that is a DamagedFileError; an OSError may come from storage or from a decoder."""
    damaged = errors.DamagedFileError if kind in _CURES else errors.ExecuteError
    try:
        yield
    except errors.CompactionError as error:
        is_damaged = isinstance(error, errors.DamagedFileError) and error.path is None
        named = type(error)(f"{kind} {path} cannot be {act}: {error}{_CURES.get(kind, '') if is_damaged else ''}")
        raise _about(named, error.path or path) from error
    except FileNotFoundError as error:
        raise _about(damaged(f"{kind} {path} is missing{_CURES.get(kind, '.')}"), path) from error
    except PermissionError as error:
        named = errors.ExecuteError(f"{kind} {path} may not be read with the given credentials.")
        raise _about(named, path) from error
    except (OSError, MemoryError) as error:
        if cold_objects.refuses(error):
            named = errors.UnsupportedError(f"{kind} {path} {_COLD}")
            raise _about(named, path) from error
        raise _about(errors.ExecuteError(f"{kind} {path} is not readable: {_first_line(error)}"), path) from error
    except (pa.ArrowException, ValueError) as error:
        sentence = f"{kind} {path} is not readable: {_first_line(error)}{_CURES.get(kind, '')}"
        raise _about(damaged(sentence), path) from error


@contextlib.contextmanager
def in_memory() -> Iterator[None]:
    """Around the decoding of bytes in memory: an OSError means that they are damaged; storage has no part in it."""
    try:
        yield
    except OSError as error:
        raise ValueError(_first_line(error)) from error


def _about(error: errors.CompactionError, path: str) -> errors.CompactionError:
    error.path = path
    return error


def _first_line(error: Exception) -> str:
    line = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return "".join(letter if letter.isprintable() else "?" for letter in line)  # a decoder quotes raw bytes


def _may_move(footer: Footer, columns: int, worth_copying: int) -> bool:
    """Whether a row group may be large enough to move as bytes. Footers are parsed in full only then."""
    least = min(worth_copying, _TINY_CHUNK * columns)
    return any(
        size >= least or rows >= _MANY_ROWS for size, rows in zip(footer.group_bytes, footer.group_rows, strict=True)
    )


def _dictionary_columns(
    leaves: Sequence[arrow_schemas.ArrowLeaf], groups: Sequence[stored_columns.StoredRowGroup]
) -> frozenset[int]:
    """Top-level text columns that are small because of their dictionaries."""
    chosen = set()
    for index, leaf in enumerate(leaves):
        if len(leaf.path) > 1 or not leaf.field_id or not pa.types.is_string(leaf.type):
            continue
        chunks = [group.columns[index] for group in groups if group.rows]
        if chunks and all(chunk.has_dictionary and _bytes_per_value(chunk) <= 4 for chunk in chunks):
            chosen.add(leaf.field_id)
    return frozenset(chosen)


def _bytes_per_value(chunk: stored_columns.StoredColumn) -> float:
    return chunk.uncompressed / max(1, chunk.values)


def columns_with(footers: Sequence[Footer], wanted: Collection[int]) -> frozenset[int]:
    """Field ids of the top-level columns which are, or hold, one of the wanted fields in one of the files."""
    schemas = {id(footer.schema): footer.schema for footer in footers}
    leaves = [leaf for schema in schemas.values() for leaf in arrow_schemas.leaves(schema)]
    return frozenset(leaf.top for leaf in leaves if leaf.top in wanted or leaf.field_id in wanted)


def _read_part(
    stream: Any,
    part: FilePart,
    selection: file_schemas.ReadColumns,
    limits: budgets.Budgets,
    waiting: file_bundles.DecodedRows,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches of a part, each with the number of its first row. A small file is decoded before this returns, and
    counts as `waiting`."""
    footer = part.footer
    is_streamed = max(footer.group_bytes, default=0) > limits.buffered_row_group_bytes
    file = decoding.Decoder(
        stream,
        footer.needs,
        selection.columns,
        limits,
        pre_buffer=not is_streamed,
        buffer_size=limits.stream_bytes if is_streamed else 0,
        **_OPTIONS,
    )
    whole = file.whole(footer.rows) if part.groups is None else None
    if whole is not None:
        waiting.add(whole.nbytes)
        pieces = (each for batch in whole.to_batches() for each in decoding.bounded(batch, selection.kept, limits))
        return _numbered([(0, pieces)], selection.schema)
    # Row group by row group, because buffers of a whole file at once would hold the whole file.
    starts = [0, *itertools.accumulate(footer.group_rows)]
    chosen = range(file.groups) if part.groups is None else part.groups
    return _numbered(((starts[group], file.batches(group, selection.kept)) for group in chosen), selection.schema)


def _in_its_turn(
    read: Callable[[], Iterator[tuple[int, pa.RecordBatch]]],
) -> Iterator[tuple[int, pa.RecordBatch]]:
    yield from read()


def _numbered(
    streams: Iterable[tuple[int, Iterator[pa.RecordBatch]]], schema: pa.Schema
) -> Iterator[tuple[int, pa.RecordBatch]]:
    for first, batches in streams:
        for batch in batches:
            if batch.num_rows:
                yield first, _plain(batch, schema)
                first += batch.num_rows


def _close_all(streams: Sequence[Any]) -> None:
    for stream in streams:
        stream.close()


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch under the schema that has its field ids; view layouts become plain ones, dictionaries stay."""
    columns, fields = [], []
    for column, wanted in zip(batch.columns, schema, strict=True):
        if pa.types.is_dictionary(column.type):
            value = arrow_schemas.plain(column.type.value_type)
            kind = pa.dictionary(column.type.index_type, value)
        else:
            kind = wanted.type
        columns.append(column if column.type == kind else column.cast(kind))
        fields.append(wanted.with_type(kind))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
