"""Delete files as Arrow batches. A delete file of any format and the wanted fields come in; batches with one column per
field, named by its id, go out, with nested fields flattened. Small files are read once per process and kept; large ones
are streamed, so that their size does not matter."""

from __future__ import annotations

import contextlib
import io as python_io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas, budgets
from iceberg_compaction.execute.worker.deletes import delete_cache
from iceberg_compaction.execute.worker.input import decoding, read_files, row_needs, stored_columns
from iceberg_compaction.formats.avro import avro_decode, container
from iceberg_compaction.storage import passing_faults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.io import FileIO

    from iceberg_compaction.model import rewrite_task

PATH_ID, POSITION_ID = 2147483546, 2147483545  # Iceberg's reserved field ids of position delete files
_ORC_ID = b"iceberg.id"
_BATCH_BYTES = 8 * 2**20
_ROW_GUESS = 16  # bytes that a row takes at least, for the choice between keeping and streaming


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteReader:
    """Reads delete files: the few that travelled with the run from memory, others from storage."""

    io: FileIO
    contents: Mapping[str, bytes]
    budgets: budgets.Budgets = budgets.DEFAULT
    cache: delete_cache.DeleteCache = delete_cache.PROCESS

    def batches(self, file: rewrite_task.DeleteFile, wanted: Mapping[int, str]) -> Iterator[pa.RecordBatch]:
        """The wanted fields of all records. `wanted` names the fields by id; names count in files without ids only."""
        if file.record_count * _ROW_GUESS + 2 * file.file_size_in_bytes > self.cache.budget:
            yield from self._stream(file, wanted)
        else:
            key = (file.file_path, file.file_size_in_bytes)
            yield from self.cache.get(key, lambda: self._stream(file, wanted))

    def _stream(self, file: rewrite_task.DeleteFile, wanted: Mapping[int, str]) -> Iterator[pa.RecordBatch]:
        readers = {"PARQUET": self._read_parquet, "AVRO": _read_avro, "ORC": _read_orc}
        with read_files.translated(file.file_path, "Delete file", "applied"):
            if (reader := readers.get(file.file_format.upper())) is None:
                raise errors.UnsupportedError(f"deletes in {file.file_format} cannot be read yet")
            rows = 0
            with self._open(file) as stream:
                for batch in reader(stream, wanted):
                    rows += batch.num_rows
                    yield batch
            if rows != file.record_count:
                raise errors.DamagedFileError(f"it has {rows} records where the manifest says {file.record_count}")

    @contextlib.contextmanager
    def _open(self, file: rewrite_task.DeleteFile) -> Iterator[Any]:
        if (content := self.contents.get(file.file_path)) is not None:
            with read_files.in_memory():
                yield python_io.BytesIO(content)
            return
        if file.file_size_in_bytes <= self.budgets.whole_file_bytes:
            content = passing_faults.patiently(lambda: self._read(file))
            with read_files.in_memory():
                yield python_io.BytesIO(content)
            return
        with passing_faults.patiently(self.io.new_input(file.file_path).open) as stream:
            yield stream

    def _read(self, file: rewrite_task.DeleteFile) -> bytes:
        with self.io.new_input(file.file_path).open() as stream:
            return bytes(stream.read())

    def _read_parquet(self, stream: Any, wanted: Mapping[int, str]) -> Iterator[pa.RecordBatch]:
        options = {"arrow_extensions_enabled": False, "coerce_int96_timestamp_unit": "us", "buffer_size": 2**20}
        file = pq.ParquetFile(stream, **options)
        schema = file.schema_arrow
        paths = _paths(schema, wanted)
        names = list(dict.fromkeys(schema.field(path[0]).name for path in paths.values()))
        # Paths stay dictionaries: millions of records name a few files.
        kept = [schema.field(paths[PATH_ID][0]).name] if PATH_ID in paths else []
        needs = row_needs.needs(arrow_schemas.leaves(schema), stored_columns.of_file(file.metadata), self.budgets)
        needs = replace(needs, coded=needs.coded | set(kept))
        decoder = decoding.Decoder(stream, needs, names, self.budgets, **options)
        for group in range(decoder.groups):
            for batch in decoder.batches(group, kept):
                yield _columns(batch, _moved(paths, schema, batch.schema))


