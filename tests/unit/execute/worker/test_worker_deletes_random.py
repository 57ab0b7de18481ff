"""Random files and deletes of all kinds, rewritten: the rows that come out are those that a plain model leaves."""

from __future__ import annotations

import datetime as dt
import tempfile
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import Phase, given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from tests.factories import delete_files, tasks
from tests.factories.examples import examples

from iceberg_compaction.execute.worker import arrow_schemas, budgets, execute_task

if TYPE_CHECKING:
    from iceberg_compaction.model.rewrite_task import DeleteFile

_UTC = dt.timezone.utc
_NAN = float("nan")
# The table's type of the key, the narrower type of older files, and a few values of both.
_KEYS: list[tuple[IcebergType, IcebergType, list[Any]]] = [
    (BooleanType(), BooleanType(), [True, False]),
    (LongType(), IntegerType(), [0, 1, -1, 2**31 - 1]),
    (DoubleType(), FloatType(), [0.0, -0.0, _NAN, 1.5, float("inf")]),
    (DateType(), DateType(), [dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    (TimeType(), TimeType(), [dt.time(0), dt.time(23, 59, 59, 999999)]),
    (TimestampType(), TimestampType(), [dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]),
    (
        TimestamptzType(),
        TimestamptzType(),
        [dt.datetime(2024, 2, 29, tzinfo=_UTC), dt.datetime(1900, 1, 1, tzinfo=_UTC)],
    ),
    (DecimalType(18, 2), DecimalType(5, 2), [Decimal("0.00"), Decimal("-0.01"), Decimal("999.99")]),
    (DecimalType(38, 2), DecimalType(9, 2), [Decimal("0.00"), Decimal("-0.01"), Decimal("9999999.99")]),
    (UUIDType(), UUIDType(), [bytes(16), b"\xff" * 16]),
    (FixedType(3), FixedType(3), [b"abc", b"\x00\x00\x00"]),
    (BinaryType(), BinaryType(), [b"", b"\x00", b"\x00\x00", b"y" * 300]),
    (StringType(), StringType(), ["", "a", "\u00e9\U0001f600", "x" * 70]),
]
_ID_SETS = [(2,), (3,), (5,), (6,), (2, 3), (5, 2), (3, 5, 6), (1,)]


@dataclass(frozen=True)
class _Data:
    rows: list[dict[str, Any]]
    old: bool
    sequence: int
    group: int


@dataclass(frozen=True)
class _Deletes:
    ids: tuple[int, ...]  # none: positions
    rows: list[Any]
    old: bool
    sequence: int
    file_format: delete_files.Format


def _schema(kind: IcebergType, *, old: bool, table: bool) -> Schema:
    """Old files know field 2 by another name and a narrower type, and field 3 not at all. The table lost field 6."""
    point = StructType(NestedField(5, "x", IntegerType()))
    fields = [
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "before" if old else "key", kind),
        *([] if old else [NestedField(3, "added", StringType())]),
        NestedField(4, "point", point),
        *([] if table else [NestedField(6, "dropped", IntegerType())]),
    ]
    return Schema(*(fields if not old else fields[::-1]))


def _rows(random: Random, pool: list[Any], count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": random.randrange(6),
            "key": random.choice([None, *pool]),
            "added": random.choice([None, "p", "q"]),
            "point": random.choice([None, {"x": None}, {"x": 1}, {"x": 2}]),
            "dropped": random.choice([None, 7, 8]),
        }
        for _ in range(count)
    ]


def _case(random: Random, key: int) -> tuple[list[_Data], list[_Deletes]]:
    """Few values and few sequence numbers, so that everything meets everything."""
    pool = _KEYS[key][2]
    data = [
        _Data(_rows(random, pool, random.choice([0, 3, 25])), random.random() < 0.4, random.randint(1, 3), group)
        for group in random.choices([1, 4, 100], k=random.randint(1, 3))
    ]
    deletes = []
    sets = [(), random.choice(_ID_SETS), random.choice(_ID_SETS)]
    for _ in range(random.randint(1, 5)):
        ids = random.choice(sets)
        places = [(random.randint(0, len(data)), random.randrange(27)) for _ in range(random.randrange(20))]
        rows = _rows(random, pool, random.randint(0, 2)) if ids else places
        formats: list[delete_files.Format] = ["PARQUET", "AVRO", "ORC"]
        old = random.random() < 0.5 and 3 not in ids
        deletes.append(_Deletes(ids, rows, old, random.randint(1, 4), random.choice(formats)))
    return data, deletes


