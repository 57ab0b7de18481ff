"""Equality deletes, alone and beside position deletes; and which of them a compaction may remove."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

from pyiceberg import types
from pyiceberg.schema import Schema
from tests.interop.scenarios.scene import HIVE_NULL, Play, Scenario, Scene, rows, scenario

_BY_P = {"partitioned_by": "p"}
_UTC = dt.timezone.utc


# Any type may be a key; the values at odd places are deleted.
_KEYS: dict[str, tuple[types.IcebergType, list[Any]]] = {
    "boolean": (types.BooleanType(), [True, False, True]),
    "int": (types.IntegerType(), [0, -(2**31), 2**31 - 1, 7]),
    "long": (types.LongType(), [0, -(2**63), 2**63 - 1, 7]),
    "float": (types.FloatType(), [1.5, -2.25, float("inf"), float("nan"), 0.0, -0.0, 4.0]),
    "double": (types.DoubleType(), [1.5, -2.25, float("inf"), float("nan"), -0.0, 0.0, 4.0]),
    "date": (types.DateType(), [dt.date(1969, 12, 31), dt.date(1900, 1, 1), dt.date(2026, 2, 28), dt.date(9999, 1, 1)]),
    "time": (types.TimeType(), [dt.time(0), dt.time(23, 59, 59, 999999), dt.time(12), dt.time(1, 2, 3, 4)]),
    "timestamp": (
        types.TimestampType(),
        [dt.datetime(1969, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2026, 1, 1)],
    ),
    "timestamptz": (
        types.TimestamptzType(),
        [dt.datetime(2026, 1, 1, tzinfo=_UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=_UTC)],
    ),
    "decimal_of_4_bytes": (types.DecimalType(9, 2), [Decimal("0.00"), Decimal("-1.25"), Decimal("9999999.99")]),
    "decimal_of_8_bytes": (types.DecimalType(18, 4), [Decimal("1.0000"), Decimal("-99999999999999.9999")]),
    "decimal_of_16_bytes": (
        types.DecimalType(38, 10),
        [Decimal("1.0000000000"), Decimal("-88888888888888888888.0000000001")],
    ),
    "string": (types.StringType(), ["", "a", "\u00e9", "\U0001f600", "z" * 40, "z" * 39 + "y"]),
    "uuid": (types.UUIDType(), [uuid.UUID(int=1).bytes, uuid.UUID(int=2**126 + 5).bytes, uuid.UUID(int=3).bytes]),
    "fixed": (types.FixedType(3), [b"\x00\x00\x00", b"\xff\xff\xff", b"abc"]),
    "binary": (types.BinaryType(), [b"", b"\x00", b"\xff\x00", b"\xff"]),
}


def _key(name: str) -> Scenario:
    key, values = _KEYS[name]
    schema = Schema(
        types.NestedField(1, "id", types.LongType(), required=False), types.NestedField(2, "k", key, required=False)
    )

    @scenario(f"R22_keys_of_type_{name}", columns=schema)
    def play(scene: Scene) -> Play:
        first = [{"id": n, "k": value} for n, value in enumerate(values)]
        scene.append(first, [*first, {"id": 98, "k": None}])
        scene.delete([{"k": value} for value in values[1::2]])
        scene.append([{"id": 99, "k": values[1]}])  # came later, stays
        assert len(scene.ids()) == 2 * len(values[::2]) + 2
        yield
        assert {98, 99} < set(scene.ids())

    return play


def _every_key(file_format: str) -> Scenario:
    """Rows that have one column each, and one of them is deleted for each type: by Java's writer of that format."""
    names = [name for name in _KEYS if name != "boolean"]
    schema = Schema(
        types.NestedField(1, "id", types.LongType(), required=False),
        *(types.NestedField(n + 2, name, _KEYS[name][0], required=False) for n, name in enumerate(names)),
    )

    @scenario(f"R22_keys_of_every_type_in_{file_format}", columns=schema)
    def play(scene: Scene) -> Play:
        scene.append(
            [{"id": n, name: _KEYS[name][1][0]} for n, name in enumerate(names)],
            [{"id": n + 100, name: _KEYS[name][1][1]} for n, name in enumerate(names)],
        )
        scene.commit(*(scene.equality([{name: _KEYS[name][1][0]}], file_format=file_format) for name in names))
        expected = [n + 100 for n in range(len(names))]
        assert sorted(scene.ids()) == expected
        yield
        assert sorted(scene.ids()) == expected

    return play


