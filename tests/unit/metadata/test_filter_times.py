"""Times that a filter computes: the clock is an argument, and what depends on it is pinned in words."""

from __future__ import annotations

import pytest
from pyiceberg import types
from pyiceberg.schema import Schema

from iceberg_compaction import errors
from iceberg_compaction.metadata.filter import where_clause
from iceberg_compaction.model import times

SCHEMA = Schema(
    types.NestedField(1, "ts", types.TimestamptzType(), required=False),
    types.NestedField(2, "dt", types.DateType(), required=False),
    types.NestedField(3, "timestamp", types.TimestampType(), required=False),
    types.NestedField(
        4, "s", types.StructType(types.NestedField(5, "current_date", types.DateType(), required=False)), required=False
    ),
)
NOW = times.to_micros("2026-03-31T05:06:07.089") // 1000


@pytest.mark.parametrize(
    ("where", "pinned"),
    [
        ("ts >= current_date()", "ts >= date '2026-03-31'"),
        ("ts >= CURRENT_DATE and dt < current_date ( )", "ts >= date '2026-03-31' and dt < date '2026-03-31'"),
        ("ts < current_timestamp()", "ts < timestamp '2026-03-31 05:06:07.089000'"),
        ("now() > ts or 1=1", "timestamp '2026-03-31 05:06:07.089000' > ts or 1=1"),
        ("dt = current_date() - interval 7 days", "dt = date '2026-03-24'"),
        ("dt = current_date()-7", "dt = date '2026-03-24'"),
        ("dt = current_date() - 7L", "dt = date '2026-03-24'"),
        ("dt = current_date + 1 - interval '2' day", "dt = date '2026-03-30'"),
        ("dt in (date_sub(current_date(), 7), date_add(now(), -1))", "dt in (date '2026-03-24', date '2026-03-30')"),
        ("ts > now() - interval 1 day", "ts > timestamp '2026-03-30 05:06:07.089000'"),
        ("ts > now() - INTERVAL '1 day 2 hours'", "ts > timestamp '2026-03-30 03:06:07.089000'"),
        ("ts > now() - interval 1 week 30 minutes", "ts > timestamp '2026-03-24 04:36:07.089000'"),
        ("ts > current_date() - interval 6 hours", "ts > timestamp '2026-03-30 18:00:00'"),
        ("dt >= current_date() - interval 1 month", "dt >= date '2026-02-28'"),
        ("dt >= add_months(current_date(), -13)", "dt >= date '2025-02-28'"),
        ("dt >= current_date() + interval -1 year", "dt >= date '2025-03-31'"),
        ("ts >= date_trunc('month', now())", "ts >= timestamp '2026-03-01 00:00:00'"),
        ("ts >= date_trunc('WEEK', current_timestamp)", "ts >= timestamp '2026-03-30 00:00:00'"),
        ("ts >= date_trunc('hour', now() - interval 6 hours)", "ts >= timestamp '2026-03-30 23:00:00'"),
        ("dt >= trunc(current_date(), 'YEAR')", "dt >= date '2026-01-01'"),
        ("ts >= cast(current_date() as timestamp)", "ts >= timestamp '2026-03-31 00:00:00'"),
        ("dt between date(now()) and to_date(now())", "dt between date '2026-03-31' and date '2026-03-31'"),
        ("days(ts) = current_date() and s.current_date < '2026-01-01'",) * 2,
        # What does not ask for the time stays as it was written.
        ("ts >= date '2026-01-01' - interval 7 days and date(timestamp) = '2026-01-01'",) * 2,
        ("`current_date` = 1 or 'now()' = 'x'",) * 2,
    ],
)
def test_what_depends_on_the_clock_is_pinned(where: str, pinned: str) -> None:
    pinned = pinned.replace("= current_date()", "= date '2026-03-31'") if pinned == where else pinned
    assert where_clause.pin(where, SCHEMA, NOW) == pinned
    assert where_clause.pin(pinned, SCHEMA, 0) == pinned, "a plan is read at another time"


