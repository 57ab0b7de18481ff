"""Whatever text is given as a filter: it is applied, or one sentence says why not."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyiceberg import transforms, types
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.metadata.filter import where_clause
from iceberg_compaction.metadata.manifest import column_metrics

# Column → type, and the transforms that it may be partitioned by.
COLUMNS: dict[str, tuple[types.IcebergType, list[str]]] = {
    "i": (types.IntegerType(), ["identity", "bucket[3]", "truncate[3]"]),
    "l": (types.LongType(), ["identity", "bucket[3]", "truncate[10]"]),
    "f": (types.FloatType(), ["identity"]),
    "d": (types.DoubleType(), ["identity"]),
    "c": (types.DecimalType(9, 2), ["identity", "bucket[3]", "truncate[50]"]),
    "w": (types.DecimalType(38, 0), ["identity", "bucket[3]", "truncate[50]"]),
    "s": (types.StringType(), ["identity", "bucket[3]", "truncate[2]"]),
    "b": (types.BooleanType(), ["identity"]),
    "x": (types.BinaryType(), ["identity", "truncate[1]"]),
    "fx": (types.FixedType(4), ["identity", "bucket[2]"]),
    "u": (types.UUIDType(), ["identity", "bucket[3]"]),
    "day": (types.DateType(), ["identity", "year", "month", "day", "bucket[2]"]),
    "ts": (types.TimestampType(), ["identity", "year", "month", "day", "hour", "bucket[2]"]),
    "tz": (types.TimestamptzType(), ["identity", "year", "month", "day", "hour", "bucket[2]"]),
    "tm": (types.TimeType(), ["identity", "bucket[2]"]),
    "st": (types.StructType(types.NestedField(50, "a", types.IntegerType(), required=False)), []),
    "li": (types.ListType(51, types.IntegerType(), element_required=False), []),
}
NAMES = list(COLUMNS)
SCHEMA = Schema(*(types.NestedField(i, n, COLUMNS[n][0], required=False) for i, n in enumerate(NAMES, start=1)))
LITERALS = [
    *(
        "0",
        "-5",
        "2147483648",
        "9223372036854775808",
        "-9223372036854775809",
        "9" * 38,
        "9" * 39,
        "9" * 400,
        "9" * 5000,
    ),
    *("1.5", "0." + "3" * 50, "1." + "0" * 60, "5.", "1e5", "0x10", "true", "null", "''", "'x'", "'5'", "'1e400'"),
    *("'1e-400'", "'1e999999999'", "'NaN'", "'inf'", "'2024-02-30'", "'99999-01-01'", "'2024-01-01T25:00:00'"),
    *("'2024-01-01'", "'2024-01-01T00:00:00+99:00'", "'9999-12-31T23:59:59.999999999'", "'25:00:00'", "'\x00'"),
    *("'\U0001f600'", "'\ud800'", "'\udcff'", "'" + "a" * 50_000 + "'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"),
]
FORMS = [
    *("{n} = {v}", "{n} <> {v}", "{n} < {v}", "{n} >= {v}", "{n} in ({v}, {v})", "{n} not in ({v})", "{n} in ()"),
    *("{n} like {v}", "{n} not like 'a%'", "{v} < {n}", "{n} between {v} and {v}", "not ({n} > {v})", "{n}.a = {v}"),
    *("days({n}) >= {v}", "bucket(3, {n}) = {v}", "truncate(2, {n}) <= {v}", "lake.system.hours({n}) in ({v})"),
    *("year({n}) = {v}", "months({n}) between {v} and {v}", "{n} >= timestamp {v}", "{n} < date {v}", "`{n}` = {v}"),
    *("{n}", "{n} like 'a_b%'", "1 = 1 or {n} = {v}", "{v} = {v}", "truncate({n}, 3) <> {v}", "not days({n}) = {v}"),
    *("{n} <=> {v}", "not {n} <=> {v}", "{n} in ({v}, null)", "{n} is distinct from {v}", "isnan({n})", "isnull({n})"),
    *("{n} < date {v} - interval 1 day", "{n} >= date_add({v}, 400000000)", "{n} is true", "{n} = cast({v} as date)"),
    *("{n} is nan", "{n} = {n}", "{n}.element = {v}", "{n} = {v} and", "({n} = {v}", "nope = {v}", "{n} + 1 = {v}"),
]


def conditions() -> st.SearchStrategy[str]:
    parts = st.tuples(st.sampled_from(FORMS), st.sampled_from(NAMES), st.sampled_from(LITERALS))
    return parts.map(lambda drawn: drawn[0].format(n=drawn[1], v=drawn[2]))


def one_file() -> pa.Table:
    columns = {
        "spec_id": pa.array([0]),
        "content": pa.array([0], pa.int8()),
    }
    for field_id in [*range(1, len(NAMES) + 1), 50, 51]:
        for metric in column_metrics.METRICS:
            count = metric in column_metrics.COUNTS
            columns[column_metrics.column(metric, field_id)] = pa.array([1 if count else b"\1\0\0\0"])
    return pa.table(columns)


FILE = one_file()


def check_sentence(told: str) -> None:
    sentence, *place = told.split("\n")
    assert sentence.startswith("The filter ")
    assert sentence.endswith(".")
    assert len(told) < 900
    if place:
        line, caret = place
        assert caret.strip() == "^"
        assert len(caret) <= len(line) + 1


@examples(400)
@given(where=conditions() | st.text(max_size=30), other=conditions(), word=st.sampled_from(["", "and", "or not"]))
@example(where="ts = 9223372036854775808", other="", word="")
@example(where="c < " + "9" * 40, other="", word="")
@example(where="s = '\ud800'", other="", word="")  # crashed the process
def test_a_filter_is_applied_or_refused_in_a_sentence(where: str, other: str, word: str) -> None:
    where = f"{where} {word} {other}" if word else where
    try:
        found = where_clause.parse(where, SCHEMA)
    except errors.ConfigError as error:
        check_sentence(str(error))
        return
    for name, (_, partitioned_by) in COLUMNS.items():
        for transform in partitioned_by if name in where else []:
            source = SCHEMA.find_field(name).field_id
            spec = PartitionSpec(PartitionField(source, 1000, transforms.parse_transform(transform), "p"))
            file = FILE.append_column("partition", pa.array(['{"p":null}']).dictionary_encode())
            assert found.select(file, {0: spec}).to_pylist() in ([True], [False])


@pytest.mark.parametrize("depth", [101, 600])
def test_conditions_are_nested_only_so_deep(depth: int) -> None:
    with pytest.raises(errors.ConfigError, match="inside conditions more than 100 deep; write it with fewer") as caught:
        where_clause.parse("(i = 1 or " * depth + "i = 1" + ")" * depth, SCHEMA)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "where", ["(" * 600 + "i = 1" + ")" * 600, "not " * 600 + "i = 1", " or ".join(["i = 1"] * 600)]
)
def test_what_is_only_long_is_read(where: str) -> None:
    assert where_clause.parse(where, SCHEMA).field_ids == (1,)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("ts > 9223372036854775808", "of type timestamp: 9223372036854775808 is out of its range."),
        ("w < " + "9" * 39, f"of type decimal(38, 0): {'9' * 39} is out of its range."),
        ("d < '1e400'", "of type double: 1E+400 is out of its range."),
        ("i = '1e999999999'", "of type int: 1E+999999999 is out of its range."),
        ("day = '2024-02-30'", "of type date: '2024-02-30' is no date such as '2026-01-31'."),
    ],
)
def test_what_is_out_of_range_is_told_with_the_column(where: str, told: str) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        where_clause.parse(where, SCHEMA)
    assert str(caught.value).split("\n")[0].endswith(told)