@scenario("R22_null_matches_null", spark=True)
def nulls(scene: Scene) -> Play:
    scene.append([{"id": 1, "v": None}, {"id": 2, "v": "x"}], [{"id": 3, "v": None}, {"id": None, "v": "y"}])
    scene.delete([{"v": None}])
    yield
    assert sorted(scene.ids(), key=str) == [2, None]


@scenario("R22_several_columns_must_all_match")
def several_columns(scene: Scene) -> Play:
    scene.append(rows(1, 2, 3), [{"id": 1, "p": "b", "v": None}, {"id": 2, "p": None, "v": None}])
    scene.delete([{"id": 1, "p": "b"}, {"id": 2, "p": None}, {"id": 3, "p": "z"}])
    yield
    assert sorted(scene.ids()) == [1, 2, 3]


@scenario("R22_several_sets_of_columns", again=True)
def several_sets(scene: Scene) -> Play:
    scene.append(rows(*range(10)), rows(*range(10, 20)))
    scene.commit(scene.equality([{"id": 3}, {"id": 12}]), scene.equality([{"v": "v4"}, {"v": "v3"}]))
    scene.delete([{"p": "a", "v": "v15"}])
    yield
    assert len(scene.ids()) == 16


@scenario("R22_columns_that_are_not_compared_mean_nothing")
def extra_columns(scene: Scene) -> Play:
    scene.append(rows(1, 2, 3), rows(4))
    scene.delete([{"id": 2, "v": "something else"}], "id", extra=["v"])
    yield
    assert sorted(scene.ids()) == [1, 3, 4]


@scenario("R22_nested_leaf_and_null_parent", columns="id bigint, s struct<a:int,b:struct<c:string,d:int>>")
def nested(scene: Scene) -> Play:
    scene.append(
        [{"id": 1, "s": {"a": 1, "b": {"c": "x"}}}, {"id": 2, "s": None}, {"id": 3, "s": {"a": 2, "b": None}}],
        [{"id": 4, "s": {"a": 3, "b": {"c": None, "d": 4}}}, {"id": 5, "s": {"a": 1, "b": {"c": "y"}}}],
    )
    scene.commit(scene.equality([{"s": {"b": {"c": "x"}}}], "s.b.c"))
    scene.append([{"id": 6, "s": None}])
    scene.commit(scene.equality([{"s": {"a": 3}}], "s.a"))
    yield
    assert sorted(scene.ids()) == [2, 3, 5, 6]


@scenario("R22_null_key_of_a_nested_leaf", columns="id bigint, s struct<a:int,b:int>", generic=False)
def nested_null(scene: Scene) -> Play:
    """A row without the struct has no leaf either and is deleted; Java compares structs as a whole and would keep it,
    against the format's own words (a null matches where `s.a IS NULL`)."""
    scene.append([{"id": 1, "s": None}, {"id": 2, "s": {"a": None, "b": 1}}], [{"id": 3, "s": {"a": 1, "b": None}}])
    scene.commit(scene.equality([{"s": {"a": None}}], "s.a"))
    yield
    assert sorted(scene.ids()) == [3]


@scenario("R2_only_older_rows_are_deleted")
def only_older(scene: Scene) -> Play:
    scene.append(rows(1, 2))
    scene.delete([{"id": 1}])
    scene.append(rows(1, 3))
    scene.delete([{"id": 3}])
    scene.append(rows(3, 2))
    yield
    assert sorted(scene.ids()) == [1, 2, 2, 3]


@scenario("bug_15305_deletes_do_not_reach_rows_of_their_own_commit")
def own_commit(scene: Scene) -> Play:
    scene.append(rows(1, 2))
    scene.commit(scene.equality([{"id": 1}]), rows=scene.write(rows(1, 5)))
    yield
    assert sorted(scene.ids()) == [1, 2, 5]


