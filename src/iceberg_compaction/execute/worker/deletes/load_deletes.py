"""Delete files as Arrow batches. A delete file and the fields that are wanted of it come in; batches with one column
per field, named by its id, go out: nested fields flattened, whatever format the file has. Small files are read once per
process and kept; large ones are streamed, so that their size does not matter."""

from __future__ import annotations

import contextlib
import io as python_io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.deletes import delete_cache
from iceberg_compaction.execute.worker.input import decoding, read_files
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
class Source:
    """Where delete files are read from: the few that travelled with the run, else storage."""

    io: FileIO
    contents: Mapping[str, bytes]
    kept: delete_cache.Cache = delete_cache.PROCESS

    def batches(self, file: rewrite_task.DeleteFile, wanted: Mapping[int, str]) -> Iterator[pa.RecordBatch]:
        """The wanted fields of all records. `wanted` names the fields by id; names count in files without ids only."""
        if file.record_count * _ROW_GUESS + 2 * file.file_size_in_bytes > self.kept.budget:
            yield from self._stream(file, wanted)
        else:
            key = (file.file_path, file.file_size_in_bytes)
            yield from self.kept.get(key, lambda: self._stream(file, wanted))

    def _stream(self, file: rewrite_task.DeleteFile, wanted: Mapping[int, str]) -> Iterator[pa.RecordBatch]:
        readers = {"PARQUET": _parquet, "AVRO": _avro, "ORC": _orc}
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
        if file.file_size_in_bytes <= read_files.WHOLE_FILE:
            content = passing_faults.patiently(lambda: self._read(file))
            with read_files.in_memory():
                yield python_io.BytesIO(content)
            return
        with passing_faults.patiently(self.io.new_input(file.file_path).open) as stream:
            yield stream

    def _read(self, file: rewrite_task.DeleteFile) -> bytes:
        with self.io.new_input(file.file_path).open() as stream:
            return bytes(stream.read())


def leaf(batch: pa.RecordBatch, path: tuple[int, ...]) -> pa.Array:
    """A field of a batch; it is null where one of its parents is."""
    column = batch.column(path[0])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


def _parquet(stream: Any, wanted: Mapping[int, str]) -> Iterator[pa.RecordBatch]:
    options = {"arrow_extensions_enabled": False, "coerce_int96_timestamp_unit": "us", "buffer_size": 2**20}
    known = pq.ParquetFile(stream, **options)
    schema, metadata = known.schema_arrow, known.metadata
    places = _places(schema, wanted)
    names = list(dict.fromkeys(schema.field(path[0]).name for path in places.values()))
    # Paths stay dictionaries: millions of records name a few files.
    kept = [schema.field(places[PATH_ID][0]).name] if PATH_ID in places else []
    needs = decoding.needs(schema, [metadata.row_group(group) for group in range(metadata.num_row_groups)])
    file = decoding.Decoder(stream, replace(needs, coded=needs.coded | set(kept)), names, **options)
    for group in range(file.groups):
        for batch in file.batches(group, kept):
            moved = {
                key: (batch.schema.get_field_index(schema.field(at[0]).name), *at[1:]) for key, at in places.items()
            }
            yield _columns(batch, moved)


def _avro(stream: Any, wanted: Mapping[int, str]) -> Iterator[pa.RecordBatch]:
    parsed = container.parse(stream.read())
    found: dict[int, tuple[str, ...]] = {}
    _avro_fields(parsed.schema, (), found)
    if not found:
        found = {key: tuple(name.split(".")) for key, name in wanted.items()}
    _check_fields(found, wanted)
    sizes = (parsed.ends - parsed.starts).cumsum() // _BATCH_BYTES
    for part in dict.fromkeys(sizes.tolist()):
        table = avro_decode.read(
            container.only(parsed, sizes == part), {found[key][0]: (found[key][0],) for key in wanted}
        ).combine_chunks()
        for batch in table.to_batches():
            places = {key: _path_of(batch.schema, found[key]) for key in wanted}
            yield _columns(batch, places)


def _avro_fields(schema: dict[str, Any], path: tuple[str, ...], found: dict[int, tuple[str, ...]]) -> None:
    for field in schema["fields"]:
        below = (*path, field["name"])
        if "field-id" in field:
            found[int(field["field-id"])] = below
        kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
        for kind in kinds:
            if isinstance(kind, dict) and kind.get("type") == "record":
                _avro_fields(kind, below, found)


def _orc(stream: Any, wanted: Mapping[int, str]) -> Iterator[pa.RecordBatch]:
    from pyarrow import orc

    file = orc.ORCFile(stream)
    schema = pa.schema([_with_orc_ids(field) for field in file.schema])
    places = _places(schema, wanted)
    names = list(dict.fromkeys(schema.field(path[0]).name for path in places.values()))
    for stripe in range(file.nstripes):
        batch = file.read_stripe(stripe, columns=names)
        moved = {key: (batch.schema.get_field_index(schema.field(at[0]).name), *at[1:]) for key, at in places.items()}
        yield _columns(batch, moved)


def _with_orc_ids(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_with_orc_ids(below) for below in arrow_schemas.children(kind)])
    text = (field.metadata or {}).get(_ORC_ID)
    return pa.field(field.name, kind, field.nullable, metadata=None if text is None else {arrow_schemas.FIELD_ID: text})


def _places(schema: pa.Schema, wanted: Mapping[int, str]) -> dict[int, tuple[int, ...]]:
    """Where the wanted fields are, by id; by name if the file has no ids at all."""
    if arrow_schemas.has_ids(schema):
        found = {part.field_id: part.path for part in arrow_schemas.leaves(schema) if not part.repeated}
        _check_fields(found, wanted)
        return {key: found[key] for key in wanted}
    return {key: _path_of(schema, tuple(name.split("."))) for key, name in wanted.items()}


def _check_fields(found: Mapping[int, Any], wanted: Mapping[int, str]) -> None:
    if missing := [f"{name} (field id {key})" for key, name in wanted.items() if key not in found]:
        raise errors.DamagedFileError(f"it lacks {', '.join(missing)}, which its deletes are about")


def _path_of(schema: pa.Schema, names: tuple[str, ...]) -> tuple[int, ...]:
    path: list[int] = []
    parent: Any = schema
    for name in names:
        place = parent.get_field_index(name) if path == [] or pa.types.is_struct(parent) else -1
        if place < 0:
            raise errors.DamagedFileError(f"it lacks {'.'.join(names)}, which its deletes are about")
        path.append(place)
        parent = parent.field(place).type
    return tuple(path)


def _columns(batch: pa.RecordBatch, places: Mapping[int, tuple[int, ...]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([leaf(batch, path) for path in places.values()], [str(key) for key in places])
