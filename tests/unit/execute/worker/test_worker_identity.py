"""R51: an identity-partitioned column has the value of the file's partition tuple, whatever the file holds: in what is
written, however it is written; in the keys of deletes; and after the column left the spec or the schema."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
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

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import budgets, execute_task
from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.model.policies import CopyMode, ProofLevel
from iceberg_compaction.model.rewrite_task import TaskSection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import DeleteFile, RewriteContext, TaskResult

_WHEN, _ELSE = dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2026, 1, 1)
_UTC = dt.timezone.utc
# Type, the tuple's value in PyIceberg's internal form, the same as Python has it, and another one
VALUES: list[tuple[IcebergType, Any, Any, Any]] = [
    (BooleanType(), True, True, False),
    (IntegerType(), -5, -5, 5),
    (LongType(), 2**40, 2**40, 0),
    (FloatType(), 0.5, 0.5, -0.5),
    (DoubleType(), 0.0, 0.0, -0.0),
    (DateType(), -1, dt.date(1969, 12, 31), dt.date(2026, 1, 1)),
    (TimeType(), 3723000004, dt.time(1, 2, 3, 4), dt.time(0)),
    (TimestampType(), -1, _WHEN, _ELSE),
    (TimestamptzType(), -1, _WHEN.replace(tzinfo=_UTC), _ELSE.replace(tzinfo=_UTC)),
    (StringType(), "gr\u00fc\u00df", "gr\u00fc\u00df", ""),
    (BinaryType(), b"\x00\xff", b"\x00\xff", b"\x00"),
    (FixedType(3), b"a\x00b", b"a\x00b", b"a\x00c"),
    (UUIDType(), uuid.UUID(int=2**127 + 1), uuid.UUID(int=2**127 + 1).bytes, uuid.UUID(int=0).bytes),
    (DecimalType(9, 2), Decimal("-1.50"), Decimal("-1.50"), Decimal("1.50")),
    (DecimalType(18, 2), Decimal("-1.50"), Decimal("-1.50"), Decimal("1.50")),
    (DecimalType(38, 4), Decimal("-123456789012345678901234.1234"), Decimal("-123456789012345678901234.1234"), 0),
]
KINDS = [str(kind) for kind, *_ in VALUES]
ID = NestedField(1, "id", LongType(), required=False)
PLACE = NestedField(2, "p", StringType(), required=False)
TABLE = Schema(ID, PLACE)


def _by(source: int = 2, spec_id: int = 3) -> PartitionSpec:
    return PartitionSpec(PartitionField(source, 1000, IdentityTransform(), "p"), spec_id=spec_id)


def _context(root: Path, table: Schema, spec: PartitionSpec | None = None, **update: Any) -> RewriteContext:
    found = tasks.make_context(root, table, spec=spec or _by(), verify=ProofLevel.DEEP)
    return found.model_copy(update={"min_row_group": 0, **update})


def _rewrite(
    context: RewriteContext,
    paths: Sequence[Path],
    partition: str,
    deletes: Sequence[DeleteFile] = (),
    limits: budgets.Budgets = budgets.DEFAULT,
) -> TaskResult:
    (spec_id,) = [number for number in context.partition_specs if number != context.output_spec_id] or [0]
    task = tasks.make_task(paths, spec_id=spec_id, partition=partition)
    update = {"sequence_numbers": (1,) * len(paths), "deletes": tuple(deletes)}
    return execute_task.rewrite(task.model_copy(update=update), context, uuid.uuid4().hex, limits)


def _output(result: TaskResult) -> list[dict[str, Any]]:
    return [row for file in result.staged for row in pq.read_table(file.file_path).to_pylist()]


def _same(rows: Sequence[Any], wanted: Sequence[Any]) -> bool:
    def comparable(values: Sequence[Any]) -> list[str]:
        at = [value.astimezone(_UTC) if getattr(value, "tzinfo", None) else value for value in values]
        return tasks.comparable([{"": value} for value in at])

    return comparable(rows) == comparable(wanted)


@pytest.mark.parametrize("copy", [CopyMode.NEVER, CopyMode.ALWAYS])
@pytest.mark.parametrize(("kind", "internal", "value", "other"), VALUES, ids=KINDS)
def test_r51_the_tuple_is_written_and_not_what_the_file_holds(
    tmp_path: Path, kind: IcebergType, internal: Any, value: Any, other: Any, copy: CopyMode
) -> None:
    """And what is measured for the manifest, and proved, is what was written."""
    table = Schema(ID, NestedField(2, "p", kind, required=False), NestedField(3, "v", StringType(), required=False))
    rows = [{"id": at, "p": (other, value, None)[at % 3], "v": f"{at} of some length"} for at in range(9)]
    path = tasks.write_input(tmp_path / "in.parquet", rows, table, row_group_size=3)
    context = _context(tmp_path, table, copy_row_groups=copy)
    result = _rewrite(context, [path], partition_tuples.encode_one([internal], _by(), table))
    assert _same([row["p"] for row in _output(result)], [value] * 9)
    assert [row["id"] for row in _output(result)] == list(range(9))
    (file,) = result.staged
    assert file.null_value_counts[2] == 0
    assert file.lower_bounds[2] == file.upper_bounds[2]
    assert (result.effort.copied_groups > 0) == (copy is CopyMode.ALWAYS)


@pytest.mark.parametrize(("kind", "internal", "value", "other"), VALUES, ids=KINDS)
def test_r51_a_row_group_is_copied_whole_only_if_statistics_prove_what_it_holds(
    tmp_path: Path, kind: IcebergType, internal: Any, value: Any, other: Any
) -> None:
    table = Schema(ID, NestedField(2, "p", kind, required=False))
    right = [{"id": at, "p": value} for at in range(5)]
    paths = [
        tasks.write_input(tmp_path / "right.parquet", right, table, store_decimal_as_integer=True),
        tasks.write_input(tmp_path / "unproved.parquet", right, table, write_statistics=["id"]),
        tasks.write_input(tmp_path / "wrong.parquet", [*right, {"id": 5, "p": other}], table),
    ]
    context = _context(tmp_path, table, copy_row_groups=CopyMode.ALWAYS)
    result = _rewrite(context, paths, partition_tuples.encode_one([internal], _by(), table))
    assert _same([row["p"] for row in _output(result)], [value] * 16)
    assert 2 in result.proof.source.checksums  # of the columns that were encoded
    again = _rewrite(context, paths[:1], partition_tuples.encode_one([internal], _by(), table))
    # Neither NaN nor the sign of zero is in statistics; and Arrow does not say that the bytes of a UUID are one.
    unproved = isinstance(kind, (FloatType, DoubleType, UUIDType))
    assert (again.proof.copied.checksums.keys() == {1}) == unproved
    assert again.effort.copied_groups == 1


def test_r51_a_null_tuple_is_null_and_goes_before_values_and_defaults(tmp_path: Path) -> None:
    place = NestedField(2, "p", StringType(), required=False, initial_default="default")
    table = Schema(ID, place)
    rows = [{"id": 1, "p": "eu"}, {"id": 2, "p": None}]
    paths = [
        tasks.write_input(tmp_path / "in.parquet", rows, table),
        tasks.write_input(tmp_path / "nulls.parquet", [{"id": 3, "p": None}], table),
        tasks.write_input(tmp_path / "lacks.parquet", [{"id": 4}], Schema(ID)),
    ]
    for copy in CopyMode.NEVER, CopyMode.ALWAYS:
        result = _rewrite(_context(tmp_path, table, copy_row_groups=copy), paths, '{"p":null}')
        assert [row["p"] for row in _output(result)] == [None] * 4
        assert result.staged[0].null_value_counts[2] == 4
    required = Schema(ID, NestedField(2, "p", StringType(), required=True))
    with pytest.raises(errors.UnsupportedError, match="the partition has no value of it"):
        _rewrite(_context(tmp_path, required), paths[:1], '{"p":null}')


def test_r51_rows_are_proved_where_their_only_column_is_a_null_tuple(tmp_path: Path) -> None:
    table = Schema(NestedField(2, "p", StringType(), required=False))
    path = tasks.write_input(tmp_path / "in.parquet", [{"p": None}] * 3, table)
    result = _rewrite(_context(tmp_path, table), [path, path], '{"p":null}')
    assert _output(result) == [{"p": None}] * 6


def test_r51_nan_is_what_the_manifest_entry_counts(tmp_path: Path) -> None:
    """Counts of NaNs come from the inputs' manifests, and those are about what the file holds."""
    table = Schema(ID, NestedField(2, "p", DoubleType(), required=False))
    path = tasks.write_input(tmp_path / "in.parquet", [{"id": 1, "p": 1.0}, {"id": 2, "p": float("nan")}], table)
    task = tasks.make_task([path], spec_id=3, partition='{"p":"NaN"}').model_copy(update={"nan_counts": ({2: 1},)})
    context = _context(tmp_path, table, copy_row_groups=CopyMode.ALWAYS)
    result = execute_task.rewrite(task, context, "0")
    assert result.effort.copied_groups == 1
    assert result.staged[0].nan_value_counts == {2: 2}
    assert 2 not in result.staged[0].lower_bounds


