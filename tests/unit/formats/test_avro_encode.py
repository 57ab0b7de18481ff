"""Records encoded from columns are the records that two independent readers see."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.utils.schema_conversion import AvroSchemaConversion
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_decode, avro_encode, container

if TYPE_CHECKING:
    from pathlib import Path

SYNC = b"s" * 16
KINDS: dict[str, tuple[Any, pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": ("boolean", pa.bool_(), st.booleans()),
    "int": ("int", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": ("long", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": ("long", pa.int64(), st.integers(-1, 200)),
    "float": ("float", pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": ("double", pa.float64(), st.floats(allow_nan=False)),
    "text": ("string", pa.string(), st.text(max_size=80)),
    "bytes": ("bytes", pa.binary(), st.binary(max_size=80)),
    "fixed": ({"type": "fixed", "size": 5, "name": "f5"}, pa.binary(5), st.binary(min_size=5, max_size=5)),
    "again": ("f5", pa.binary(5), st.binary(min_size=5, max_size=5)),
    "price": (
        {"type": "fixed", "size": 4, "name": "d", "logicalType": "decimal", "precision": 9, "scale": 2},
        pa.decimal128(9, 2),
        st.decimals(min_value=-9999999, max_value=9999999, places=2),
    ),
    "cost": (
        {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 3},
        pa.decimal128(30, 3),
        st.decimals(min_value=-(10**26), max_value=10**26, places=3),
    ),
    "counts": (
        {
            "type": "array",
            "logicalType": "map",
            "items": {
                "type": "record",
                "name": "k1_v2",
                "fields": [
                    {"name": "key", "type": "int", "field-id": 901},
                    {"name": "value", "type": "bytes", "field-id": 902},
                ],
            },
        },
        pa.list_(pa.struct([pa.field("key", pa.int32(), False), pa.field("value", pa.binary(), False)])),
        st.lists(
            st.fixed_dictionaries({"key": st.integers(0, 10**6), "value": st.binary(max_size=20)}),
            max_size=5,
            unique_by=lambda pair: pair["key"],
        ),
    ),
    "offsets": (
        {"type": "array", "items": "long", "element-id": 903},
        pa.list_(pa.int64()),
        st.lists(st.integers(0, 2**50), max_size=5),
    ),
}
ROW = st.fixed_dictionaries({name: strategy for name, (_, _, strategy) in KINDS.items()})
OPTIONAL_ROW = st.fixed_dictionaries(
    {f"maybe_{name}": st.none() | strategy for name, (_, _, strategy) in KINDS.items()}
)
ARROW = pa.schema(
    [pa.field(name, kind, False) for name, (_, kind, _) in KINDS.items()]
    + [pa.field(f"maybe_{name}", kind) for name, (_, kind, _) in KINDS.items()]
)


def _renamed(kind: Any) -> Any:
    """The optional twin of a type: named types get names of their own, so both are definitions."""
    text = json.dumps(kind)
    for name in ("k1_v2", '"d"', "f5"):
        text = text.replace(name, name.replace("k1_v2", "k3_v4").replace('"d"', '"dd"').replace("f5", "f5o"))
    return json.loads(text.replace("901", "911").replace("902", "912").replace("903", "913"))


AVRO: dict[str, Any] = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": name, "type": kind, "field-id": index} for index, (name, (kind, _, _)) in enumerate(KINDS.items(), 1)
    ]
    + [
        {"name": f"maybe_{name}", "type": ["null", _renamed(kind)], "default": None, "field-id": index}
        for index, (name, (kind, _, _)) in enumerate(KINDS.items(), 101)
    ],
}


def _file(table: pa.Table, schema: Any = AVRO) -> bytes:
    metadata = {container.SCHEMA: json.dumps(schema).encode(), container.CODEC: b"null"}
    return container.header(metadata, SYNC) + b"".join(avro_encode.blocks(schema, table, "null", SYNC))


@examples(60)
@given(st.lists(st.builds(lambda a, b: a | b, ROW, OPTIONAL_ROW), min_size=1, max_size=12), st.integers(0, 3))
def test_encoded_rows_are_decoded_unchanged(rows: list[dict[str, Any]], offset: int) -> None:
    table = pa.Table.from_pylist(rows[:1] * offset + rows, schema=ARROW).slice(offset)  # slices have offsets to honour
    assert avro_decode.read_table(_file(table)).to_pylist() == rows


@examples(30)
@given(st.lists(st.builds(lambda a, b: a | b, ROW, OPTIONAL_ROW), min_size=1, max_size=5))
def test_pyiceberg_reads_the_same(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("avro") / "file.avro"
    # PyIceberg knows neither types by name nor decimals as bytes, and its decoder rounds doubles to floats.
    known = [name for name in ARROW.names if not name.endswith(("again", "cost", "double"))]
    schema = {**AVRO, "fields": [field for field in AVRO["fields"] if field["name"] in known]}
    path.write_bytes(_file(pa.Table.from_pylist(rows, schema=ARROW).select(known), schema))
    assert _pyiceberg_rows(path) == [[_as_map(row[name]) for name in known] for row in rows]


def _as_map(value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {pair["key"]: pair["value"] for pair in value}
    return value


def _pyiceberg_rows(path: Path) -> list[list[Any]]:
    schema = json.loads(container.parse(path.read_bytes()).metadata[container.SCHEMA])
    iceberg = AvroSchemaConversion().avro_to_iceberg(schema)
    with AvroFile[Any](PyArrowFileIO().new_input(str(path)), iceberg) as reader:
        return [[value if value != {} else [] for value in record._data] for record in reader]


def test_names_of_every_script_are_kept() -> None:
    """Iceberg replaces in a name what is neither letter nor digit, and leaves letters of all scripts as they are."""
    inner = [{"name": "größe", "type": ["null", "long"]}, {"name": "b", "type": "string"}]
    outer = [
        {"name": "日本", "type": ["null", {"type": "record", "name": "r2", "fields": inner}]},
        {"name": "é", "type": "long"},
        {"name": "plain", "type": {"type": "record", "name": "r3", "fields": [{"name": "ß", "type": "int"}]}},
    ]
    rows = [
        {"日本": {"größe": 7, "b": "x"}, "é": 1, "plain": {"ß": 3}},
        {"日本": None, "é": 2, "plain": {"ß": 4}},
        {"日本": {"größe": None, "b": ""}, "é": 3, "plain": {"ß": 5}},
    ]
    kinds = [pa.struct({"größe": pa.int64(), "b": pa.string()}), pa.int64(), pa.struct({"ß": pa.int32()})]
    table = pa.Table.from_pylist(rows, schema=pa.schema(zip(("日本", "é", "plain"), kinds, strict=True)))
    file = _file(table, {"type": "record", "name": "row", "fields": outer})
    assert avro_decode.read_table(file).to_pylist() == rows
    chosen = avro_decode.read_table(file, {"日": ("日本",), "s": ("plain", "ß")}).to_pylist()
    assert chosen == [{"日": row["日本"], "s": row["plain"]["ß"]} for row in rows]
    assert avro_decode.read_table(file, {"x": ("nowhere",)}).num_rows == 3


def test_rows_are_cut_into_blocks() -> None:
    schema = {"type": "record", "name": "row", "fields": [{"name": "s", "type": "string"}]}
    table = pa.table({"s": ["x" * 1000] * 1000})
    parsed = container.parse(_file(table, schema))
    assert parsed.rows == 1000
    assert 10 < len(parsed.counts) < 30


def test_a_missing_optional_field_is_null_and_a_missing_required_one_an_error() -> None:
    fields = [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}]
    schema = {"type": "record", "name": "row", "fields": fields}
    assert avro_decode.read_table(_file(pa.table({"a": [1, 2]}), schema)).to_pylist() == [
        {"a": 1, "b": None},
        {"a": 2, "b": None},
    ]
    with pytest.raises(ValueError, match="null in a required"):
        _file(pa.table({"b": ["x"]}), schema)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (["null", "string", "long"], pa.array(["x"])),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.array(["A"])),
        ({"type": "string", "logicalType": "uuid"}, pa.array([b"0" * 16], pa.binary(16))),
        ("long", pa.array([1], pa.int32())),
    ],
)
def test_what_cannot_be_written_faithfully_is_refused(kind: Any, values: pa.Array) -> None:
    with pytest.raises(errors.UnsupportedError):
        _file(pa.table({"a": values}), {"type": "record", "name": "row", "fields": [{"name": "a", "type": kind}]})
