"""Schemas and partition specs that changed: columns by id, promotions, files without ids, output in the current one."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.factories import java_deletes, java_rows
from tests.interop.scenarios.scene import POSITION, Play, Scenario, Scene, rows, scenario

_UTC = dt.timezone.utc
_KEEP = {"rewrite-all": True, "keep-spec": True}


# Columns


@scenario("R27_columns_renamed_and_swapped", spark=True)
def renamed(scene: Scene) -> Play:
    scene.append(rows(1, 2))
    scene.evolve(lambda update: update.renameColumn("p", "q"))
    scene.evolve(lambda update: update.renameColumn("v", "p"))
    scene.append([{"id": 3, "q": "was p", "p": "was v"}])
    yield
    assert java_rows.read(scene.table).column_names == ["id", "q", "p"]


@scenario("R27_columns_reordered", spark=True)
def reordered(scene: Scene) -> Play:
    scene.append(rows(1, 2))
    scene.evolve(lambda update: update.moveFirst("v").moveAfter("id", "p"))
    scene.append(rows(3))
    yield
    assert java_rows.read(scene.table).column_names == ["v", "p", "id"]


@scenario("R27_column_dropped_and_added_again", spark=True)
def dropped_and_added(scene: Scene) -> Play:
    scene.append(rows(1, 2))
    scene.sql("alter table {t} drop column v", "alter table {t} add column v string")
    scene.append(rows(3))
    yield
    assert sorted(java_rows.read(scene.table)["v"].to_pylist(), key=str) == [None, None, "v3"]


_NESTED = (
    "id bigint, s struct<a:int,b:struct<c:string,d:int>>, l array<struct<e:int,f:string>>,"
    " m map<string,struct<g:int,h:string>>"
)


def _nested_row(n: int, **more: Any) -> dict[str, Any]:
    return {
        "id": n,
        "s": {"a": n, "b": {"c": f"c{n}", "d": n}},
        "l": [{"e": n, "f": "x"}, None, {"e": None, "f": None}],
        "m": [("k", {"g": n, "h": "y"}), ("z", None)],
    } | more


@scenario("R27_nested_fields_added", columns=_NESTED, spark=True)
def nested_added(scene: Scene) -> Play:
    scene.append([_nested_row(1), {"id": 2}, _nested_row(3, s={"a": 1, "b": None}, l=[], m=[])])
    scene.sql(
        "alter table {t} add column s.n string", "alter table {t} add column s.b.n bigint",
        "alter table {t} add column l.element.n int", "alter table {t} add column m.value.n date",
    )  # fmt: skip
    scene.append([_nested_row(4, s={"a": 1, "n": "new", "b": {"c": None, "n": 7}})])
    yield


@scenario("R27_nested_fields_dropped_renamed_and_moved", columns=_NESTED, spark=True)
def nested_dropped(scene: Scene) -> Play:
    scene.append([_nested_row(1), {"id": 2}])
    scene.sql(
        "alter table {t} drop column s.a", "alter table {t} rename column s.b.c to text",
        "alter table {t} drop column l.element.e", "alter table {t} alter column m.value.h first",
    )  # fmt: skip
    scene.append([{"id": 3, "s": {"b": {"text": "t"}}, "l": [{"f": "q"}], "m": [("k", {"h": "h", "g": 1})]}])
    yield


@scenario("R27_struct_that_older_files_lack_whole", spark=True)
def struct_added(scene: Scene) -> Play:
    scene.append(rows(1, 2))
    scene.sql("alter table {t} add column s struct<a:int,l:array<string>>")
    scene.append([{"id": 3, "s": {"a": 1, "l": ["x", None]}}, {"id": 4, "s": None}])
    yield


@scenario("R29_promotions", columns="i int, f float, d decimal(4,1), l array<int>, s struct<f:float>", spark=True)
def promoted(scene: Scene) -> Play:
    values = [{"i": -(2**31), "f": float("nan"), "d": Decimal("-1.5"), "l": [1, None], "s": {"f": -0.0}}, {}]
    scene.append(values, [{"i": 2**31 - 1, "f": 1e30, "d": Decimal("999.9"), "l": [], "s": None}])
    scene.sql(
        "alter table {t} alter column i type bigint", "alter table {t} alter column f type double",
        "alter table {t} alter column d type decimal(30,1)", "alter table {t} alter column l.element type bigint",
        "alter table {t} alter column s.f type double",
    )  # fmt: skip
    scene.append([{"i": 2**60, "f": 1e300, "d": Decimal(10**20), "l": [2**40], "s": {"f": 1e200}}])
    yield
    (file,) = scene.files()
    assert len(file.lower_bounds[1]) == 8  # bounds of the current type
    assert int.from_bytes(file.lower_bounds[1], "little", signed=True) == -(2**31)


@scenario("R29_promotion_of_a_decimal_to_a_wider_layout", columns="id bigint, d decimal(9,2), e decimal(18,2)")
def decimal_layouts(scene: Scene) -> Play:
    scene.append([{"id": n, "d": Decimal(n) / 4, "e": Decimal(-n) / 4} for n in range(5)])
    scene.sql("alter table {t} alter column d type decimal(18,2)", "alter table {t} alter column e type decimal(38,2)")
    scene.append([{"id": 9, "d": Decimal("12345678901234.25"), "e": Decimal(10**30)}])
    yield


# Files that another writer made. Iceberg's generic reader knows no name mapping, Spark's does.


def _plain_file(scene: Scene, table: pa.Table, folder: str = "plain") -> str:
    """A Parquet file without field ids, in a folder of its own."""
    location = Path(str(scene.table.table.location()).removeprefix("file:")) / folder
    location.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, location / f"{uuid.uuid4()}.parquet")
    return str(location)


def _add_files(scene: Scene, folder: str) -> None:
    scene.sql(f"call lake.system.add_files(table => '{{name}}', source_table => '`parquet`.`{folder}`')")


@scenario("R27_R30_files_without_ids_by_name_mapping", columns=_NESTED, spark=True, generic=False)
def name_mapping(scene: Scene) -> Play:
    nested = pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string()), ("d", pa.int32())]))])
    made = pa.table({
        "s": pa.array([{"a": 1, "b": {"c": "x", "d": 2}}, None], nested),
        "other": ["not ours", "neither"],
        "id": pa.array([10, 11], pa.int64()),
        "l": pa.array([[{"e": 1, "f": "y"}], []], pa.list_(pa.struct([("e", pa.int32()), ("f", pa.string())]))),
    })  # fmt: skip
    _add_files(scene, _plain_file(scene, made))
    scene.append([_nested_row(1)])
    assert "schema.name-mapping.default" in scene.loaded().properties
    yield
    (file,) = scene.files()
    assert {1, 5} <= set(file.lower_bounds)


@scenario("R30_name_mapping_after_columns_were_renamed", spark=True, generic=False)
def mapping_renamed(scene: Scene) -> Play:
    """The mapping keeps the old name beside the new one."""
    _add_files(scene, _plain_file(scene, pa.table({"id": pa.array([10], pa.int64()), "p": ["a"], "v": ["old"]})))
    scene.evolve(lambda update: update.renameColumn("v", "w"))
    scene.append([{"id": 3, "w": "new"}])
    mapping = json.loads(scene.loaded().properties["schema.name-mapping.default"])
    assert {"v", "w"} in [set(field["names"]) for field in mapping]
    yield
    assert sorted(java_rows.read(scene.table)["w"].to_pylist()) == ["new", "old"]


@scenario("R40_timestamps_of_96_bits", columns="id bigint, ts timestamp", spark=True, generic=False)
def int96(scene: Scene) -> Play:
    """As older writers stored them; Java reads them, and so do we."""
    location = Path(str(scene.table.table.location()).removeprefix("file:")) / "plain"
    location.mkdir(parents=True)
    times = [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=_UTC), None, dt.datetime(2026, 1, 1, tzinfo=_UTC)]
    made = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "ts": pa.array(times, pa.timestamp("us", "UTC"))})
    pq.write_table(made, location / "old.parquet", use_deprecated_int96_timestamps=True)
    _add_files(scene, str(location))
    scene.append([{"id": 4, "ts": times[2]}])
    yield
    assert sorted(java_rows.read(scene.table)["ts"].to_pylist(), key=str) == sorted([*times, times[2]], key=str)


@scenario("R27_identity_partition_values_that_files_lack", partitioned_by="p", spark=True, generic=False)
def hive_layout(scene: Scene) -> Play:
    """Files of a Hive layout have the partition only in their path."""
    for p in ("a", "b c"):
        made = pa.table({"id": pa.array([10, 11], pa.int64()), "v": ["x", None]})
        _plain_file(scene, made, folder=f"hive/p={p}")
    _add_files(scene, str(Path(str(scene.table.table.location()).removeprefix("file:")) / "hive"))
    scene.append(rows(1), rows(2, p="b c"))
    yield
    assert sorted(java_rows.read(scene.table)["p"].to_pylist()) == ["a"] * 3 + ["b c"] * 3


@scenario("R22_deletes_on_files_without_ids", partitioned_by="p", spark=True, generic=False)
def deletes_on_mapped(scene: Scene) -> Play:
    _plain_file(scene, pa.table({"id": pa.array([10, 11, 12], pa.int64()), "v": ["x", None, "z"]}), folder="hive/p=a")
    _add_files(scene, str(Path(str(scene.table.table.location()).removeprefix("file:")) / "hive"))
    (mapped,) = scene.files()
    scene.commit(
        scene.equality([{"v": None}], partition="p=a"),
        scene.equality([{"p": "a", "id": 12}], partition="p=a"),
        scene.positions([(mapped.file_path, 0)], partition="p=a"),
    )
    scene.append(rows(1))
    yield
    assert scene.ids() == [1]


# Partition specs

_WIDE = "id bigint, s string, d date, ts timestamp, dec decimal(9,2), b binary, n int"


def _wide(n: int, *, null: bool = False) -> dict[str, Any]:
    at = dt.datetime(1969, 12, 31, 22, tzinfo=_UTC) + dt.timedelta(hours=37 * n)
    if null:
        return {"id": n}
    text = f"\u00e9\U0001f600{n}"
    return {
        "id": n,
        "s": text,
        "d": at.date(),
        "ts": at,
        "dec": Decimal(n * 37 - 70) / 4,
        "b": bytes([n, 255]),
        "n": -n,
    }


_TRANSFORMS = {
    "identity_of_string": "s", "identity_of_date": "d", "identity_of_timestamp": "ts", "identity_of_decimal": "dec",
    "identity_of_binary": "b", "bucket_of_long": "bucket(3, id)", "bucket_of_string": "bucket(3, s)",
    "bucket_of_date": "bucket(3, d)", "bucket_of_timestamp": "bucket(3, ts)", "bucket_of_decimal": "bucket(3, dec)",
    "bucket_of_binary": "bucket(3, b)", "bucket_of_int": "bucket(3, n)", "truncate_of_string": "truncate(2, s)",
    "truncate_of_decimal": "truncate(50, dec)", "truncate_of_long": "truncate(4, id)",
    "truncate_of_negative_int": "truncate(4, n)", "truncate_of_binary": "truncate(1, b)", "year": "years(ts)",
    "year_of_date": "years(d)", "month": "months(ts)", "month_of_date": "months(d)", "day": "days(ts)",
    "hour": "hours(ts)",
}  # fmt: skip


# Of files with several such values metadata does not tell into which partitions they go, or into too many.
_UNTOLD = {
    "identity_of_timestamp", "identity_of_string", "identity_of_decimal", "identity_of_binary", "truncate_of_string",
    "truncate_of_decimal", "truncate_of_binary",
}  # fmt: skip


def _check_specs(scene: Scene, expected: set[int]) -> None:
    """R31: every file lies where Java would put its rows."""
    found = java_rows.partitions(scene.table)
    assert {spec for spec, _, _ in found} == expected
    for _, partition, computed in found:
        assert {partition} == computed


def _into(name: str) -> Scenario:
    """R31, R32: files of no partition become files of the current spec."""

    @scenario(f"R31_into_{name}", columns=_WIDE, settled=name not in _UNTOLD)
    def play(scene: Scene) -> Play:
        scene.append([_wide(n) for n in range(5)], [_wide(5), _wide(6, null=True)])
        scene.sql(f"alter table {{t}} add partition field {_TRANSFORMS[name]}")
        scene.append([_wide(n) for n in range(2, 8)])
        scene.delete([{"id": 3}], spec_id=0)
        yield
        _check_specs(scene, {1})

    return play


@scenario("R32_input_spec_kept_on_demand", columns=_WIDE, options=_KEEP)
def kept(scene: Scene) -> Play:
    scene.append([_wide(n) for n in range(5)], [_wide(5), _wide(6, null=True)])
    scene.sql("alter table {t} add partition field bucket(2, id)")
    scene.append([_wide(n) for n in range(2, 8)], [_wide(n) for n in range(2, 8)])
    yield
    _check_specs(scene, {0, 1})


@scenario("R32_partitioned_to_unpartitioned", partitioned_by="p, bucket(2, id)", again=True)
def to_unpartitioned(scene: Scene) -> Play:
    scene.append([*rows(1, 2, 3), *rows(4, p="b"), *rows(5, p=None)])
    scene.sql("alter table {t} drop partition field p", "alter table {t} drop partition field bucket(2, id)")
    scene.append(rows(6, 7))
    yield
    _check_specs(scene, {scene.loaded().spec().spec_id})
    assert len(scene.files()) == 1
    assert sorted(scene.ids()) == [1, 2, 3, 4, 5, 6, 7]


@scenario("R32_partition_field_replaced", columns=_WIDE, partitioned_by="days(ts)", again=True, spark=True)
def replaced(scene: Scene) -> Play:
    scene.append([_wide(n) for n in range(6)], [_wide(7, null=True)])
    scene.sql("alter table {t} replace partition field ts_day with months(ts)")
    scene.append([_wide(n) for n in range(6)])
    yield
    _check_specs(scene, {1})


@scenario("R32_old_partitions_that_feed_the_same_new_ones", partitioned_by="p", again=True, spark=True)
def gathered(scene: Scene) -> Play:
    """R4, R18: deletes of one old partition reach its own rows only; every new partition gets one file."""
    for first in (1, 11, 21):
        scene.append(
            [row for at, p in enumerate("abc") for row in rows(*range(first + 3 * at, first + 3 * at + 3), p=p)]
        )
    scene.sql("alter table {t} drop partition field p", "alter table {t} add partition field bucket(2, id)")
    scene.delete([{"v": "v1"}, {"v": "v4"}], partition="p=b", spec_id=0)
    scene.append(rows(31, 32, p="d"))
    yield
    _check_specs(scene, {scene.loaded().spec().spec_id})
    assert len(scene.files()) == 2
    assert sorted(scene.ids()) == [n for n in (*range(1, 10), *range(11, 20), *range(21, 30), 31, 32) if n != 4]


@scenario("R32_three_specs_at_once")
def three_specs(scene: Scene) -> Play:
    scene.append(rows(1, 2))
    scene.sql("alter table {t} add partition field p")
    (first, *_) = scene.append([*rows(3, 4), *rows(5, p="b")], rows(6, p=None))
    scene.sql("alter table {t} add partition field bucket(2, id)")
    scene.append([*rows(7, 8), *rows(9, p="b")])
    scene.commit(scene.positions([(first, 0)], partition="p=a", spec_id=1))
    assert scene.files(POSITION)
    yield
    _check_specs(scene, {2})


@scenario("R32_the_null_partition_of_the_current_spec_and_older_files")
def null_and_older(scene: Scene) -> Play:
    """Both group under the same key in Iceberg Java."""
    scene.append(rows(1, 2, p=None), rows(3))
    scene.sql("alter table {t} add partition field p")
    scene.append(rows(4, 5, p=None), rows(6))
    yield
    _check_specs(scene, {1})
    assert {file.partition[0] for file in scene.files()} == {None, "a"}


@scenario("R31_void_of_version_1", properties={"format-version": "1"}, partitioned_by="p, bucket(2, id)", spark=True)
def void(scene: Scene) -> Play:
    """Version 1 keeps a dropped field as void."""
    scene.append([*rows(1, 2), *rows(3, p="b")])
    scene.sql("alter table {t} drop partition field p")
    scene.append([*rows(4, 5), *rows(6, p=None)])
    assert scene.loaded().spec().fields[0].transform.__class__.__name__ == "VoidTransform"
    yield
    assert {file.spec_id for file in scene.files()} == {scene.loaded().spec().spec_id}
    assert {file.partition[0] for file in scene.files()} == {None}


@scenario("R31_void_of_version_1_kept", properties={"format-version": "1"}, partitioned_by="p", options=_KEEP)
def void_kept(scene: Scene) -> Play:
    scene.append(rows(1, 2), rows(3, p="b"))
    scene.sql("alter table {t} drop partition field p")
    scene.append(rows(4, 5), rows(6, p=None))
    yield
    assert sorted(file.spec_id for file in scene.files()) == [0, 0, 1]


@scenario("R31_partitions_of_nan_and_null", columns="id bigint, f double", partitioned_by="f", spark=True)
def nan_partition(scene: Scene) -> Play:
    for _ in range(2):
        scene.append([{"id": 1, "f": float("nan")}, {"id": 2, "f": None}, {"id": 3, "f": 0.0}, {"id": 4, "f": 1.5}])
    yield
    assert len(scene.files()) == 4


@scenario("R31_partitions_and_keys_of_odd_names", columns="id bigint, `straße` string, `a b` string",
          partitioned_by="`straße`, truncate(1, `a b`)", again=True)  # fmt: skip
def odd_names(scene: Scene) -> Play:
    values = ["ü", "x y", None]
    for first in (0, 6):
        scene.append([{"id": n, "straße": values[n % 3], "a b": f"k{n}"} for n in range(first, first + 6)])
    place = {"partition": "straße=ü/a b_trunc=k", "file_format": "avro"}
    scene.commit(scene.equality([{"a b": "k3"}, {"a b": "k4"}], **place))
    yield
    assert sorted(scene.ids()) == [0, 1, 2, *range(4, 12)]


@scenario("R31_partition_source_renamed_and_promoted", columns="id int, s string", partitioned_by="bucket(4, id)")
def source_promoted(scene: Scene) -> Play:
    scene.append([{"id": n, "s": "x"} for n in range(6)])
    scene.sql("alter table {t} alter column id type bigint", "alter table {t} rename column id to number")
    scene.append([{"number": n, "s": "x"} for n in range(6)])
    yield
    _check_specs(scene, {0})


@scenario("R31_into_a_nested_source", columns="id bigint, s struct<d:date,k:string>", settled=False, spark=True)
def nested_source(scene: Scene) -> Play:
    scene.append([{"id": 1, "s": {"d": dt.date(2026, 1, 1), "k": "x"}}, {"id": 2, "s": None}, {"id": 3, "s": {}}])
    scene.sql("alter table {t} add partition field months(s.d)")
    scene.append([{"id": 4, "s": {"d": dt.date(2026, 1, 9), "k": None}}])
    yield
    _check_specs(scene, {1})


def _raw(scene: Scene) -> Play:
    """Files whose rows lie elsewhere than their partition says stay where they are: their spec is the current one."""
    file = java_deletes.data_file(scene.table, pa.table({"id": [1, 2], "p": ["a", "a"]}), partition="p=a")
    scene.commit(rows=[file])
    scene.append(rows(3))
    yield
    assert {tuple(file.partition) for file in scene.files()} == {("a",)}


SCENARIOS = [
    renamed, reordered, dropped_and_added, nested_added, nested_dropped, struct_added, promoted, decimal_layouts,
    name_mapping, mapping_renamed, int96, hive_layout, deletes_on_mapped, *map(_into, _TRANSFORMS), kept,
    to_unpartitioned, replaced, gathered, three_specs, null_and_older, void, void_kept, nan_partition, source_promoted,
    nested_source, odd_names, scenario("files_without_metrics", partitioned_by="p")(_raw),
]  # fmt: skip