@pytest.mark.parametrize("copy", [CopyMode.NEVER, CopyMode.ALWAYS])
def test_r51_a_field_inside_a_struct_has_the_value_where_the_struct_is(tmp_path: Path, copy: CopyMode) -> None:
    inside = StructType(PLACE, NestedField(4, "a", LongType(), required=False))
    table = Schema(ID, NestedField(3, "s", inside, required=False))
    rows = [{"id": 1, "s": {"p": "us", "a": 1}}, {"id": 2, "s": None}, {"id": 3, "s": {"p": None, "a": None}}]
    path = tasks.write_input(tmp_path / "in.parquet", rows, table)
    result = _rewrite(_context(tmp_path, table, copy_row_groups=copy), [path], '{"p":"eu"}')
    assert [row["s"] for row in _output(result)] == [{"p": "eu", "a": 1}, None, {"p": "eu", "a": None}]
    alone = Schema(ID, NestedField(3, "s", StructType(PLACE), required=False))
    rows = [{"id": 1, "s": {"p": "us"}}, {"id": 2, "s": None}]
    path = tasks.write_input(tmp_path / "alone.parquet", rows, alone)
    result = _rewrite(_context(tmp_path, alone, copy_row_groups=copy), [path], '{"p":"eu"}')
    assert [row["s"] for row in _output(result)] == [{"p": "eu"}, None]


