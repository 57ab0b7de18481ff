"""Every type of the format, alone and nested, with the values that tend to break; and the metrics that Java has for the
same rows."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

from pyiceberg import types
from pyiceberg.schema import Schema
from tests.factories import java_metrics
from tests.interop.scenarios.scene import Play, Scenario, Scene, scenario

_UTC = dt.timezone.utc
_NAN, _INF = float("nan"), float("inf")


def optional(field_id: int, name: str, kind: types.IcebergType) -> types.NestedField:
    return types.NestedField(field_id, name, kind, required=False)


def required(field_id: int, name: str, kind: types.IcebergType) -> types.NestedField:
    return types.NestedField(field_id, name, kind, required=True)


def _decimal(precision: int, scale: int) -> tuple[types.IcebergType, list[Any]]:
    values = [f"{sign}{'9' * precision}e-{scale}" for sign in ("", "-")] + ["0", f"1e-{scale}"]
    return types.DecimalType(precision, scale), [Decimal(value) for value in values]


_TEXTS = [
    "", "a", "\u00e9", "\u4e2d", "\U0001f600", "a" * 16, "a" * 17, "\U0001f600" * 17, "\x00", "\ud7ff" * 17,
    "\U0010ffff" * 17, "\uffff" * 16, "z" * 15 + "\U0010ffff" + "q",
]  # fmt: skip

_PRIMITIVES: dict[str, tuple[types.IcebergType, list[Any]]] = {
    "boolean": (types.BooleanType(), [True, False]),
    "int": (types.IntegerType(), [0, -(2**31), 2**31 - 1]),
    "long": (types.LongType(), [0, -(2**63), 2**63 - 1]),
    "float": (types.FloatType(), [0.0, -0.0, _NAN, _INF, -_INF, 1e-45, 3.4028234663852886e38]),
    "double": (types.DoubleType(), [0.0, -0.0, _NAN, _INF, -_INF, 5e-324, 1.7976931348623157e308]),
    "float_negative_zero": (types.FloatType(), [-0.0, -0.0]),
    "float_positive_zero": (types.FloatType(), [0.0, 0.0]),
    "double_zeros": (types.DoubleType(), [0.0, -0.0]),
    "double_only_nan": (types.DoubleType(), [_NAN, _NAN]),
    "double_nan_and_one": (types.DoubleType(), [_NAN, 1.0]),
    "decimal_1_0": _decimal(1, 0),
    "decimal_9_2": _decimal(9, 2),
    "decimal_10_2": _decimal(10, 2),
    "decimal_18_0": _decimal(18, 0),
    "decimal_19_4": _decimal(19, 4),
    "decimal_38_38": _decimal(38, 38),
    "date": (types.DateType(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    "time": (types.TimeType(), [dt.time(0), dt.time(23, 59, 59, 999999)]),
    "timestamp": (
        types.TimestampType(),
        [dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(9999, 12, 31, 23, 59, 59)],
    ),
    "timestamptz": (
        types.TimestamptzType(),
        [dt.datetime(1, 1, 2, tzinfo=_UTC), dt.datetime(9999, 12, 30, 1, 2, 3, 4, tzinfo=_UTC)],
    ),
    "string": (types.StringType(), _TEXTS),
    "uuid": (types.UUIDType(), [uuid.UUID(int=n).bytes for n in (0, 1, 2**127, 2**128 - 1)]),
    "fixed_1": (types.FixedType(1), [b"\x00", b"\xff"]),
    "fixed_20": (types.FixedType(20), [b"\x00" * 20, b"\xff" * 20, b"\x80" + b"a" * 19]),
    "binary": (types.BinaryType(), [b"", b"\x00", b"\x80" * 17, b"\x7f" * 16 + b"\xff\xff", b"a" * 40]),
    "binary_that_has_no_upper_bound": (types.BinaryType(), [b"\xff" * 17, b"\xff" * 40]),
    "string_that_has_no_upper_bound": (types.StringType(), ["\U0010ffff" * 17]),
}


def _alone(name: str) -> Scenario:
    kind, values = _PRIMITIVES[name]
    schema = Schema(required(1, "id", types.LongType()), optional(2, "x", kind), optional(3, "empty", kind))

    @scenario(f"R33_{name}_bit_for_bit_and_with_javas_metrics", columns=schema)
    def play(scene: Scene) -> Play:
        some = [{"id": n, "x": value, "empty": None} for n, value in enumerate(values)]
        scene.append(some, [{"id": 99, "x": None}], some[:1])
        yield
        assert set(java_metrics.check(scene.table)["valueCounts"]) == {1, 2, 3}

    return play


_EVERY = [
    types.BooleanType(), types.IntegerType(), types.LongType(), types.FloatType(), types.DoubleType(), types.DateType(),
    types.TimeType(), types.TimestampType(), types.TimestamptzType(), types.StringType(), types.UUIDType(),
    types.FixedType(4), types.BinaryType(), types.DecimalType(7, 3), types.DecimalType(15, 3),
    types.DecimalType(25, 3),
]  # fmt: skip
_SAMPLES = [
    True, 7, 2**40, -0.0, _NAN, dt.date(2026, 1, 1), dt.time(1, 2, 3), dt.datetime(2026, 1, 1),
    dt.datetime(2026, 1, 1, tzinfo=_UTC), "\U0001f600", uuid.UUID(int=77).bytes, b"abcd", b"", Decimal("1.125"),
    Decimal("-1.125"), Decimal("99999999999999999999.125"),
]  # fmt: skip


@scenario(
    "R33_every_primitive_required",
    columns=Schema(*(required(n + 1, f"c{n}", kind) for n, kind in enumerate(_EVERY))),
)
def every_required(scene: Scene) -> Play:
    row = {f"c{n}": value for n, value in enumerate(_SAMPLES)}
    scene.append([row, row], [row])
    yield
    java_metrics.check(scene.table)


def _nesting(shape: str) -> Scenario:
    """Every primitive inside a struct, a list, a map's values or a map's keys."""
    fields = []
    for n, kind in enumerate(_EVERY):
        at = 100 + 10 * n
        nested: types.IcebergType = types.StructType(optional(at, "a", kind), required(at + 1, "b", kind))
        if shape == "list":
            nested = types.ListType(element_id=at, element=kind, element_required=False)
        elif shape == "map_values":
            nested = types.MapType(at, types.StringType(), at + 1, kind, value_required=False)
        elif shape == "map_keys":
            nested = types.MapType(at, kind, at + 1, types.IntegerType(), value_required=False)
        fields.append(optional(n + 1, f"c{n}", nested))

    def value(sample: Any, *, null: bool) -> Any:
        made = {
            "struct": {"a": None if null else sample, "b": sample},
            "list": [] if null else [sample, None, sample],
            "map_values": [] if null else [("k", sample), ("l", None)],
            "map_keys": [] if null else [(sample, 1)],
        }
        return made[shape]

    @scenario(f"R33_every_primitive_in_{shape}", columns=Schema(*fields))
    def play(scene: Scene) -> Play:
        for null in (False, True):
            scene.append([{f"c{n}": value(sample, null=null) for n, sample in enumerate(_SAMPLES)}, {}])
        yield
        java_metrics.check(scene.table)

    return play


_DEEP = Schema(
    optional(
        1,
        "l",
        types.ListType(
            10,
            types.MapType(
                11,
                types.StringType(),
                12,
                types.StructType(
                    optional(13, "x", types.ListType(14, types.ListType(15, types.LongType(), False), False)),
                    optional(16, "y", types.StructType(optional(17, "z", types.DecimalType(20, 2)))),
                ),
                False,
            ),
            False,
        ),
    ),
    required(2, "s", types.StructType(optional(20, "t", types.StructType(required(21, "u", types.StringType()))))),
)


@scenario("R33_deep_nesting_with_nothing_at_every_level", columns=_DEEP)
def deep(scene: Scene) -> Play:
    inner = [
        None, {"x": None, "y": None}, {"x": [], "y": {"z": None}}, {"x": [None, [], [1, None]], "y": {"z": Decimal(1)}},
    ]  # fmt: skip
    lists = [None, [], [None], [[]], [[("k", value)] for value in inner], [[(f"k{n}", v) for n, v in enumerate(inner)]]]
    structs = [{"t": None}, {"t": {"u": "x"}}]
    scene.append([{"l": value, "s": structs[n % 2]} for n, value in enumerate(lists)])
    scene.append([{"l": value, "s": structs[(n + 1) % 2]} for n, value in enumerate(lists)])
    yield
    java_metrics.check(scene.table)


@scenario("R33_columns_of_nulls_only", columns="id bigint, a string, b array<int>, c struct<d:double>, e map<int,int>")
def only_nulls(scene: Scene) -> Play:
    scene.append([{"id": 1}], [{"id": 2}])
    yield
    java_metrics.check(scene.table)


@scenario("R33_odd_names_of_columns", columns="`a.b` int, `a b` string, `é` double, `1x` date, `a-b` struct<`x.y`:int>")
def odd_names(scene: Scene) -> Play:
    row = {"a.b": 1, "a b": "x", "é": 2.5, "1x": dt.date(2026, 1, 1), "a-b": {"x.y": 3}}
    scene.append([row], [row, {}])
    yield
    java_metrics.check(scene.table)


SCENARIOS = [
    *map(_alone, _PRIMITIVES), every_required, *map(_nesting, ("struct", "list", "map_values", "map_keys")), deep,
    only_nulls, odd_names,
]  # fmt: skip
