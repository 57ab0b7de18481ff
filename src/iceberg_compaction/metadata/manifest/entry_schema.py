"""Builds one Avro schema for the entries of many manifests. Writers differ in names, in optional fields, in types that
the table has since made wider, and in fields that are not known here. Schemas are joined by Iceberg's field ids, and
decoded entries are brought into the joined form without loss."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.metadata.manifest import entry_fields
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.typedef import TableVersion

    Schema = dict[str, Any]

_PARTITION_ID, _CONTENT_ID = 102, 134
# Of data_file: block_size_in_bytes, file_ordinal, sort_columns. Version 1 has them, version 2 does not write them.
_ONLY_V1 = frozenset({105, 106, 107})
_WIDER = {("int", "long"), ("float", "double")}
_CASTS = {"int": pa.int32(), "long": pa.int64(), "double": pa.float64()}


def widened(target: Schema, source: Schema, version: TableVersion) -> Schema:
    """The target schema with all fields of the source; equal to the target if it has them already."""
    made = copy.deepcopy(target)
    _widen_record(made, _resolved(source), _ONLY_V1 if version > 1 else frozenset())
    data_file = _core(_find(made["fields"], {"name": "data_file"})["type"])
    partition = _find(data_file["fields"], {"name": "partition", "field-id": _PARTITION_ID})
    entry_fields.name_apart(partition["type"]["fields"])
    return made


def conform(rows: pa.Table, source: Schema, target: Schema) -> pa.Table:
    """Decoded entries of the source's schema, with the target's names and types. Fields that the source lacks are
    left out: they are null."""
    columns = {name: rows[name].combine_chunks() for name in rows.column_names}
    return pa.table(_conform_fields(columns, rows.num_rows, _resolved(source)["fields"], target["fields"]))


def _resolved(schema: Schema) -> Schema:
    """The schema without references to types that are defined elsewhere in it."""
    named: dict[str, Schema] = {}

    def resolve(kind: Any) -> Any:
        if isinstance(kind, list):
            return [resolve(member) for member in kind]
        if isinstance(kind, str):
            return copy.deepcopy(named.get(kind.rpartition(".")[2], kind))
        if not isinstance(kind["type"], str):
            return resolve(kind["type"])
        made = dict(kind)
        if "fields" in kind:
            made["fields"] = [{**field, "type": resolve(field["type"])} for field in kind["fields"]]
        if "items" in kind:
            made["items"] = resolve(kind["items"])
        if "name" in kind:
            named[kind["name"].rpartition(".")[2]] = made
        return made

    resolved: Schema = resolve(schema)
    return resolved


def _widen_record(target: Schema, source: Schema, unwanted: frozenset[int]) -> None:
    for field in source["fields"]:
        if field.get("field-id") in unwanted:
            continue
        mine = _find(target["fields"], field)
        if mine is None:
            if any(other["name"] == field["name"] for other in target["fields"]):
                raise errors.UnsupportedError(
                    f"Manifests use the name {field['name']} for different fields, so they cannot be merged."
                )
            # Files of manifests that do not know the field have no value for it.
            kind = field["type"] if _is_optional(field["type"]) else ["null", field["type"]]
            target["fields"].append({**field, "type": kind, "default": None})
            continue
        core = _widen(_core(mine["type"]), _core(field["type"]), unwanted, field["name"])
        optional = _is_optional(mine["type"]) or _is_optional(field["type"])
        if optional and not _is_optional(mine["type"]):
            mine["default"] = None
        mine["type"] = ["null", core] if optional else core


def _widen(target: Any, source: Any, unwanted: frozenset[int], name: str) -> Any:
    kinds = _storage(target), _storage(source)
    if kinds[0] == "record" and kinds[1] == "record":
        _widen_record(target, source, unwanted)
    elif kinds[0] == "array" and kinds[1] == "array":
        inner = _widen(_core(target["items"]), _core(source["items"]), unwanted, name)
        target["items"] = ["null", inner] if _is_optional(target["items"]) else inner
    elif kinds in _WIDER:
        # PyIceberg writes equality ids as long, where the specification says int.
        return target if name == "equality_ids" else source
    elif _is_decimal(target) and _is_decimal(source) and target.get("scale", 0) == source.get("scale", 0):
        return max(target, source, key=lambda kind: kind["precision"])
    elif kinds[0] != kinds[1] and kinds[::-1] not in _WIDER:
        raise errors.UnsupportedError(
            f"Manifests have the field {name} in types that do not go together ({kinds[0]} and {kinds[1]}), so they "
            "cannot be merged."
        )
    return target


def _conform_fields(
    columns: dict[str, pa.Array], rows: int, source: list[Schema], target: list[Schema]
) -> dict[str, pa.Array]:
    conformed = {}
    for field in target:
        theirs = _find(source, field)
        name = field["name"] if theirs is None else theirs["name"]
        if name in columns:
            kind = field["type"] if theirs is None else theirs["type"]  # None: the field was added after decoding
            conformed[field["name"]] = _conform(columns[name], _core(kind), _core(field["type"]))
        elif field.get("field-id") == _CONTENT_ID:  # version 1 has data files only, and leaves the field out
            conformed[field["name"]] = pa.repeat(pa.scalar(table_view.DATA, pa.int32()), rows)
    return conformed


def _conform(values: pa.Array, source: Any, target: Any) -> pa.Array:
    kind = _storage(target)
    if kind == "record":
        children = {field.name: values.field(field.name) for field in values.type}
        made = _conform_fields(children, len(values), source["fields"], target["fields"])
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(list(made.values()), list(made), mask=mask)
    if kind == "array":
        theirs, mine = _core(source["items"]), _core(target["items"])
        if _shape(theirs) == _shape(mine):
            return values
        start, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        items = _conform(values.values.slice(start, end - start), theirs, mine)
        offsets = pa.array(values.offsets.to_numpy() - start, pa.int32())
        return pa.ListArray.from_arrays(offsets, items, mask=values.is_null() if values.null_count else None)
    if kind in _CASTS and _storage(source) != kind:
        return values.cast(_CASTS[kind])
    return values


def _shape(kind: Any) -> Any:
    """The part of a type that shows in decoded values."""
    kind = _core(kind)
    if _storage(kind) == "record":
        return [(field["name"], _shape(field["type"])) for field in kind["fields"]]
    return _storage(kind)


def _find(fields: Iterable[Schema], wanted: Schema) -> Any:
    """The field with the same id; Iceberg gives one to every field but those of old maps, which have names."""
    wanted_id, name = wanted.get("field-id"), wanted["name"]
    by_name = None
    for field in fields:
        if wanted_id is not None and field.get("field-id") == wanted_id:
            return field
        if field["name"] == name and (wanted_id is None or field.get("field-id") is None):
            by_name = field
    return by_name


def _core(kind: Any) -> Any:
    """A type without the null of its union."""
    if isinstance(kind, list):
        types = [member for member in kind if member != "null"]
        if len(types) != 1:
            raise errors.UnsupportedError(f"Manifests with the Avro union {kind} cannot be rewritten yet.")
        return types[0]
    return kind


def _is_optional(kind: Any) -> bool:
    return isinstance(kind, list) and "null" in kind


def _storage(kind: Any) -> Any:
    """The Avro type by which values are stored; of a fixed one with its size."""
    if isinstance(kind, str):
        return kind
    return f"fixed[{kind['size']}]" if kind["type"] == "fixed" else kind["type"]


def _is_decimal(kind: Any) -> bool:
    return isinstance(kind, dict) and kind.get("logicalType") == "decimal"
