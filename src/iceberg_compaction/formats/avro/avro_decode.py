"""Decodes Avro container bytes into Arrow columns, through DataFusion: no Python per record, and the GIL is released,
so manifests can be read in threads."""

from __future__ import annotations

import contextlib
import json
import queue
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_maps, container

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Path = Sequence[str | int]  # names of fields; a number at the end is a key of a map
    Select = Mapping[str, tuple[str | int, ...]]
    Keys = Mapping[tuple[str | int, ...], Sequence[int]]  # of maps, by the paths of these

# DataFusion never ends where the records of a block end before the block does. A manifest takes a fraction of a second.
PATIENCE_S = 120.0
_MANY = 1000  # records: for fewer it does not pay to learn the keys of their maps first


class Scratch:
    """A file to decode from, as DataFusion reads paths only. One file used again costs half as much as new files, and
    the keys of one file's maps are tried with the next file."""

    def __init__(self) -> None:
        self.keys: Keys = {}
        self._file = tempfile.NamedTemporaryFile(suffix=".avro")  # noqa: SIM115 - closed by `close`

    def write(self, parts: Iterable[bytes | memoryview]) -> str:
        """Hold just these bytes; the path."""
        self._file.seek(0)
        self._file.writelines(parts)
        self._file.truncate()
        self._file.flush()
        return self._file.name

    def close(self) -> None:
        self._file.close()


def read_table(
    data: bytes,
    select: Mapping[str, Path] | None = None,
    *,
    where: str = "Avro file",
    scratch: Scratch | None = None,
) -> pa.Table:
    """All records as a table. `select` maps output columns to field paths, such as
    {"file_path": ("data_file", "file_path")}, and makes reading cheaper; a path that the file does not have gives no
    column. ("data_file", "lower_bounds", 7) is the value of key 7 of a map, null where the map has none. Records
    without fields, as the partition of an unpartitioned table, give no column either. A caller that decodes many
    files passes a `scratch`, which no other thread uses meanwhile."""
    return read(container.parse(data, where=where), select, where=where, scratch=scratch)


def read(
    parsed: container.Container,
    select: Mapping[str, Path] | None = None,
    *,
    where: str = "Avro file",
    scratch: Scratch | None = None,
) -> pa.Table:
    """As `read_table`, for a file that is already parsed."""
    wanted = None if select is None else {name: tuple(path) for name, path in select.items()}
    try:
        with contextlib.closing(Scratch()) if scratch is None else contextlib.nullcontext(scratch) as file:
            table = _within(PATIENCE_S, lambda: _read(parsed, wanted, file))
    except TimeoutError as error:
        raise errors.MetadataError(f"{where} is damaged: decoding it has no end.") from error
    except Exception as error:
        raise errors.MetadataError(f"{where} could not be decoded as Avro: {_first_line(error)}.") from error
    # DataFusion reads a file that it cannot see as a file without rows.
    if table.num_rows != parsed.rows:
        raise errors.MetadataError(f"{where} holds {parsed.rows} records, but {table.num_rows} were decoded.")
    return table


