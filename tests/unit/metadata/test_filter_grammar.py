"""Filters as people write them: what they mean, and where an error points."""

from __future__ import annotations

import datetime
import operator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import transforms, typedef, types
from pyiceberg.expressions import visitors
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from tests.factories.examples import examples
from tests.unit.metadata.test_filter_inputs import one_file

from iceberg_compaction import errors
from iceberg_compaction.metadata.filter import bucketed, where_clause
from iceberg_compaction.metadata.manifest import column_metrics
from iceberg_compaction.model import times

COLUMNS = {
    "id": types.LongType(),
    "name": types.StringType(),
    "ts": types.TimestampType(),
    "tz": types.TimestamptzType(),
    "day": types.DateType(),
    "price": types.DecimalType(9, 2),
    "ok": types.BooleanType(),
    "größe": types.IntegerType(),
    "odd name": types.IntegerType(),
}
SCHEMA = Schema(*(types.NestedField(n, name, COLUMNS[name], required=False) for n, name in enumerate(COLUMNS, start=1)))
OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
UNITS = {"year": transforms.YearTransform(), "month": transforms.MonthTransform(), "day": transforms.DayTransform()}


def matches(where: str, **row: Any) -> bool:
    """Whether a row matches, exactly."""
    found = where_clause.parse(where, SCHEMA)
    unbound = bucketed.without(found.unbound)
    evaluate = visitors.expression_evaluator(found.schema, unbound, case_sensitive=True)
    return bool(evaluate(typedef.Record(*(row.get(name) for name in COLUMNS))))


def micros(text: str) -> int:
    return times.to_micros(text)


