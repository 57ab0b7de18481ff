"""R51: identity-partitioned columns. Java takes their values from the partition tuple, whatever the file holds, so the
rows that it reads before and after must be the same; and what is written must say physically what Java read."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.factories import java_deletes, java_rows
from tests.interop.scenarios.scene import HIVE_NULL, Play, Scenario, Scene, scenario

_BY_P: dict[str, Any] = {"partitioned_by": "p", "spark": True}


def _add(scene: Scene, table: pa.Table, partition: str, spec_id: int | None = None) -> str:
    """A file with any values in any partition, and without metrics."""
    file = java_deletes.data_file(scene.table, table, partition=partition, spec_id=spec_id)
    scene.commit(rows=[file])
    return str(file.location())


def _file(*ids: int, p: str | None = "elsewhere") -> pa.Table:
    return pa.table({
        "id": pa.array(ids, pa.int64()), "p": pa.array([p] * len(ids), pa.string()), "v": [f"v{n}" for n in ids],
    })  # fmt: skip


def _check_places(scene: Scene) -> None:
    """Every file holds what its partition says."""
    for _, partition, computed in java_rows.partitions(scene.table):
        assert {partition} == computed


@scenario("R51_file_holds_another_value_than_its_partition", **_BY_P, again=True)
def other_value(scene: Scene) -> Play:
    _add(scene, _file(1, 2), "p=a")
    _add(scene, _file(3), "p=a")
    _add(scene, _file(4), f"p={HIVE_NULL}")
    _add(scene, _file(5, 6, p=None), "p=b")
    assert java_rows.read(scene.table)["p"].to_pylist().count("a") == 3
    yield
    _check_places(scene)


@scenario("R51_file_holds_another_value_after_a_change_of_the_spec", **_BY_P, settled=False, again=True)
def other_value_respec(scene: Scene) -> Play:
    _add(scene, _file(1, 2, 3, 4), "p=a")
    scene.sql("alter table {t} drop partition field p", "alter table {t} add partition field truncate(1, p)")
    yield
    _check_places(scene)
    assert {tuple(file.partition)[-1] for file in scene.files()} == {"a"}


@scenario("R51_file_holds_another_value_and_goes_to_no_partition", **_BY_P, settled=False)
def other_value_unpartitioned(scene: Scene) -> Play:
    _add(scene, _file(1, 2), "p=a")
    _add(scene, _file(3, p="a"), "p=b")
    scene.sql("alter table {t} drop partition field p")
    yield
    assert sorted(java_rows.read(scene.table)["p"].to_pylist()) == ["a", "a", "b"]


@scenario("R51_deletes_where_files_hold_another_value", **_BY_P)
def other_value_deletes(scene: Scene) -> Play:
    """A key is the partition's value; and that of a delete file is what the file itself holds."""
    path = _add(scene, _file(1, 2, 3, 4), "p=a")
    scene.commit(
        scene.equality([{"id": 1, "p": "a"}, {"id": 2, "p": "elsewhere"}], partition="p=a"),
        scene.positions([(path, 2)], partition="p=a"),
    )
    assert sorted(scene.ids()) == [2, 4]
    yield
    assert sorted(scene.ids()) == [2, 4]


@scenario("R51_partition_inside_a_struct", columns="id bigint, s struct<k:string,n:int>", partitioned_by="s.k",
          spark=True)  # fmt: skip
def nested(scene: Scene) -> Play:
    kind = pa.struct([_field("k", pa.string(), 3), _field("n", pa.int32(), 4)])
    values = [{"k": "elsewhere", "n": 1}, {"k": "eu", "n": None}]
    made = pa.table({"id": pa.array([1, 2], pa.int64()), "s": pa.array(values, kind)})
    _add(scene, made, "s.k=eu")
    yield
    _check_places(scene)


def _field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