def _within(seconds: float, work: Callable[[], pa.Table]) -> pa.Table:
    """The result of the work. Work that takes longer is left behind in a thread, and TimeoutError is raised."""
    answer: queue.SimpleQueue[pa.Table | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            answer.put(work())
        except BaseException as error:  # noqa: BLE001 - raised again by the one who waits
            answer.put(error)

    threading.Thread(target=run, name="avro", daemon=True).start()
    try:
        result = answer.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(result, BaseException):
        raise result
    return result


def _read(parsed: container.Container, wanted: Select | None, scratch: Scratch) -> pa.Table:
    picks = {name: path for name, path in (wanted or {}).items() if isinstance(path[-1], int)}
    if wanted is None or not picks:
        return _query(parsed, wanted, scratch)
    table = None
    if parsed.rows >= _MANY:
        paths = {path[:-1] for path in picks.values()}
        if paths <= scratch.keys.keys():
            table = _read_regular(parsed, wanted, picks, scratch)
        if table is None and (keys := _first_keys(parsed, paths, scratch)) != scratch.keys:
            scratch.keys = keys
            table = _read_regular(parsed, wanted, picks, scratch)
    return _read_picks(parsed, wanted, picks, {}, scratch) if table is None else table


def _read_regular(parsed: container.Container, wanted: Select, picks: Select, scratch: Scratch) -> pa.Table | None:
    """Values are read as fields, where maps have the keys that the scratch holds. None: no wanted key is among them, or
    a map has other keys."""
    wanted_keys = {path: {pick[-1] for pick in picks.values() if pick[:-1] == path} for path in scratch.keys}
    keys = {
        path: map_keys
        for path, map_keys in scratch.keys.items()
        if wanted_keys[path] and wanted_keys[path] <= set(map_keys)
    }
    if not keys:
        return None
    try:
        return _read_picks(parsed, wanted, picks, keys, scratch)
    except Exception:  # noqa: BLE001 - if the file is damaged, the plain read raises
        return None


def _read_picks(parsed: container.Container, wanted: Select, picks: Select, keys: Keys, scratch: Scratch) -> pa.Table:
    """Values of maps whose keys are given come from fields, others are picked from maps as they are. Fails if a map has
    other keys than those given."""
    own = {f"key {number}": (*path, "key") for number, path in enumerate(picks.values()) if path[:-1] in keys}
    whole = {path[:-1]: f"map {number}" for number, path in enumerate(picks.values()) if path[:-1] not in keys}
    plain = {name: path for name, path in wanted.items() if name not in picks or path[:-1] in keys}
    table = _query(parsed, plain | own | {name: path for path, name in whole.items()}, scratch, keys)
    if any((table[name].to_numpy() != path[-2]).any() for name, path in own.items()):
        raise ValueError("the keys of a map are in another order")
    for name, (*path, key) in picks.items():
        if (column := whole.get(tuple(path))) in table.column_names:
            table = table.append_column(name, avro_maps.pick(table[column], int(key)))
    return table.select([name for name in wanted if name in table.column_names])


def _first_keys(parsed: container.Container, paths: Iterable[tuple[str | int, ...]], scratch: Scratch) -> Keys:
    """The keys of all maps in the first block, where they are the same in all records."""
    first = container.only(parsed, np.arange(len(parsed.counts)) == 0)
    names = {f"map {number}": path for number, path in enumerate(paths)}
    table = _query(first, names, scratch)
    return {names[name]: avro_maps.shared_keys(table[name]) for name in table.column_names}


def _query(parsed: container.Container, select: Select | None, scratch: Scratch, keys: Keys | None = None) -> pa.Table:
    """The columns, by DataFusion. Maps whose `keys` are given are read as fields, and fail to be if theirs are more or
    fewer."""
    import datafusion

    schema = parsed.schema
    drop_empty_records(schema)
    field_names = _hoist(schema, list(select.values()), keys or {}) if select else {}
    spelt = _spell(schema)
    context = datafusion.SessionContext(
        datafusion.SessionConfig(
            {
                "datafusion.execution.target_partitions": "1",
                "datafusion.execution.batch_size": "65536",
            }
        )
    )
    frame = context.read_avro(scratch.write(_file(parsed, schema)))
    if select is not None:
        columns = [(name, field_names[path]) for name, path in select.items() if path in field_names]
        frame = frame.select(*(datafusion.column(f'"{field_name}"').alias(name) for name, field_name in columns))
    batches = frame.collect()
    table = pa.Table.from_batches(batches, batches[0].schema if batches else frame.schema())
    return _spelt_back(table, spelt) if spelt and table.num_columns else table


def _file(parsed: container.Container, schema: dict[str, Any]) -> Iterator[bytes | memoryview]:
    """The file with another schema over the same records, and without deflate."""
    is_deflated = parsed.codec == "deflate"
    codec = "null" if is_deflated else parsed.codec
    entries = {container.SCHEMA: json.dumps(schema).encode(), container.CODEC: codec.encode()}
    yield container.header({**parsed.metadata, **entries}, parsed.sync)
    if is_deflated:
        yield from container.inflated(parsed)
    elif len(parsed.starts):
        yield memoryview(parsed.data)[int(parsed.starts[0]) :]


def _hoist(
    schema: dict[str, Any], paths: Sequence[tuple[str | int, ...]], keys: Keys
) -> dict[tuple[str | int, ...], str]:
    """Make the fields of inner records fields of the record itself, down to the paths, and pairs of maps as well where
    their keys are given; the new names by path. Neither has bytes of its own, so the file stays the same, and
    DataFusion skips only fields of the outermost record."""
    names: dict[tuple[str | int, ...], str] = {}
    fields: list[dict[str, Any]] = []

    def add(field: dict[str, Any], path: tuple[str | int, ...]) -> None:
        kind = field["type"]
        is_record = isinstance(kind, dict) and kind.get("type") == "record"
        if is_record and any(len(longer) > len(path) and longer[: len(path)] == path for longer in paths):
            for inner in kind["fields"]:
                add(inner, (*path, inner["name"]))
        elif path in keys and avro_maps.is_map(kind):
            for inner_path, plain in avro_maps.spelt_out(kind, keys[path], f"map_{len(fields)}"):
                add({"type": plain}, (*path, *inner_path))
        else:
            names[path] = f"field_{len(fields)}"
            fields.append({**field, "name": names[path]})

    for field in schema["fields"]:
        add(field, (field["name"],))
    schema["fields"] = fields
    return names


def _spell(schema: dict[str, Any]) -> dict[str, str]:
    """Give fields of records names that DataFusion takes: only those of ASCII letters, digits and underscores, while
    Iceberg writes letters of all scripts. Returns the fields' own names by the new ones."""
    own: dict[str, str] = {}
    for field in schema["fields"]:
        if not field["name"].isascii():
            spelt = f"spelt_{field['name'].encode().hex()}"
            own[spelt], field["name"] = field["name"], spelt
        for kind in field["type"] if isinstance(field["type"], list) else [field["type"]]:
            if isinstance(kind, dict) and kind.get("type") == "record":
                own |= _spell(kind)
    return own


def _spelt_back(table: pa.Table, own: Mapping[str, str]) -> pa.Table:
    """The table with the fields' own names, in structs too. An array's items keep the others; none is looked up."""
    columns = [[_own_names(chunk, own) for chunk in column.chunks] for column in table.columns]
    fields = [
        pa.field(own.get(field.name, field.name), chunks[0].type if chunks else field.type, field.nullable)
        for field, chunks in zip(table.schema, columns, strict=True)
    ]
    arrays = [pa.chunked_array(chunks, field.type) for chunks, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _own_names(array: pa.Array, own: Mapping[str, str]) -> pa.Array:
    if not pa.types.is_struct(array.type):
        return array
    children = [_own_names(array.field(number), own) for number in range(array.type.num_fields)]
    fields = [
        pa.field(own.get(field.name, field.name), child.type, field.nullable)
        for field, child in zip(array.type, children, strict=True)
    ]
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null() if array.null_count else None)


def drop_empty_records(schema: dict[str, Any]) -> None:
    """Remove fields whose type is a record without fields: they have no bytes, and DataFusion fails on them."""
    schema["fields"] = [field for field in schema["fields"] if not is_empty_record(field["type"])]
    for field in schema["fields"]:
        if isinstance(field["type"], dict) and field["type"].get("type") == "record":
            drop_empty_records(field["type"])


def is_empty_record(kind: Any) -> bool:
    return isinstance(kind, dict) and kind.get("type") == "record" and not kind["fields"]


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