def test_r51_r29_a_tuple_of_the_narrower_type_is_a_value_of_the_wider_one(tmp_path: Path) -> None:
    old = Schema(ID, *(NestedField(at, n, k, required=False) for at, n, k in _columns(IntegerType(), FloatType(), 9)))
    new = Schema(ID, *(NestedField(at, n, k, required=False) for at, n, k in _columns(LongType(), DoubleType(), 20)))
    spec = PartitionSpec(
        *(PartitionField(at, 1000 + at, IdentityTransform(), name) for at, name, _ in _columns(LongType(), 0, 9)),
        spec_id=3,
    )
    row = {"id": 1, "i": 7, "f": 7.5, "d": Decimal("7.70")}
    path = tasks.write_input(tmp_path / "in.parquet", [row], old)
    for copy in CopyMode.NEVER, CopyMode.ALWAYS:
        context = _context(tmp_path, new, spec, copy_row_groups=copy)
        result = _rewrite(context, [path], '{"i":-1,"f":0.10000000149011612,"d":"1.25"}')
        assert _output(result) == [{"id": 1, "i": -1, "f": 0.10000000149011612, "d": Decimal("1.25")}]
        assert len(result.staged[0].lower_bounds[2]) == 8


def _columns(whole: Any, floating: Any, precision: int) -> list[tuple[int, str, Any]]:
    return [(2, "i", whole), (3, "f", floating), (4, "d", DecimalType(precision, 2))]