_TYPES: dict[str, tuple[str, str, pa.Array]] = {
    "i": ("int", "-5", pa.array([5], pa.int32())),
    "l": ("bigint", "1099511627776", pa.array([0], pa.int64())),
    "f": ("float", "0.1", pa.array([1.0], pa.float32())),
    "g": ("double", "-0.0", pa.array([0.0], pa.float64())),
    "b": ("boolean", "true", pa.array([False])),
    "s": ("string", "gr%C3%BC%C3%9F", pa.array([""])),
    "d": ("date", "1969-12-31", pa.array([dt.date(2026, 1, 1)], pa.date32())),
    "n": ("decimal(9,2)", "-1.50", pa.array([Decimal("1.50")], pa.decimal128(9, 2))),
}


@scenario("R51_partitions_of_every_type", partitioned_by=", ".join(_TYPES), spark=True,
          columns=f"id bigint, {', '.join(f'{name} {kind}' for name, (kind, _, _) in _TYPES.items())}")  # fmt: skip
def every_type(scene: Scene) -> Play:
    place = "/".join(f"{name}={text}" for name, (_, text, _) in _TYPES.items())
    for number in 1, 2:
        _add(scene, pa.table({"id": [number], **{name: array for name, (_, _, array) in _TYPES.items()}}), place)
    yield
    _check_places(scene)


@scenario("R51_R29_partition_source_promoted", columns="id bigint, n int, f float, d decimal(4,1)", spark=True,
          partitioned_by="n, f, d")  # fmt: skip
def promoted(scene: Scene) -> Play:
    made = pa.table({
        "id": [1], "n": pa.array([9], pa.int32()), "f": pa.array([9.0], pa.float32()),
        "d": pa.array([Decimal("9.5")], pa.decimal128(4, 1)),
    })  # fmt: skip
    _add(scene, made, "n=-1/f=0.5/d=1.5")
    scene.sql(
        "alter table {t} alter column n type bigint", "alter table {t} alter column f type double",
        "alter table {t} alter column d type decimal(20,1)",
    )  # fmt: skip
    yield
    (row,) = java_rows.read(scene.table).to_pylist()
    assert row == {"id": 1, "n": -1, "f": 0.5, "d": Decimal("1.5")}


# Java 1.12 fails on such a table until its deletes are applied; what it read before the column went must stay.
@scenario("R51_R23_equality_delete_on_a_dropped_partition_column", partitioned_by="p", generic=False, settled=False)
def dropped(scene: Scene) -> Play:
    without = _file(1, 2, 3).drop_columns(["p"])
    _add(scene, without, "p=a")
    _add(scene, without, "p=b")
    scene.delete([{"id": 1, "p": "a"}, {"id": 2, "p": "b"}, {"id": 3, "p": None}], partition="p=a")
    assert sorted(scene.ids()) == [1, 2, 2, 3, 3]
    scene.sql("alter table {t} drop partition field p")
    scene.evolve(lambda update: update.deleteColumn("p"))
    yield
    assert sorted(scene.ids()) == [1, 2, 2, 3, 3]


@scenario("R51_R23_equality_delete_on_a_dropped_partition_of_nan", columns="id bigint, f double", generic=False,
          partitioned_by="f", settled=False)  # fmt: skip
def dropped_nan(scene: Scene) -> Play:
    for number, text in enumerate(("NaN", "Infinity", "-0.0", HIVE_NULL)):
        _add(scene, pa.table({"id": pa.array([number], pa.int64())}), f"f={text}")
    scene.delete([{"f": float("nan")}], partition="f=NaN")
    scene.delete([{"f": 0.0}], partition="f=-0.0")
    scene.delete([{"f": None}], partition=f"f={HIVE_NULL}")
    assert sorted(scene.ids()) == [1, 2]
    scene.sql("alter table {t} drop partition field f")
    scene.evolve(lambda update: update.deleteColumn("f"))
    yield
    assert sorted(scene.ids()) == [1, 2]


SCENARIOS: list[Scenario] = [
    other_value, other_value_respec, other_value_unpartitioned, other_value_deletes, nested, every_type, promoted,
    dropped, dropped_nan,
]  # fmt: skip