def _format(file_format: str) -> Scenario:
    @scenario(
        f"R22_delete_files_in_{file_format}", columns="id bigint, k decimal(12,3), d date, ts timestamp, b binary"
    )
    def play(scene: Scene) -> Play:
        def row(n: int) -> dict[str, Any]:
            at = dt.datetime(2026, 1, 1, n, tzinfo=_UTC)
            return {"id": n, "k": Decimal(n) / 8, "d": at.date(), "ts": at, "b": bytes([n])}

        scene.append([row(n) for n in range(10)], [row(n) for n in range(10, 20)])
        for column, n in (("id", 1), ("k", 3), ("d", 99), ("ts", 5), ("b", 7)):
            key = {column: row(n % 20)[column] if n < 20 else dt.date(1999, 1, 1)}
            scene.delete([key], file_format=file_format)
        yield
        assert len(scene.ids()) == 16

    return play


@scenario("R18_deletes_of_one_partition_leave_the_others", **_BY_P, spark=True)
def one_partition(scene: Scene) -> Play:
    scene.append([*rows(1, 2), *rows(1, 2, p="b"), *rows(1, p=None)], rows(3))
    scene.delete([{"id": 1}], partition="p=a")
    scene.delete([{"id": 2}], partition="p=b")
    yield
    assert sorted(scene.ids()) == [1, 1, 2, 3]


@scenario("R18_deletes_of_the_null_partition", **_BY_P)
def null_partition(scene: Scene) -> Play:
    scene.append([*rows(1, 2), *rows(1, 2, p=None)], rows(3, p=None))
    scene.delete([{"id": 1}], partition=f"p={HIVE_NULL}")
    yield
    assert sorted(scene.ids()) == [1, 2, 2, 3]


@scenario("R18_a_delete_of_an_unpartitioned_spec_is_global", again=True, settled=False)
def global_delete(scene: Scene) -> Play:
    """Spec 0 has no fields, data lie in spec 1; the delete of spec 0 reaches them all."""
    scene.sql("alter table {t} add partition field p")
    scene.append([*rows(1, 2), *rows(1, 2, p="b"), *rows(1, p=None)], rows(4))
    scene.delete([{"id": 1}], spec_id=0)
    scene.append(rows(1, p="b"))
    yield
    assert sorted(scene.ids()) == [1, 2, 2, 4]


@scenario("R22_deletes_that_match_nothing")
def no_match(scene: Scene) -> Play:
    scene.append(rows(1, 2), rows(3))
    scene.delete([{"id": 77}, {"id": None}])
    yield
    assert sorted(scene.ids()) == [1, 2, 3]


@scenario("R22_many_keys_and_the_same_ones_again", engine="spark")
def many_keys(scene: Scene) -> Play:
    scene.append(rows(*range(3000)), rows(*range(3000, 4000)))
    keys = [{"id": n} for n in range(0, 8000, 2)]
    scene.commit(scene.equality(keys), scene.equality(keys[::3], file_format="avro"))
    scene.delete(keys[::5])
    yield
    assert len(scene.ids()) == 2000


# Keys and the evolution of their columns


# Iceberg's generic reader does not find a dropped key (bug 15268), Spark's does.


@scenario("R23_key_column_dropped", spark=True, generic=False)
def key_dropped(scene: Scene) -> Play:
    scene.append([{"id": 1, "p": "x"}, {"id": 2, "p": "y"}], [{"id": 3, "p": "x"}])
    scene.delete([{"p": "x"}])
    scene.evolve(lambda update: update.deleteColumn("p"))
    scene.append([{"id": 4}])
    yield
    assert sorted(scene.ids()) == [2, 4]


@scenario("R23_nested_key_dropped", spark=True, generic=False, columns="id bigint, s struct<a:int,b:int>")
def nested_key_dropped(scene: Scene) -> Play:
    scene.append([{"id": 1, "s": {"a": 1, "b": 1}}, {"id": 2, "s": None}], [{"id": 3, "s": {"a": 2, "b": 2}}])
    scene.delete([{"s": {"a": 2}}], "s.a")
    scene.evolve(lambda update: update.deleteColumn("s.a"))
    yield
    assert sorted(scene.ids()) == [1, 2]


