"""Turns partition tuples into canonical JSON text and back. All later stages compare, group and ship tuples as text:
equal tuples are equal strings, keyed by partition field name in spec order, values in Iceberg's single-value JSON form.
Partition columns come in, a dictionary of texts goes out; only distinct tuples become Python objects."""

from __future__ import annotations

import json
import math
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib import parse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import transforms, typedef, types
from pyiceberg.utils import datetime as iceberg_datetime

from iceberg_compaction import errors
from iceberg_compaction.model import times

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

UNPARTITIONED = "{}"
_TIMES = (
    types.DateType,
    types.TimeType,
    types.TimestampType,
    types.TimestamptzType,
    types.TimestampNanoType,
    types.TimestamptzNanoType,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """How values of one type are written and read. Python values are PyIceberg's internal ones: numbers of days and
    microseconds, UUID, Decimal, bytes."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _write_float(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"  # JSON has no such numbers


def _time_form(to_text: Callable[[int], str], to_number: Callable[[str], int]) -> _Form:
    # Plans once had numbers for what lies beyond the years 1 to 9999.
    return _Form(write=to_text, read=lambda value: value if isinstance(value, int) else to_number(value))


def _time_of_day(micros: int) -> Any:
    try:
        return iceberg_datetime.to_human_time(micros)
    except ValueError:
        return micros  # no time of any day; the number itself is exact


_PLAIN = _Form(write=_same, read=_same)
_FLOAT = _Form(write=_write_float, read=float)
_BINARY = _Form(write=bytes.hex, read=bytes.fromhex)
_FORMS: dict[type[types.IcebergType], _Form] = {
    types.FloatType: _FLOAT,
    types.DoubleType: _FLOAT,
    types.DecimalType: _Form(write=lambda value: format(value, "f"), read=Decimal),
    types.DateType: _time_form(times.day, times.to_days),
    types.TimeType: _time_form(_time_of_day, iceberg_datetime.time_str_to_micros),
    types.TimestampType: _time_form(times.timestamp, times.to_micros),
    types.TimestamptzType: _time_form(times.timestamptz, times.to_micros),
    types.TimestampNanoType: _time_form(times.timestamp_ns, times.to_nanos),
    types.TimestamptzNanoType: _time_form(times.timestamptz_ns, times.to_nanos),
    types.UUIDType: _Form(write=str, read=uuid.UUID),
    types.FixedType: _BINARY,
    types.BinaryType: _BINARY,
}


def encode(
    column: pa.ChunkedArray | None, spec: PartitionSpec, schema: Schema, rows: int, *, where: str = "The manifest"
) -> pa.DictionaryArray:
    """The `partition` column of a manifest as canonical texts, dictionary<int32, string>. Columns are matched by
    position, as Avro changes names that it does not like. None: the manifest has no partition fields."""
    kinds = [field.field_type for field in spec.partition_type(schema).fields]
    children = [] if column is None else pa.chunked_array(column).combine_chunks().flatten()
    if len(children) != len(kinds):
        raise errors.MetadataError(
            f"{where} has {len(children)} partition fields, but partition spec {spec.spec_id} has {len(kinds)}."
        )
    names = [field.name for field in spec.fields]
    codes, texts = _tuples([_texts(child, kind) for child, kind in zip(children, kinds, strict=True)], names, rows)
    # Two codes may share a text (NaN has many bit patterns), so the texts are made distinct once more.
    distinct = texts.dictionary_encode()
    return pa.DictionaryArray.from_arrays(distinct.indices.take(pa.array(codes)), distinct.dictionary)


def decode(text: str, spec: PartitionSpec, schema: Schema) -> typedef.Record:
    """The tuple in PyIceberg's internal values, as DataFile.partition holds it."""
    values = json.loads(text)
    fields = spec.partition_type(schema).fields
    if list(values) != [field.name for field in fields]:
        raise errors.MetadataError(f"Partition {text} does not belong to partition spec {spec.spec_id}.")
    return typedef.Record(
        *(None if (value := values[field.name]) is None else form_of(field.field_type).read(value) for field in fields)
    )


def identity_values(text: str, spec: PartitionSpec, kinds: Mapping[int, types.IcebergType]) -> dict[int, Any]:
    """The values of columns that the tuple determines, null too, in PyIceberg's internal form by the column's field id.
    `kinds` are the types of columns by id, of dropped ones too; columns that are not among them are left out."""
    values = json.loads(text)
    return {
        field.source_id: None if (value := values[field.name]) is None else form_of(kinds[field.source_id]).read(value)
        for field in spec.fields
        if isinstance(field.transform, transforms.IdentityTransform) and field.source_id in kinds
    }


def encode_one(record: Sequence[Any] | typedef.Record, spec: PartitionSpec, schema: Schema) -> str:
    """The text of one tuple of PyIceberg's internal values."""
    fields = spec.partition_type(schema).fields
    values = [
        None if record[i] is None else form_of(field.field_type).write(record[i]) for i, field in enumerate(fields)
    ]
    return _compose([field.name for field in spec.fields], [_dumps(value) for value in values])


def path(text: str, spec: PartitionSpec, schema: Schema) -> str:
    """The tuple as people and directories name it: day=2026-01-31/region=eu; empty for an unpartitioned table."""
    values, kinds = decode(text, spec, schema), spec.partition_type(schema).fields
    parts = []
    for i, field in enumerate(spec.fields):
        value = _human(field.transform, kinds[i].field_type, values[i])
        parts.append(f"{parse.quote_plus(field.name, safe='')}={parse.quote_plus(value, safe='')}")
    return "/".join(parts)


def _human(transform: transforms.Transform[Any, Any], kind: types.IcebergType, value: Any) -> str:
    """A value as PyIceberg writes it, except that times have no end."""
    if value is None or isinstance(transform, transforms.VoidTransform):
        return "null"
    if isinstance(transform, transforms.HourTransform):
        return times.hour(value)
    if isinstance(kind, _TIMES):
        return str(form_of(kind).write(value))
    return transform.to_human_string(kind, value)


def form_of(kind: types.IcebergType) -> _Form:
    """The form in which values of this type are written and read."""
    return _FORMS.get(type(kind), _PLAIN)


def _tuples(
    columns: list[tuple[NDArray[np.int64], list[str]]], names: list[str], rows: int
) -> tuple[NDArray[np.int64], pa.StringArray]:
    """A number per row that equals another row's where all its codes do, and the text of each number."""
    codes = np.zeros(rows, np.int64)
    for column_codes, texts in columns:
        dense = pa.array(codes * len(texts) + column_codes).dictionary_encode()  # dense again, so it never overflows
        codes = dense.indices.to_numpy().astype(np.int64)
    first = np.zeros(int(codes.max()) + 1 if rows else 0, np.int64)
    first[codes[::-1]] = np.arange(rows)[::-1]
    pieces: list[Any] = []
    for name, (column_codes, texts) in zip(names, columns, strict=True):
        pieces += [f"{',' if pieces else '{'}{_dumps(name)}:", pa.array(texts, pa.string()).take(column_codes[first])]
    if not pieces:
        return codes, pa.array([UNPARTITIONED] * len(first), pa.string())
    return codes, pc.binary_join_element_wise(*pieces, "}", "")


def _texts(values: pa.Array, kind: types.IcebergType) -> tuple[NDArray[np.int64], list[str]]:
    """A code per row and the JSON text of each code; null is the last code."""
    encoded = _storage(values).dictionary_encode()
    form = form_of(kind)
    texts = [_dumps(form.write(value)) for value in _python_values(encoded.dictionary, values.type, kind)]
    codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, [*texts, "null"]


def _storage(values: pa.Array) -> pa.Array:
    """Times as their numbers, floats as their bits (so that 0.0 and -0.0 stay two values), text in its plain layout."""
    kind = values.type
    if pa.types.is_date32(kind):
        return values.view(pa.int32())
    if pa.types.is_temporal(kind):
        return values.view(pa.int64())
    if pa.types.is_floating(kind):
        return values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary(), pa.null(): pa.string()}
    return values.cast(plain[kind]) if kind in plain else values


def _python_values(distinct: pa.Array, source: pa.DataType, kind: types.IcebergType) -> list[Any]:
    if pa.types.is_floating(source):
        floats = [float(value) for value in distinct.to_numpy().view(f"f{source.bit_width // 8}")]
        return floats if type(kind) in _FORMS else [_write_float(value) for value in floats]
    values: list[Any] = distinct.to_pylist()
    if isinstance(kind, types.UUIDType):
        return [uuid.UUID(bytes=value) for value in values]
    if type(kind) not in _FORMS:  # a dropped source column leaves its type unknown, and bytes and decimals are no JSON
        return [
            value.hex() if isinstance(value, bytes) else str(value) if isinstance(value, Decimal) else value
            for value in values
        ]
    return values


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _compose(names: list[str], texts: list[str]) -> str:
    return "{" + ",".join(f"{_dumps(name)}:{text}" for name, text in zip(names, texts, strict=True)) + "}"
