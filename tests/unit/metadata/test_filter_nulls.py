"""Nulls and NaN in filters, by SQL's logic of three values as Spark has it: no file with a matching row is left out,
and where metrics are sure that none matches, the file is."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import types
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from tests.factories.examples import examples

from iceberg_compaction.metadata.filter import where_clause
from iceberg_compaction.metadata.manifest import column_metrics

SCHEMA = Schema(
    types.NestedField(1, "x", types.DoubleType(), required=False),
    types.NestedField(2, "b", types.BooleanType(), required=False),
)
VALUES = (None, math.nan, -math.inf, -1.0, 2.0, 3.0, math.inf)
TEXTS = {None: "null", math.nan: "'NaN'", math.inf: "'Infinity'", -math.inf: "'-inf'", -1.0: "-1", 2.0: "'2'", 3.0: "3"}


def selected(where: str, *rows: float | None, truths: tuple[bool | None, ...] = ()) -> bool:
    """Whether a file of these rows is selected."""
    truths = truths or (None,) * len(rows)
    numbers = [row for row in rows if row is not None and not math.isnan(row)]
    metrics = {
        1: (rows, [struct.pack("<d", each) for each in (min(numbers), max(numbers))] if numbers else [None, None]),
        2: (truths, [None, None]),
    }
    columns: dict[str, Any] = {
        "spec_id": pa.array([0]),
        "content": pa.array([0], pa.int8()),
        "partition": pa.array(["{}"]).dictionary_encode(),
    }
    for field_id, (values, (lower, upper)) in metrics.items():
        counts = {
            "value_counts": len(values),
            "null_value_counts": sum(value is None for value in values),
            "nan_value_counts": sum(isinstance(value, float) and math.isnan(value) for value in values),
        }
        for name, count in counts.items():
            columns[column_metrics.column(name, field_id)] = pa.array([count], pa.int64())
        columns[column_metrics.column("lower_bounds", field_id)] = pa.array([lower], pa.binary())
        columns[column_metrics.column("upper_bounds", field_id)] = pa.array([upper], pa.binary())
    found = where_clause.parse(where, SCHEMA).select(pa.table(columns), {0: PartitionSpec()})
    return bool(found[0].as_py())


def order(value: float) -> tuple[bool, float]:
    """NaN is greater than every number, and equal to itself."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def compared(symbol: str, row: float | None, value: float | None) -> bool | None:
    if symbol == "<=>":
        return row is value if row is None or value is None else order(row) == order(value)
    if row is None or value is None:
        return None
    one, two = order(row), order(value)
    return {"=": one == two, "<>": one != two, "<": one < two, "<=": one <= two, ">": one > two, ">=": one >= two}[
        symbol
    ]


def among(row: float | None, values: list[float | None]) -> bool | None:
    answers = [compared("=", row, value) for value in values]
    return True if True in answers else None if None in answers else False