def test_a_column_may_have_the_name_of_a_function() -> None:
    schema = Schema(types.NestedField(1, "Current_Date", types.DateType(), required=False))
    where = "current_date >= current_date() - 1"
    assert where_clause.pin(where, schema, NOW) == "current_date >= date '2026-03-30'"


@pytest.mark.parametrize(
    ("where", "same"),
    [
        ("ts >= date '2026-01-08' - interval 7 days", "ts >= '2026-01-01'"),
        ("ts >= timestamp '2026-01-01 08:00' + interval '90' minutes", "ts >= '2026-01-01 09:30'"),
        ("ts < cast('2026-01-31' as timestamp)", "ts < '2026-01-31'"),
        ("dt < cast('2026-01-31 23:00:00' as date)", "dt < '2026-01-31'"),
        ("dt <= to_date('2026-01-31') and ts > to_timestamp('2026-01-01 05:00:00Z')", None),
        ("date(timestamp) = date('2026-01-31')", "date(timestamp) = '2026-01-31'"),
        ("dt = date '2024-02-29' - interval 1 year", "dt = '2023-02-28'"),
        ("dt > date '0001-01-01' - 366", "dt > '0000-01-01'"),
        ("date '2026-01-02' - 1 = date '2026-01-01'", "true"),
    ],
)
def test_times_are_computed_without_a_clock_too(where: str, same: str | None) -> None:
    same = same or "dt <= '2026-01-31' and ts > '2026-01-01 05:00:00'"
    assert where_clause.parse(where, SCHEMA).expression == where_clause.parse(same, SCHEMA).expression


@pytest.mark.parametrize(
    ("where", "words", "column"),
    [
        (
            "ts > now() - interval 7 fortnights",
            "'fortnights' is not expected here; expected is a unit such as DAYS",
            24,
        ),
        ("ts > now() - interval '7 fortnights'", "'7 fortnights' is no interval such as '7 days'", 22),
        ("ts > now() - interval ''", "the interval is empty", 22),
        ("ts > now() - interval days", "expected is an interval such as INTERVAL 7 DAYS", 22),
        ("ts > now() - 7", "expected is an interval such as INTERVAL 7 DAYS", 13),
        ("ts > current_date() - 1.5", "'1.5' is not expected here; expected is a whole number, or INTERVAL", 22),
        ("ts > current_date() - 9999999999", "expected is a whole number", 22),
        ("ts > date_trunc('fortnight', now())", "is no unit of time; there are day", 16),
        ("ts > date_trunc('day', ts)", "'ts' is not expected here; expected is a time", 23),
        ("ts > cast(now() as text)", "'text' is not expected here; expected is DATE or TIMESTAMP", 19),
        ("ts > to_date('soon')", "'soon' is no timestamp in UTC such as '2026-01-31'", 13),
        ("ts > now(", "the end is not expected here; expected is )", 9),
    ],
)
def test_errors_point_at_the_place(where: str, words: str, column: int) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        where_clause.pin(where, SCHEMA, NOW)
    sentence, line, caret = str(caught.value).split("\n")
    assert words in sentence
    assert (line, caret) == (f"  {where}", f"  {' ' * column}^")


def test_without_a_clock_nothing_is_made_up() -> None:
    with pytest.raises(errors.ConfigError, match="now asks for the time, which is not known here"):
        where_clause.parse("ts > now()", SCHEMA)


def test_times_beyond_every_calendar_are_refused() -> None:
    with pytest.raises(errors.ConfigError, match="out of its range"):
        where_clause.parse(where_clause.pin("ts > now() + interval 999999999 years", SCHEMA, NOW), SCHEMA)


def test_a_filter_is_checked_before_a_table_is_known() -> None:
    where_clause.check("anything >= current_date() - interval 7 days and other = 'x'")
    with pytest.raises(errors.ConfigError, match=r"cannot be read|is not|expected"):
        where_clause.check("anything >= current_date( and")