@pytest.mark.parametrize(
    ("where", "row", "expected"),
    [
        ("tz >= '2026-01-01'", {"tz": micros("2026-01-01T00:00:00")}, True),
        ("tz >= '2026-01-01 00:00'", {"tz": micros("2025-12-31T23:59:59")}, False),
        ("tz = timestamp '2026-01-01 10:00:00'", {"tz": micros("2026-01-01T10:00:00")}, True),
        ("tz = '2026-01-01 10:00:00+02:00'", {"tz": micros("2026-01-01T08:00:00")}, True),
        ("ts < timestamp '2026-01-01'", {"ts": micros("2025-12-31T23:00:00")}, True),
        ("ts >= date '2026-01-01'", {"ts": micros("2026-01-01T00:00:00")}, True),
        ("day = date '2026-01-31'", {"day": times.to_days("2026-01-31")}, True),
        ("`odd name` = 1 and größe = 2 and `größe` < 3", {"odd name": 1, "größe": 2}, True),
        ('"odd name" = 1', {"odd name": 1}, True),
        ('name = "foo"', {"name": "foo"}, True),
        ("'foo' = name", {"name": "foo"}, True),
        ("5 < id", {"id": 6}, True),
        ("id not in (1, 2)", {"id": 3}, True),
        ("id not between 1 and 3", {"id": 3}, False),
        ("id between 1 and 3 and name = 'a'", {"id": 3, "name": "a"}, True),
        ("name is not null or id is null", {"id": 3}, False),
        ("name like 'x%'", {"name": "xy"}, True),
        ("name like 'x\\%'", {"name": "x%"}, True),
        (r"name = 'a\\b'", {"name": "a\\b"}, True),
        (r"name = 'a\tb\u00e4\'' ", {"name": "a\tbä'"}, True),
        (r'name = "it\'s ""so"""', {"name": 'it\'s "so"'}, True),
        (r"name like 'a\\\\b\_%'", {"name": "a\\b_c"}, True),
        ("id > 5L and price < 2.50BD and größe <> -1S", {"id": 6, "price": Decimal("2.00"), "größe": 1}, True),
        ("tz = '2026-01-01 10:00:00 UTC'", {"tz": micros("2026-01-01T10:00:00")}, True),
        ("tz = '2026-01-01T10:00:00Z'", {"tz": micros("2026-01-01T10:00:00")}, True),
        ("name like '%'", {"name": ""}, True),
        ("name not like 'x%'", {"name": "xy"}, False),
        ("name like 'a_c%'", {"name": "abc"}, True),
        ("not name like 'a_c%'", {"name": "abc"}, True),  # not known, so that it may
        ("1=1", {}, True),
        ("0=1", {}, False),
        ("1=1 and id = 2", {"id": 2}, True),
        ("'a' < 'b' and 2.5 >= 2", {}, True),
        ("date '2026-01-01' = timestamp '2026-01-01 00:00:00'", {}, True),  # as texts they differ
        ("timestamp '2026-01-01 00:00' < '2026-01-01'", {}, False),
        ("1 <=> 1 and not 1 <=> null and null <=> null", {}, True),
        ("ok", {"ok": True}, True),
        ("not ok", {"ok": False}, True),
        ("ok and id = 1", {"ok": True, "id": 1}, True),
        ("TRUE", {}, True),
        ("NOT id = 1 AND NOT (id = 2 OR id = 3)", {"id": 4}, True),
        ("id = 1 or id = 2 and name = 'a'", {"id": 1, "name": "b"}, True),
        ("(id = 1 or id = 2) and name = 'a'", {"id": 1, "name": "b"}, False),
        ("days(tz) >= '2026-01-01'", {"tz": micros("2026-01-01T00:00:00")}, True),
        ("day(tz) = date '2026-01-01'", {"tz": micros("2026-01-01T23:59:59")}, True),
        ("date(tz) <= '2026-01-01'", {"tz": micros("2026-01-02T00:00:00")}, False),
        ("years(day) = '2026'", {"day": times.to_days("2026-12-31")}, True),
        ("year(day) = 2026", {"day": times.to_days("2025-12-31")}, False),
        ("years(ts) = 56", {"ts": micros("2026-05-05T00:00:00")}, True),
        ("months(ts) in ('2026-01', '2026-03')", {"ts": micros("2026-03-31T23:00:00")}, True),
        ("hours(ts) = '2026-01-01-05'", {"ts": micros("2026-01-01T05:59:59")}, True),
        ("hours(ts) > '2026-01-01 05:00'", {"ts": micros("2026-01-01T05:59:59")}, False),
        ("hours(ts) is null", {}, True),
        ("cast(tz as date) = '2026-01-01'", {"tz": micros("2026-01-01T23:59:59")}, True),
        ("CAST(ts AS DATE) >= DATE '2026-01-02'", {"ts": micros("2026-01-01T23:59:59")}, False),
        ("to_date(ts) in ('2026-01-01')", {"ts": micros("2026-01-01T00:00:00")}, True),
        ("tz = '2026-1-2 3:4:5'", {"tz": micros("2026-01-02T03:04:05")}, True),
        ("tz = '2026'", {"tz": micros("2026-01-01T00:00:00")}, True),
        ("ts >= '2026-03'", {"ts": micros("2026-02-28T23:59:59")}, False),
        ("tz = '2026-01-01 10:00:00 +02:00'", {"tz": micros("2026-01-01T08:00:00")}, True),
        ("tz = '2026-01-01 10:00 GMT-3'", {"tz": micros("2026-01-01T13:00:00")}, True),
        ("tz = '2026-01-01 10:00:00.1234567'", {"tz": micros("2026-01-01T10:00:00.123456")}, True),
        ("day = '2026-1-9' or day = '2026'", {"day": times.to_days("2026-01-09")}, True),
        ("day = '2026-01-09 10:00:00'", {"day": times.to_days("2026-01-09")}, True),
        ("day >= timestamp '2026-01-09 10:00:00'", {"day": times.to_days("2026-01-09")}, False),
        ("day > timestamp '2026-01-09 00:00:00'", {"day": times.to_days("2026-01-09")}, False),
        ("day < timestamp '2026-01-09 10:00:00'", {"day": times.to_days("2026-01-09")}, True),
        ("day <= timestamp '2026-01-09 10:00:00'", {"day": times.to_days("2026-01-10")}, False),
        ("day = timestamp '2026-01-09 10:00:00'", {"day": times.to_days("2026-01-09")}, False),
        ("day <> timestamp '2026-01-09 10:00:00'", {"day": times.to_days("2026-01-09")}, True),
        ("day = timestamp '2026-01-09'", {"day": times.to_days("2026-01-09")}, True),
        ("ok <> false", {"ok": True}, True),
        ("ok <> false", {"ok": False}, False),
        ("größe < 2147483648 and not größe > 2147483648", {"größe": 1}, True),
        ("größe < 2147483648 or größe not in (2147483648)", {}, False),
        ("not größe < 2147483648 or not größe > 2147483648 or größe <> -2147483649", {}, False),
        ("system.days(ts) <> '2026-01-01'", {"ts": micros("2026-01-02T00:00:00")}, True),
        ("lake.system.truncate(4, name) = 'abcd'", {"name": "abcde"}, True),
        ("truncate(name, 4) = 'abc'", {"name": "abcd"}, False),
        ("truncate(10, id) = 20", {"id": 29}, True),
        ("truncate(10, id) = 25", {"id": 25}, False),
        ("truncate(50, price) = 1.5", {"price": Decimal("1.99")}, True),
    ],
)
def test_a_filter_means_what_it_means_in_spark(where: str, row: dict[str, Any], expected: bool) -> None:
    assert matches(where, **row) is expected