def opposite(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


Meaning = tuple[str, Any]  # of a filter: its words, and what it says of a row


def _leaf(drawn: tuple[str, Any, Any]) -> Meaning:
    symbol, value, values = drawn
    listed = ", ".join(TEXTS[each] for each in values)
    match symbol:
        case "in":
            return f"x in ({listed})", lambda row: among(row, values)
        case "not in":
            return f"x not in ({listed})", lambda row: opposite(among(row, values))
        case "isnan":
            return "isnan(x)", lambda row: row is not None and math.isnan(row)
        case "is null":
            return "isnull(x)", lambda row: row is None
        case "is distinct from":
            return f"x is distinct from {TEXTS[value]}", lambda row: not compared("<=>", row, value)
    value = 2.0 if value is None and symbol != "<=>" else value
    return f"x {symbol} {TEXTS[value]}", lambda row: compared(symbol, row, value)


def _and(left: bool | None, right: bool | None) -> bool | None:
    return False if False in (left, right) else None if None in (left, right) else True


def _joined(drawn: tuple[str, Meaning, Meaning]) -> Meaning:
    word, (one, first), (two, second) = drawn
    if word == "not":
        return f"not ({one})", lambda row: opposite(first(row))
    if word == "and":
        return f"({one}) and ({two})", lambda row: _and(first(row), second(row))
    return f"({one}) or ({two})", lambda row: opposite(_and(opposite(first(row)), opposite(second(row))))


LEAVES = st.tuples(
    st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>", "in", "not in", "isnan", "is null", "is distinct from"]),
    st.sampled_from(VALUES),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
).map(_leaf)
FILTERS = st.recursive(
    LEAVES, lambda inner: st.tuples(st.sampled_from(["and", "or", "not"]), inner, inner).map(_joined), max_leaves=5
)


@examples(500)
@given(meaning=FILTERS, rows=st.lists(st.sampled_from(VALUES), min_size=1, max_size=3))
def test_no_file_with_a_matching_row_is_left_out(meaning: Meaning, rows: list[float | None]) -> None:
    where, says = meaning
    if any(says(row) is True for row in rows):
        assert selected(where, *rows), (where, rows)


@pytest.mark.parametrize(
    ("where", "rows", "expected"),
    [
        ("x in (2, null)", [2.0], True),
        ("x in (2, null)", [3.0, None], False),
        ("x not in (2, null)", [3.0], False),
        ("not (x in (2, null))", [3.0], False),
        ("not (x not in (2, null))", [2.0], True),
        ("not (x not in (2, null))", [3.0], False),
        ("x in (null)", [2.0, None], False),
        ("x in (null) or x = 3", [3.0], True),
        ("x <=> 2", [None], False),
        ("x <=> 2", [2.0], True),
        ("2 <=> x", [3.0], False),
        ("x <=> null", [2.0], False),
        ("x <=> null", [2.0, None], True),
        ("not x <=> 2", [None], True),
        ("not x <=> null", [None], False),
        ("x is distinct from 2", [2.0], False),
        ("x is not distinct from null", [None], True),
        ("x <> 2 or x <> 3", [None], False),  # null is neither, in SQL
        ("isnan(x)", [2.0], False),
        ("isnan(x)", [2.0, math.nan], True),
        ("not isnan(x)", [math.nan], False),
        ("not isnan(x)", [None], True),  # isnan of null is false
        ("isnotnull(x)", [None], False),
        ("x = 'NaN'", [2.0, None], False),
        ("x = 'nan'", [math.nan], True),
        ("x = double('NaN') or x = float(3)", [2.0, None], False),
        ("x <> 'NaN'", [math.nan], False),
        ("x <> 'NaN'", [None], False),
        ("x >= 'NaN'", [math.inf], False),
        ("x > 'NaN'", [math.nan, 2.0], False),
        ("not x > 'NaN'", [None], False),
        ("x < 'NaN'", [math.nan], False),
        ("x in ('NaN', 2)", [3.0], False),
        ("x not in ('NaN', 2)", [math.nan], False),
        ("x between 2 and 'NaN'", [-1.0], False),
        ("x <= 2", [math.nan, None], False),  # NaN is greater than every number
        ("x = 2 or x in (2, 3)", [math.nan, None], False),
        ("x > 2", [math.nan, None], True),
        ("x > 2", [2.0, -1.0], False),
        ("x < 2", [2.0, 3.0], False),
        ("x = 'Infinity'", [2.0], False),
        ("x = '+inf'", [math.inf], True),
        ("x <= '-Infinity'", [-1.0], False),
    ],
)
def test_where_no_row_can_match_the_file_is_left_out(where: str, rows: list[float | None], expected: bool) -> None:
    assert selected(where, *rows) is expected


@pytest.mark.parametrize(
    ("where", "truths", "expected"),
    [("b is true", (None,), False), ("b is not true", (None,), True), ("b is false or b is null", (None,), True)],
)
def test_truth_values_are_checked_for_nulls(where: str, truths: tuple[bool | None, ...], expected: bool) -> None:
    assert selected(where, 1.0, truths=truths) is expected
