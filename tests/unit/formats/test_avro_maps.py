"""Values of single keys out of maps: whatever the maps of a file are like, what is picked is what a plain reader finds,
and where all have the same keys, pairs that nobody wants are not built."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_decode, avro_maps, container

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

SYNC = bytes(range(16))
RELAXED = examples(75)
PAIRS = {
    "type": "array",
    "items": {
        "type": "record",
        "name": "pair",
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}],
    },
}
SELECT = {"id": ("id",), "one": ("file", "bounds", 1), "seven": ("file", "bounds", 700), "tail": ("tail",)}

Map = list[tuple[int, bytes]] | None


@dataclasses.dataclass(frozen=True)
class Form:
    """How maps are written. Avro leaves it to the writer: in how many parts, and whether parts have their size."""

    kind: Any = dataclasses.field(default_factory=lambda: ["null", PAIRS])
    parts: int = 1
    sized: bool = False


@pytest.fixture(autouse=True)
def _try_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_decode, "_MANY", 1)


def put_bytes(value: bytes) -> bytes:
    return container.put_long(len(value)) + value


def put_map(pairs: Map, form: Form) -> bytes:
    head = b""
    if isinstance(form.kind, list):
        branch = form.kind.index("null") if pairs is None else 1 - form.kind.index("null")
        head = container.put_long(branch)
    if pairs is None:
        return head
    size = -(-len(pairs) // form.parts) or 1
    for start in range(0, len(pairs), size):
        some = pairs[start : start + size]
        body = b"".join(container.put_long(key) + put_bytes(value) for key, value in some)
        count = container.put_long(-len(some)) + container.put_long(len(body))
        head += (count if form.sized else container.put_long(len(some))) + body
    return head + container.put_long(0)


def compose(rows: list[Map], form: Form, per_block: int) -> container.Container:
    """A file of records with a number, a map and a text."""
    schema = {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "id", "type": "long"},
            {
                "name": "file",
                "type": {"type": "record", "name": "file", "fields": [{"name": "bounds", "type": form.kind}]},
            },
            {"name": "tail", "type": "string"},
        ],
    }
    records = [
        container.put_long(number) + put_map(pairs, form) + put_bytes(f"end {number}".encode())
        for number, pairs in enumerate(rows)
    ]
    blocks = [records[start : start + per_block] for start in range(0, len(records), per_block)]
    told = {container.SCHEMA: json.dumps(schema).encode()}
    data = container.header(told, SYNC) + b"".join(container.block(len(some), b"".join(some), SYNC) for some in blocks)
    return container.parse(data)


def expected(rows: list[Map]) -> list[dict[str, Any]]:
    return [
        {"id": number, "one": dict(pairs or []).get(1), "seven": dict(pairs or []).get(700), "tail": f"end {number}"}
        for number, pairs in enumerate(rows)
    ]


def regular(count: int, *keys: int) -> list[Map]:
    return [[(key, f"{key} of {number}".encode()) for key in keys] for number in range(count)]


@st.composite
def files(draw: st.DrawFn) -> tuple[list[Map], Form, int]:
    """Mostly regular maps, with a few that are not."""
    keys = draw(st.lists(st.sampled_from([1, 2, 63, 64, 700, 2147483546]), unique=True, max_size=6))
    rows: list[Map] = regular(draw(st.integers(1, 40)), *keys)
    kind = draw(st.sampled_from([["null", PAIRS], [PAIRS, "null"], PAIRS]))
    other = st.lists(
        st.tuples(st.sampled_from([0, 1, 2, 700]), st.binary(max_size=9)), max_size=4, unique_by=lambda x: x[0]
    )
    for place in draw(st.lists(st.integers(0, len(rows) - 1), max_size=3)):
        change = draw(st.sampled_from(["other", "turned", "shorter", "longer", "null"]))
        own = rows[place] or []
        changed: dict[str, Map] = {
            "other": draw(other),
            "turned": own[::-1],
            "shorter": own[:-1],
            "longer": [*own, (5, b"five")],
            "null": [] if kind == PAIRS else None,
        }
        rows[place] = changed[change]
    form = Form(kind=kind, parts=draw(st.integers(1, 2)), sized=draw(st.booleans()))
    return rows, form, draw(st.integers(1, 12))


@RELAXED
@given(files())
def test_what_is_picked_is_what_the_maps_hold(file: tuple[list[Map], Form, int]) -> None:
    rows, form, per_block = file
    assert avro_decode.read(compose(rows, form, per_block), SELECT).to_pylist() == expected(rows)


@RELAXED
@given(st.lists(files(), min_size=2, max_size=4))
def test_what_one_file_teaches_does_no_harm_to_the_next(several: list[tuple[list[Map], Form, int]]) -> None:
    scratch = avro_decode.Scratch()
    for rows, form, per_block in several:
        found = avro_decode.read(compose(rows, form, per_block), SELECT, scratch=scratch)
        assert found.to_pylist() == expected(rows)
    scratch.close()


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Calls that build whole maps of whole files."""
    seen: list[Any] = []
    own = avro_decode._read_picks

    def read_picks(parsed: Any, wanted: Any, picks: Any, keys: Any, scratch: Any) -> pa.Table:
        found = own(parsed, wanted, picks, keys, scratch)
        seen.extend(path for path in picks.values() if path[:-1] not in keys)
        return found

    monkeypatch.setattr(avro_decode, "_read_picks", read_picks)
    return seen