@examples(300)
@given(
    unit=st.sampled_from(sorted(UNITS)),
    symbol=st.sampled_from(sorted(OPERATORS)),
    at=st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)),
    shift=st.integers(-2, 2),
    negated=st.booleans(),
)
def test_units_of_time_are_compared_as_their_transforms(
    unit: str, symbol: str, at: datetime.datetime, shift: int, negated: bool
) -> None:
    value = (at - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    number = UNITS[unit].transform(types.TimestampType())(value)
    where = f"{'not ' if negated else ''}{unit}s(ts) {symbol} {number + shift}"
    if unit == "year" and number + shift >= 1000:
        return
    assert matches(where, ts=value) is (OPERATORS[symbol](number, number + shift) is not negated)


@examples(300)
@given(
    symbol=st.sampled_from(sorted(OPERATORS)),
    width=st.integers(1, 4),
    text=st.text("ab\U0001f600", max_size=6),
    other=st.text("ab\U0001f600", max_size=6),
    negated=st.booleans(),
)
def test_cut_texts_are_compared_as_their_transform(
    symbol: str, width: int, text: str, other: str, negated: bool
) -> None:
    where = f"{'not ' if negated else ''}truncate({width}, name) {symbol} '{other}'"
    assert matches(where, name=text) is (OPERATORS[symbol](text[:width], other) is not negated)


@examples(300)
@given(
    symbol=st.sampled_from(sorted(OPERATORS)),
    width=st.integers(1, 12),
    number=st.integers(-40, 40),
    other=st.integers(-40, 40),
    negated=st.booleans(),
)
def test_cut_numbers_are_compared_as_their_transform(
    symbol: str, width: int, number: int, other: int, negated: bool
) -> None:
    expected = OPERATORS[symbol](number - number % width, other) is not negated
    where = f"{'not ' if negated else ''}truncate({width}, id) {symbol} {other}"
    assert matches(where, id=number) is expected


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("bucket(4, id) = 2", [2]),
        ("not bucket(4, id) = 2", [0, 1, 3]),
        ("bucket(4, id) in (0, 3) and 1=1", [0, 3]),
        ("system.bucket(4, id) >= 2", [2, 3]),
        ("bucket(8, id) = 2", [0, 1, 2, 3]),  # another transform: every file may have such rows
        ("bucket(4, id) = 2 or name = 'never'", [0, 1, 2, 3]),
        ("bucket(id, 4) = 0 or 0=1", [0]),
    ],
)
def test_buckets_are_looked_up_in_partitions(where: str, kept: list[int]) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, transforms.BucketTransform(4), "id_bucket"))
    partitions = pa.array([f'{{"id_bucket":{number}}}' for number in range(4)]).dictionary_encode()
    files = pa.concat_tables([with_nulls(0)] * 4).append_column("partition", partitions)
    selected = where_clause.parse(where, SCHEMA).select(files, {0: spec}).to_pylist()
    assert [number for number, chosen in enumerate(selected) if chosen] == kept


def with_nulls(count: int) -> pa.Table:
    """A file of one row, whose id is null, or not."""
    name, table = column_metrics.column("null_value_counts", 1), one_file()
    return table.set_column(table.column_names.index(name), name, pa.array([count]))