def test_r51_files_without_ids_are_mapped_first(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    tasks.write_input(path, tasks.pa.table({"number": [1, 2], "place": ["us", "us"]}), TABLE)
    mapping = json.dumps([{"field-id": 1, "names": ["number"]}, {"field-id": 2, "names": ["place"]}])
    context = _context(tmp_path, TABLE, properties={"schema.name-mapping.default": mapping})
    assert _output(_rewrite(context, [path], '{"p":"eu"}')) == [{"id": 1, "p": "eu"}, {"id": 2, "p": "eu"}]


def test_r51_rows_move_and_sort_by_the_tuple_of_their_own_spec(tmp_path: Path) -> None:
    """The spec of the output says nothing about the values of the inputs."""
    path = tasks.write_input(tmp_path / "in.parquet", [{"id": 2, "p": "us"}, {"id": 1, "p": "zz"}], TABLE)
    order = SortOrder(SortField(2, IdentityTransform()), SortField(1, IdentityTransform()), order_id=1)
    after = {
        UNPARTITIONED_PARTITION_SPEC: {"{}"},
        PartitionSpec(PartitionField(2, 1001, TruncateTransform(1), "t"), spec_id=5): {'{"t":"e"}'},
        PartitionSpec(PartitionField(1, 1001, BucketTransform(1), "b"), spec_id=5): {'{"b":0}'},
    }
    for spec, wanted in after.items():
        specs = {3: _by().model_dump_json(), spec.spec_id: spec.model_dump_json()}
        for sort_order in None, order.model_dump_json():
            update = {"partition_specs": specs, "output_spec_id": spec.spec_id, "sort_order": sort_order}
            result = _rewrite(_context(tmp_path, TABLE, **update), [path], '{"p":"eu"}')
            assert {file.partition for file in result.staged} == wanted
            rows = [{"id": 2, "p": "eu"}, {"id": 1, "p": "eu"}]
            assert _output(result) == (rows[::-1] if sort_order else rows)


def test_r51_rows_of_several_partitions_have_each_the_tuple_of_their_own(tmp_path: Path) -> None:
    """In one task, some of an older spec, in which the column says nothing; and deletes by key, for each of them."""
    older = PartitionSpec(PartitionField(2, 1001, BucketTransform(2), "b"), spec_id=2)
    specs = {spec.spec_id: spec.model_dump_json() for spec in (_by(), older, UNPARTITIONED_PARTITION_SPEC)}
    context = _context(tmp_path, TABLE, partition_specs=specs, output_spec_id=0)
    rows = [{"id": 1, "p": "us"}, {"id": 2, "p": "us"}]
    paths = [tasks.write_input(tmp_path / f"{number}.parquet", rows, TABLE) for number in range(4)]
    keys = [{"id": 1, "p": "eu"}, {"id": 2, "p": None}, {"id": 2, "p": "us"}]
    delete = delete_files.equality_delete(tmp_path / "d", keys, TABLE, [1, 2], sequence_number=2)
    places = [(3, '{"p":"eu"}'), (3, '{"p":null}'), (2, '{"b":1}'), (3, '{"p":"us"}')]
    sections = [TaskSection(spec_id=spec, partition=text, files=1, deletes=(delete,)) for spec, text in places]
    task = tasks.make_task(paths, spec_id=3, partition=places[0][1]).model_copy(
        update={"sections": tuple(sections), "sequence_numbers": (1,) * 4}
    )
    result = execute_task.rewrite(task, context, "0")
    assert [(row["id"], row["p"]) for row in _output(result)] == [(2, "eu"), (1, None), (1, "us"), (1, "us")]


@pytest.mark.parametrize("limits", [budgets.DEFAULT, budgets.Budgets(key_bytes=0)], ids=["in memory", "spilled"])
@pytest.mark.parametrize("copy", [CopyMode.NEVER, CopyMode.ALWAYS])
@pytest.mark.parametrize("kept", [True, False], ids=["column", "dropped column"])
def test_r51_r23_keys_of_deletes_are_the_tuples(
    tmp_path: Path, copy: CopyMode, limits: budgets.Budgets, kept: bool
) -> None:
    """Whether a file lacks the column or holds another value, and whether the table still has it."""
    paths = [
        tasks.write_input(tmp_path / "lacks.parquet", [{"id": 1}, {"id": 2}], Schema(ID)),
        tasks.write_input(tmp_path / "other.parquet", [{"id": 1, "p": "us"}, {"id": 2, "p": "us"}], TABLE),
        tasks.write_input(tmp_path / "same.parquet", [{"id": 1, "p": "eu"}, {"id": 2, "p": "eu"}], TABLE),
    ]
    update = {} if kept else {"delete_fields": {2: PLACE.model_dump_json()}}
    table = TABLE if kept else Schema(ID)
    # The field has left the spec before the column leaves the schema: all goes into another one.
    specs = {3: _by().model_dump_json(), 0: UNPARTITIONED_PARTITION_SPEC.model_dump_json()}
    if not kept:
        update |= {"partition_specs": specs, "output_spec_id": 0}
    context = _context(tmp_path, table, copy_row_groups=copy, **update)
    keys = [{"id": 2, "p": "eu"}, {"id": 1, "p": "us"}, {"id": 1, "p": None}]
    delete = delete_files.equality_delete(tmp_path / "d", keys, TABLE, [1, 2], sequence_number=2)
    result = _rewrite(context, paths, '{"p":"eu"}', [delete], limits)
    assert [row["id"] for row in _output(result)] == [1, 1, 1]
    whole = delete_files.equality_delete(tmp_path / "e", [{"p": "eu"}], Schema(PLACE), [2], sequence_number=2)
    assert _rewrite(context, paths, '{"p":"eu"}', [whole], limits).staged == ()
    null = delete_files.equality_delete(tmp_path / "n", [{"p": None}], Schema(PLACE), [2], sequence_number=2)
    assert _rewrite(context, paths, '{"p":null}', [null], limits).staged == ()
    assert len(_output(_rewrite(context, paths, '{"p":"us"}', [whole, null], limits))) == 6


@pytest.mark.parametrize(("kind", "internal", "value", "other"), VALUES, ids=KINDS)
def test_r51_r23_keys_of_every_type_from_tuples_whose_column_is_gone(
    tmp_path: Path, kind: IcebergType, internal: Any, value: Any, other: Any
) -> None:
    """The tuple's text was made by who did not know the type any more."""
    place = NestedField(2, "p", kind, required=False)
    column = tasks.pa.StructArray.from_arrays([_stored(internal, value, kind)], ["p"])
    text = partition_tuples.encode(tasks.pa.chunked_array([column]), _by(), Schema(ID), 1).dictionary[0].as_py()
    specs = {3: _by().model_dump_json(), 0: UNPARTITIONED_PARTITION_SPEC.model_dump_json()}
    update = {"delete_fields": {2: place.model_dump_json()}, "partition_specs": specs, "output_spec_id": 0}
    path = tasks.write_input(tmp_path / "in.parquet", [{"id": 1}], Schema(ID))
    for key, left in (value, 0), (other, 1):
        delete = delete_files.equality_delete(
            tmp_path / f"d{left}", [{"p": key}], Schema(place), [2], sequence_number=2
        )
        assert len(_output(_rewrite(_context(tmp_path, Schema(ID), **update), [path], text, [delete]))) == left


def _stored(internal: Any, value: Any, kind: IcebergType) -> Any:
    from iceberg_compaction.execute.worker.input import project

    return project.constant(value if isinstance(kind, UUIDType) else internal, kind)


def test_r22_a_key_that_a_file_lacks_is_null_where_its_struct_is(tmp_path: Path) -> None:
    """Neither a default nor a partition reaches into a null struct; a struct that a file lacks is null."""
    old = StructType(NestedField(4, "a", LongType(), required=False))
    late = NestedField(5, "b", LongType(), required=False, initial_default=7)
    table = Schema(ID, NestedField(3, "s", StructType(*old.fields, late), required=False))
    rows = [{"id": 1, "s": {"a": 1}}, {"id": 2, "s": None}]
    paths = [
        tasks.write_input(tmp_path / "in.parquet", rows, Schema(ID, NestedField(3, "s", old, required=False))),
        tasks.write_input(tmp_path / "lacks.parquet", [{"id": 3}], Schema(ID)),
    ]
    keyed = Schema(NestedField(3, "s", StructType(late), required=False))
    for value, left in (7, [2, 3]), (None, [1]):
        delete = delete_files.equality_delete(
            tmp_path / f"d{value}", [{"s": {"b": value}}], keyed, [5], sequence_number=2
        )
        context = _context(tmp_path, table, UNPARTITIONED_PARTITION_SPEC)
        assert [row["id"] for row in _output(_rewrite(context, paths, "{}", [delete]))] == left
