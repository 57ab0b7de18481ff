"""A value picked out of every map is the map's own, however the maps look; and uniform maps are never decoded."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_compaction import errors
from iceberg_compaction.metadata import picks
from iceberg_compaction.metadata.avro import container, decode, encode

PAIR = {
    "type": "record",
    "name": "k126_v127",
    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}],
}
ITEMS = {"type": "array", "items": PAIR, "logicalType": "map"}
SYNC = b"0123456789abcdef"
SELECT = {"path": ("file", "path"), "last": ("last",)}
PICK = {"low": picks.Pick(path=("file", "bounds"), key=2)}

Map = dict[int, bytes]


def manifest(maps: list[Map | None], *, optional: bool = True, per_block: int | None = None) -> container.Container:
    """A file with a path before and a number after each map."""
    kind: Any = ["null", ITEMS] if optional else ITEMS
    file = {
        "type": "record",
        "name": "r2",
        "fields": [{"name": "path", "type": "string"}, {"name": "bounds", "type": kind}],
    }
    schema: dict[str, Any] = {
        "type": "record",
        "name": "entry",
        "fields": [{"name": "file", "type": file}, {"name": "last", "type": "long"}],
    }
    pair = pa.struct([pa.field("key", pa.int32(), False), pa.field("value", pa.binary(), False)])
    pairs = [None if one is None else [{"key": k, "value": v} for k, v in one.items()] for one in maps]
    columns = [pa.array([f"path-{i}" for i in range(len(maps))]), pa.array(pairs, pa.list_(pair))]
    table = pa.table(
        {
            "file": pa.StructArray.from_arrays(columns, ["path", "bounds"]),
            "last": pa.array(range(len(maps)), pa.int64()),
        }
    )
    step = per_block or len(maps) or 1
    blocks = [
        block
        for start in range(0, len(maps), step)
        for block in encode.blocks(schema, table.slice(start, step), "null", SYNC)
    ]
    metadata = {container.SCHEMA: json.dumps(schema).encode(), container.CODEC: b"null"}
    return container.parse(container.header(metadata, SYNC) + b"".join(blocks))


def check(maps: list[Map | None], **options: Any) -> None:
    found = picks.read(manifest(maps, **options), SELECT, PICK)
    assert found.column_names == ["path", "last", "low"]
    assert found["path"].to_pylist() == [f"path-{i}" for i in range(len(maps))]
    assert found["last"].to_pylist() == list(range(len(maps)))
    assert found["low"].to_pylist() == [(one or {}).get(2) for one in maps]


VALUES = st.binary(max_size=6)
ANY = st.lists(st.one_of(st.none(), st.dictionaries(st.integers(1, 3), VALUES, max_size=3)), max_size=12)
UNIFORM = st.integers(2, 4).flatmap(
    lambda count: st.lists(
        st.lists(VALUES, min_size=count, max_size=count).map(lambda values: dict(enumerate(values, start=1))),
        max_size=12,
    )
)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    maps=st.one_of(ANY, UNIFORM, st.tuples(UNIFORM, ANY).map(lambda both: [*both[0], *both[1]])), optional=st.booleans()
)
def test_values_are_the_maps_own(maps: list[Map | None], optional: bool) -> None:
    check(maps if optional else [one or {} for one in maps], optional=optional, per_block=3)


def test_uniform_maps_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[tuple[str, int]] = []
    read = decode.read

    def watched(parsed: container.Container, select: Any, **options: Any) -> pa.Table:
        rows.extend((name, parsed.rows) for name, path in select.items() if path == ("file", "bounds"))
        return read(parsed, select, **options)

    monkeypatch.setattr(decode, "read", watched)
    check([{1: b"a", 2: bytes([i]), 3: b"ccc"} for i in range(50)], per_block=5)
    assert rows == [("low", 5)]  # the first block, to see how maps look


@pytest.mark.parametrize(
    "odd",
    [None, {}, {2: b"x"}, {1: b"a", 3: b"b"}, {2: b"b", 1: b"a"}, {1: b"a", 2: b"b", 3: b"c"}, {2: b"x", 4: b"\0\0\0"}],
)
def test_one_odd_map_among_many_is_seen(odd: Map | None) -> None:
    usual: list[Map | None] = [{1: b"a", 2: bytes([i])} for i in range(20)]
    check([*usual, odd, *usual], per_block=4)


def test_a_map_that_looks_like_two_is_seen() -> None:
    """Bytes that would, read in the wrong form, make a map of the expected count."""
    check([{1: b"a", 2: b"b"}, {1: b"\x04\x02\x02a\x04\x02b\0"}, {1: b"a", 2: b"b"}] * 3, per_block=2)


def test_a_file_without_the_map_gives_no_column() -> None:
    parsed = manifest([{2: b"a"}])
    pick = {"low": picks.Pick(path=("file", "no such"), key=2)}
    assert picks.read(parsed, SELECT, pick).column_names == ["path", "last"]
    assert picks.read(parsed, SELECT, {}).column_names == ["path", "last"]


def test_damage_is_an_error_either_way() -> None:
    parsed = manifest([{1: b"a", 2: b"b"}] * 20)
    data = bytearray(parsed.data)
    data[-40:-20] = b"\xff" * 20
    with pytest.raises(errors.MetadataError, match=r"^Manifest m could not be decoded"):
        picks.read(container.parse(bytes(data)), SELECT, PICK, where="Manifest m")