@scenario("R23_key_column_dropped_and_its_name_taken_again", generic=False)  # Java reads it with neither
def key_renewed(scene: Scene) -> Play:
    scene.append([{"id": 1, "p": "x"}, {"id": 2, "p": "y"}])
    scene.delete([{"p": "x"}])
    scene.evolve(lambda update: update.deleteColumn("p"))
    scene.sql("alter table {t} add column p string")
    scene.append([{"id": 3, "p": "x"}])
    yield
    assert sorted(scene.ids()) == [2, 3]


@scenario("R27_key_column_renamed")
def key_renamed(scene: Scene) -> Play:
    scene.append(rows(1, 2, 3), rows(4))
    scene.delete([{"id": 1}])
    scene.evolve(lambda update: update.renameColumn("id", "number"))
    scene.evolve(lambda update: update.renameColumn("v", "id"))
    scene.delete([{"number": 3}])
    assert len(scene.ids()) == 2
    yield


@scenario("R29_key_column_promoted", columns="id int, k decimal(5,2), f float")
def key_promoted(scene: Scene) -> Play:
    scene.append([{"id": n, "k": Decimal(n), "f": n / 2} for n in range(6)])
    scene.commit(scene.equality([{"id": 1}]), scene.equality([{"k": Decimal(2)}]))
    scene.sql("alter table {t} alter column id type bigint", "alter table {t} alter column k type decimal(20,2)")
    scene.append([{"id": 2**40, "k": Decimal(10**15), "f": 0.25}])
    scene.commit(scene.equality([{"id": 3}, {"id": 2**41}]), scene.equality([{"k": Decimal(4)}]))
    yield
    assert sorted(scene.ids()) == [0, 5, 2**40]


@scenario("R23_key_column_added_later")
def key_added(scene: Scene) -> Play:
    scene.append(rows(1, 2))
    scene.sql("alter table {t} add column k int")
    scene.append([{"id": 3, "k": 5}, {"id": 4, "k": None}])
    scene.delete([{"k": 5}])
    scene.delete([{"id": 1, "k": None}])
    yield
    assert sorted(scene.ids()) == [2, 4]


@scenario("R23_null_key_of_a_column_added_later_reaches_all_older_rows")
def key_added_null(scene: Scene) -> Play:
    scene.append(rows(1, 2))
    scene.sql("alter table {t} add column k int")
    scene.append([{"id": 3, "k": 5}])
    scene.delete([{"k": None}])
    yield
    assert sorted(scene.ids()) == [3]


# Beside position deletes, and later ones


@scenario("R20_R22_both_kinds_on_one_file", again=True, spark=True)
def both_kinds(scene: Scene) -> Play:
    path, _ = scene.append(rows(*range(10)), rows(20, 21))
    scene.delete([{"id": 1}, {"id": 20}])
    scene.commit(scene.positions([(path, 2), (path, 1)]), scene.equality([{"v": "v3"}]))
    (file,) = scene.write(rows(30, 31))
    scene.commit(scene.positions([(str(file.location()), 0)]), scene.equality([{"id": 31}, {"id": 9}]), rows=[file])
    yield
    assert sorted(scene.ids()) == [0, 4, 5, 6, 7, 8, 21, 31]


@scenario("R20_R22_both_kinds_in_partitions_and_an_older_spec", **_BY_P, settled=False, engine="spark")
def both_kinds_specs(scene: Scene) -> Play:
    first, _ = scene.append(rows(*range(6)), rows(*range(6), p="b"))
    scene.sql("alter table {t} drop partition field p")
    scene.append(rows(*range(6), p="c"))
    scene.commit(
        scene.equality([{"id": 0}]),  # the current spec has no fields: everywhere
        scene.equality([{"id": 1}], partition="p=a", spec_id=0),
        scene.positions([(first, 2)], partition="p=a", spec_id=0),
    )
    scene.append(rows(0, 1, 2))
    yield
    assert sorted(scene.ids()) == [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]


SCENARIOS = [
    *map(_key, _KEYS), *map(_every_key, ("avro", "orc")), nulls, several_columns, several_sets, extra_columns, nested,
    nested_null, only_older, own_commit, *map(_format, ("parquet", "avro", "orc")), one_partition, null_partition,
    global_delete, no_match, many_keys, key_dropped, nested_key_dropped, key_renewed, key_renamed, key_promoted,
    key_added, key_added_null, both_kinds, both_kinds_specs,
]  # fmt: skip