def leaf(batch: pa.RecordBatch, path: tuple[int, ...]) -> pa.Array:
    """A field of a batch; it is null where one of its parents is."""
    column = batch.column(path[0])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


def _read_avro(stream: Any, wanted: Mapping[int, str]) -> Iterator[pa.RecordBatch]:
    parsed = container.parse(stream.read())
    names: dict[int, tuple[str, ...]] = {}
    _add_avro_names(parsed.schema, (), names)
    if not names:
        names = {key: tuple(name.split(".")) for key, name in wanted.items()}
    _check_fields(names, wanted)
    sizes = (parsed.ends - parsed.starts).cumsum() // _BATCH_BYTES
    for part in dict.fromkeys(sizes.tolist()):
        table = avro_decode.read(
            container.only(parsed, sizes == part), {names[key][0]: (names[key][0],) for key in wanted}
        ).combine_chunks()
        for batch in table.to_batches():
            yield _columns(batch, {key: _path_of(batch.schema, names[key]) for key in wanted})


def _add_avro_names(schema: dict[str, Any], path: tuple[str, ...], names: dict[int, tuple[str, ...]]) -> None:
    """Adds the fields of a record and of records below it to `names`, by field id."""
    for field in schema["fields"]:
        below = (*path, field["name"])
        if "field-id" in field:
            names[int(field["field-id"])] = below
        kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
        for kind in kinds:
            if isinstance(kind, dict) and kind.get("type") == "record":
                _add_avro_names(kind, below, names)


def _read_orc(stream: Any, wanted: Mapping[int, str]) -> Iterator[pa.RecordBatch]:
    from pyarrow import orc

    file = orc.ORCFile(stream)
    schema = pa.schema([_with_orc_ids(field) for field in file.schema])
    paths = _paths(schema, wanted)
    names = list(dict.fromkeys(schema.field(path[0]).name for path in paths.values()))
    for stripe in range(file.nstripes):
        batch = file.read_stripe(stripe, columns=names)
        yield _columns(batch, _moved(paths, schema, batch.schema))


def _moved(paths: Mapping[int, tuple[int, ...]], schema: pa.Schema, read: pa.Schema) -> dict[int, tuple[int, ...]]:
    """The paths of a file's schema in the schema of the columns that were read of it."""
    return {key: (read.get_field_index(schema.field(path[0]).name), *path[1:]) for key, path in paths.items()}


def _with_orc_ids(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_with_orc_ids(below) for below in arrow_schemas.children(kind)])
    text = (field.metadata or {}).get(_ORC_ID)
    return pa.field(field.name, kind, field.nullable, metadata=None if text is None else {arrow_schemas.FIELD_ID: text})


def _paths(schema: pa.Schema, wanted: Mapping[int, str]) -> dict[int, tuple[int, ...]]:
    """The paths to the wanted fields, which are matched by id; by name if the file has no ids at all."""
    if arrow_schemas.has_ids(schema):
        paths = {part.field_id: part.path for part in arrow_schemas.leaves(schema) if not part.repeated}
        _check_fields(paths, wanted)
        return {key: paths[key] for key in wanted}
    return {key: _path_of(schema, tuple(name.split("."))) for key, name in wanted.items()}


def _check_fields(fields: Mapping[int, Any], wanted: Mapping[int, str]) -> None:
    if missing := [f"{name} (field id {key})" for key, name in wanted.items() if key not in fields]:
        raise errors.DamagedFileError(f"it lacks {', '.join(missing)}, which its deletes compare")


def _path_of(schema: pa.Schema, names: tuple[str, ...]) -> tuple[int, ...]:
    path: list[int] = []
    parent: Any = schema
    for name in names:
        position = parent.get_field_index(name) if path == [] or pa.types.is_struct(parent) else -1
        if position < 0:
            raise errors.DamagedFileError(f"it lacks {'.'.join(names)}, which its deletes compare")
        path.append(position)
        parent = parent.field(position).type
    return tuple(path)


def _columns(batch: pa.RecordBatch, paths: Mapping[int, tuple[int, ...]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([leaf(batch, path) for path in paths.values()], [str(key) for key in paths])
