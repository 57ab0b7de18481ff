"""Thrift structs come apart and go together without loss; what is no struct is refused, quickly."""

from __future__ import annotations

import contextlib
import datetime
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import spliced
from tests.factories.examples import examples

from iceberg_compaction.formats.parquet import thrift

_QUICK = datetime.timedelta(seconds=10)  # for a machine that has other things to do as well
_NUMBERS = {
    thrift.BYTE: st.integers(0, 255),
    thrift.I16: st.integers(-(2**15), 2**15 - 1),
    thrift.I32: st.integers(-(2**31), 2**31 - 1),
    thrift.I64: st.integers(-(2**63), 2**63 - 1),
    thrift.DOUBLE: st.floats(allow_nan=False),
    thrift.BINARY: st.binary(max_size=200),
}


def _typed(below: st.SearchStrategy[thrift.Struct]) -> st.SearchStrategy[tuple[int, Any]]:
    kinds = [st.tuples(st.just(kind), values) for kind, values in _NUMBERS.items()]
    flags = st.booleans().map(lambda flag: (thrift.TRUE if flag else thrift.FALSE, flag))
    lists = [
        st.tuples(st.sampled_from([thrift.LIST, thrift.SET]), st.tuples(st.just(kind), st.lists(values, max_size=20)))
        for kind, values in {**_NUMBERS, thrift.TRUE: st.booleans(), thrift.STRUCT: below}.items()
    ]
    return st.one_of(*kinds, flags, *lists, st.tuples(st.just(thrift.STRUCT), below))


_STRUCTS = st.recursive(
    st.dictionaries(st.integers(1, 40), _typed(st.just({})), max_size=6),
    lambda below: st.dictionaries(st.integers(-(2**15), 2**15 - 1), _typed(below), max_size=6),
    max_leaves=20,
)


@examples(150, deadline=_QUICK)
@given(_STRUCTS)
def test_what_is_composed_is_parsed(struct: thrift.Struct) -> None:
    data = thrift.compose(struct)
    assert thrift.parse(b"..." + data + b"...", 3) == (struct, 3 + len(data))


@pytest.fixture(scope="module")
def footers(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("footers")
    made = [
        spliced.write(folder / "plain.parquet", spliced.rows(1, 500), group=100),
        spliced.write(folder / "wide.parquet", pa.table({f"column {at}": [at, None] for at in range(200)})),
        spliced.write(
            folder / "sorted.parquet",
            spliced.rows(1, 50),
            store_schema=True,
            sorting_columns=[pq.SortingColumn(0, descending=True)],
            data_page_version="2.0",
        ),
    ]
    found = []
    for path in made:
        data = Path(path).read_bytes()
        found.append(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
    return found


def test_footers_stay_the_same(footers: list[bytes]) -> None:
    for data in footers:
        struct, end = thrift.parse(data)
        assert end == len(data)
        assert thrift.compose(struct) == data


@examples(150, deadline=_QUICK)
@given(st.data())
def test_damaged_footers_are_parsed_or_refused(footers: list[bytes], data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from(footers[::2]))
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for _ in range(data.draw(st.integers(0, 5))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        struct, end = thrift.parse(bytes(damaged))
    except ValueError:
        return
    assert end <= len(damaged)
    again = thrift.compose(struct)
    assert thrift.compose(thrift.parse(again)[0]) == again


@examples(150, deadline=_QUICK)
@given(st.binary(max_size=60))
def test_noise_is_parsed_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert thrift.parse(data)[1] <= len(data)


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"", "ends too early"),
        (b"\x15", "ends too early"),
        (b"\x15\x02", "ends too early"),
        (b"\x18\x05abc\x00", "ends too early"),
        (b"\x17\x00\x00\x00\x00", "ends too early"),
        (b"\x19\xf5\xff\xff\xff\xff\x0f", "list ends too early"),
        (b"\x19\xf3" + b"\xff" * 9 + b"\x01", "list ends too early"),
        (b"\x18" + b"\xff" * 9 + b"\x01", "string ends too early"),
        (b"\x16" + b"\x80" * 10 + b"\x00\x00", "number is too long"),
        (b"\x16" + b"\xff" * 9 + b"\x02\x00", "number is too long"),
        (b"\x1b\x00\x00", "no Thrift type 11"),
        (b"\x1f\x00\x00", "no Thrift type 15"),
        (b"\x15\x02\x05\x02\x02\x00", "wrong field number 1"),
        (b"\x05\xff\xff\x7f\x02\x00", "wrong field number"),
        (b"\x1c" * 1000 + b"\x00" * 1000, "nested too deeply"),
        (b"\x19" + b"\x19" * 1000 + b"\x00", "nested too deeply"),
    ],
)
def test_absurd_bytes_are_refused_without_taking_memory(data: bytes, wrong: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=wrong):
            thrift.parse(data)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_footers_of_many_columns_take_milliseconds(tmp_path: Path) -> None:
    path = spliced.write(tmp_path / "wide.parquet", pa.table({f"column {at}": [f"text {at}"] for at in range(80)}))
    data = Path(path).read_bytes()
    found = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    taken = []
    for _ in range(10):
        began = time.process_time()
        thrift.parse(found)
        taken.append(time.process_time() - began)
    assert min(taken) < 0.05