def test_nulls_are_in_no_bucket() -> None:
    for where in ("bucket(8, id) = 2", "not bucket(8, id) = 2"):
        chosen = where_clause.parse(where, SCHEMA)
        files = [with_nulls(count).append_column("partition", pa.array(["{}"]).dictionary_encode()) for count in (0, 1)]
        assert [chosen.select(each, {0: PartitionSpec()}).to_pylist() for each in files] == [[True], [False]]


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("id like '1%'", "does not fit column id of type long: LIKE compares texts only."),
        ("day not like '2026%'", "does not fit column day of type date: LIKE compares texts only."),
        ("day = '20260101'", "of type date: '20260101' is no date such as '2026-01-31'."),
        ("tz = '2026-01-01 08:00 Mars/Base'", "no moment such as '2026-01-31' or '2026-01-31 08:00+02:00'."),
    ],
)
def test_values_that_do_not_fit_are_told(where: str, told: str) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        where_clause.parse(where, SCHEMA)
    assert str(caught.value).split("\n")[0].endswith(told)


@pytest.mark.parametrize(
    ("where", "words", "column"),
    [
        ("id = ", "the end is not expected here; expected is a column or a value", 5),
        ("id = 5 and", "the end is not expected here; expected is a column or a value", 10),
        ("", "the end is not expected here; expected is a column or a value", 0),
        ("id = 5 name", "'name' is not expected here; expected is AND, OR or the end", 7),
        ("id = 5 and (name = 'a'", "this parenthesis is not closed", 11),
        ("id = 5)", "this parenthesis closes none", 6),
        ("id ? 5", "'?' has no meaning here", 3),
        ("name = 'a", "the quote ' has no end", 7),
        ("id = name", "two columns cannot be compared", 5),
        ("id = 1 and startswith(name, 'ab')", "there is no function startswith; there are bucket", 11),
        ("cast(id as string) = '1'", "a column can be cast to a date only, as in cast(ts as date)", 0),
        ("id = null", "write IS NULL or IS NOT NULL", 5),
        ("id in ()", "expected is a column or a value", 7),
        ("id in (1 2)", "expected is )", 9),
        ("id between 1 or 2", "expected is AND", 13),
        ("id is 5", "expected is NULL, NAN, TRUE, FALSE or DISTINCT FROM", 6),
        ("ok is distinct 5", "'5' is not expected here; expected is FROM", 15),
        ("id - 1 = 5", "'-' is not expected here; expected is a comparison", 3),
        ("isnan(id) = true", "'=' is not expected here; expected is AND, OR or the end", 10),
        ("id not between null and 5", "write IS NULL or IS NOT NULL", 15),
        ("date '2026-01-01' < 'x'", "'x' is no time in UTC", 20),
        ("name like '%a%'", "LIKE knows % at the end of a text only", 10),
        ("id > 1 and idd = 5", "there is no column idd; there is id", 11),
        ("id > 1 and id = 'x'", "'x' is not a number to compare with", 16),
        ("name = date '2026-01-01'", "it cannot be compared with a date", 7),
        ("upper(name) = 'A'", "there is no function upper; there are bucket", 0),
        ("bucket(4, id) = 7", "there is no bucket 7; they are 0 to 3", 16),
        ("bucket(4, id) = 'a'", "a bucket is a number from 0 to 3", 16),
        ("bucket(id) = 1", "bucket takes a number above 0 and a column", 0),
        ("months(ts) = '2026-01-15'", "is compared with a month such as '2026-01'", 13),
        ("years(ts) = 2026", "2026 is ambiguous here; write a year such as '2026'", 12),
        ("month(ts) = 3", "3 is ambiguous here; write a month such as '2026-01'", 12),
        ("hours(day) = 5", "it has no hours", 13),
        ("days(ts) like 'a%'", "cannot be compared so", 0),
        ("5 = 'a'", "these two values cannot be compared", 4),
    ],
)
def test_errors_point_at_the_place(where: str, words: str, column: int) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        where_clause.parse(where, SCHEMA)
    sentence, line, caret = str(caught.value).split("\n")
    assert words in sentence
    assert line == f"  {where}"
    assert caret == f"  {' ' * column}^"


def test_a_long_filter_is_shown_around_the_place() -> None:
    where = " or ".join(["id = 1"] * 100) + " or idd = 2 or " + " or ".join(["id = 1"] * 100)
    with pytest.raises(errors.ConfigError) as caught:
        where_clause.parse(where, SCHEMA)
    _, line, caret = str(caught.value).split("\n")
    assert len(line) < 140
    assert line[len(caret) - 1 :].startswith("idd")