@pytest.mark.parametrize("kind", [["null", PAIRS], [PAIRS, "null"], PAIRS])
def test_maps_with_the_same_keys_are_not_built(whole: list[Any], kind: Any) -> None:
    rows = regular(200, 3, 1, 700, 2)
    assert avro_decode.read(compose(rows, Form(kind=kind), 20), SELECT).to_pylist() == expected(rows)
    assert not whole


def irregular() -> Iterator[tuple[str, list[Map], Form]]:
    rows, longer, null = regular(200, 1, 700), regular(200, 1, 700), regular(200, 1, 700)
    longer[150], null[150] = [*(longer[150] or []), (9, b"")], None
    turned = [*rows[:100], *([(700, b"x"), (1, b"y")] for _ in range(100))]
    yield "a longer one", longer, Form()
    yield "a shorter one", [*rows[:150], [(1, b"only")], *rows[151:]], Form()
    yield "an empty one", [*rows[:150], [], *rows[151:]], Form()
    yield "none", null, Form()
    yield "other order", turned, Form()
    yield "in parts", rows, Form(parts=2)
    yield "with sizes", rows, Form(sized=True)
    yield "without the key", regular(200, 1, 2), Form()
    yield "too many", regular(3, 1, 700, *range(1000, 1000 + avro_maps.MOST)), Form()


@pytest.mark.parametrize(("rows", "form"), [case[1:] for case in irregular()], ids=[case[0] for case in irregular()])
def test_other_maps_are_read_as_they_are(whole: list[Any], rows: list[Map], form: Form) -> None:
    assert avro_decode.read(compose(rows, form, 20), SELECT).to_pylist() == expected(rows)
    assert len(whole) == 2


def test_damage_is_told_as_of_the_file_itself() -> None:
    parsed = compose(regular(50, 1, 700), Form(), 10)
    data = bytearray(parsed.data)
    middle = (int(parsed.starts[2]) + int(parsed.ends[2])) // 2
    data[middle : middle + 40] = b"\xff" * 40
    with pytest.raises(errors.MetadataError, match="Manifest m could not be decoded as Avro"):
        avro_decode.read(dataclasses.replace(parsed, data=bytes(data)), SELECT, where="Manifest m")


def test_a_map_that_is_not_there_gives_no_column() -> None:
    parsed = compose(regular(5, 1), Form(), 5)
    found = avro_decode.read(parsed, {"x": ("file", "nowhere", 1), "id": ("id",)})
    assert found.column_names == ["id"]


def test_one_map_may_be_regular_and_another_not(whole: list[Any]) -> None:
    """As counts of NaNs, which only some columns have."""
    parsed = compose(regular(50, 1, 700), Form(), 10)
    schema = parsed.schema
    nans = json.loads(json.dumps(PAIRS).replace('"pair"', '"other"'))
    schema["fields"][1]["type"]["fields"].append({"name": "nans", "type": nans})
    records = [
        container.put_long(number)
        + put_map([(1, b"low"), (700, b"up")], Form())
        + put_map([(1, b"nan")] if number % 2 else [], Form(kind=PAIRS))
        + put_bytes(b"end")
        for number in range(50)
    ]
    told = {container.SCHEMA: json.dumps(schema).encode()}
    data = container.header(told, SYNC) + container.block(50, b"".join(records), SYNC)
    found = avro_decode.read_table(data, {"low": ("file", "bounds", 1), "nan": ("file", "nans", 1), "tail": ("tail",)})
    assert found.to_pylist() == [
        {"low": b"low", "nan": b"nan" if number % 2 else None, "tail": "end"} for number in range(50)
    ]
    assert whole == [("file", "nans", 1)]