def _as_old(row: dict[str, Any]) -> dict[str, Any]:
    return {"before": row["key"], **{name: row[name] for name in ("dropped", "point", "id")}}


def _write_deletes(root: Path, key: int, paths: list[Path], deletes: list[_Deletes]) -> list[DeleteFile]:
    written = []
    for number, delete in enumerate(deletes):
        path = root / f"delete-{number}"
        stamp: dict[str, Any] = {"sequence_number": delete.sequence, "file_format": delete.file_format}
        if delete.ids:
            rows = [_as_old(row) if delete.old else row for row in delete.rows]
            schema = _schema(_KEYS[key][1 if delete.old else 0], old=delete.old, table=False)
            written.append(delete_files.equality_delete(path, rows, schema, delete.ids, **stamp))
        else:
            places = [([*paths, "elsewhere.parquet"][file], position) for file, position in delete.rows]
            written.append(delete_files.position_delete(path, places, **stamp))
    return written


def _values(row: dict[str, Any], ids: tuple[int, ...], *, old: bool = False) -> list[str]:
    fields = {
        1: row["id"],
        2: row["key"],
        3: None if old else row["added"],
        5: (row["point"] or {}).get("x"),
        6: row["dropped"],
    }
    return tasks.comparable([{"": fields[number]} for number in ids])


def _lives(number: int, position: int, data: _Data, deletes: list[_Deletes]) -> bool:
    for delete in deletes:
        if not delete.ids:
            if delete.sequence >= data.sequence and (number, position) in delete.rows:
                return False
        elif delete.sequence > data.sequence:
            mine = _values(data.rows[position], delete.ids, old=data.old)
            if mine in [_values(row, delete.ids) for row in delete.rows]:
                return False
    return True


@examples(60, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_r2_r20_r22_r23_r29_the_rows_that_deletes_leave_come_out_in_order(seed: int) -> None:
    """R2, R20, R22, R23, R29: deletes of all kinds on files of all ages, with and without spilling."""
    random = Random(seed)
    key = random.randrange(len(_KEYS))
    data, deletes = _case(random, key)
    kind = _KEYS[key][0]
    limits = budgets.Budgets(
        key_bytes=random.choice([0, 300, budgets.DEFAULT.key_bytes]), batch_rows=random.choice([2, 5, 100])
    )
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        paths = []
        for number, file in enumerate(data):
            schema = _schema(_KEYS[key][1 if file.old else 0], old=file.old, table=False)
            rows = [_as_old(row) if file.old else row for row in file.rows]
            paths.append(tasks.write_input(root / f"{number}.parquet", rows, schema, row_group_size=file.group))
        task = tasks.make_task(paths).model_copy(
            update={
                "sequence_numbers": tuple(file.sequence for file in data),
                "deletes": tuple(_write_deletes(root, key, paths, deletes)),
            }
        )
        table = _schema(kind, old=False, table=True)
        lost = NestedField(6, "dropped", IntegerType()).model_dump_json()
        context = tasks.make_context(root, table).model_copy(update={"delete_fields": {6: lost}})
        result = execute_task.rewrite(task, context, "a", limits)
        left = [
            {**{name: row[name] for name in ("id", "key", "point")}, "added": None if file.old else row["added"]}
            for number, file in enumerate(data)
            for position, row in enumerate(file.rows)
            if _lives(number, position, file, deletes)
        ]
        columns = pa.schema(
            [field.with_type(arrow_schemas.plain(field.type)) for field in arrow_schemas.file_schema(table)]
        )
        wanted = tasks.comparable(pa.Table.from_pylist(left, schema=columns).to_pylist())
        assert tasks.read_rows(result) == wanted
        assert result.proof.deleted_rows == sum(len(file.rows) for file in data) - len(left)
        assert bool(result.staged) == bool(left)
