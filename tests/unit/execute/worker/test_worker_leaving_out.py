"""Row groups that lose rows are joined like others: no row is lost or revived, and no figure speaks of deleted rows."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType
from tests.factories import delete_files, joining, spliced, tasks

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.copy import copied_row_groups, join_choice, join_rows
from iceberg_compaction.execute.worker.deletes import apply_deletes
from iceberg_compaction.execute.worker.input import read_files
from iceberg_compaction.formats.parquet.join import join_row_groups, source_chunks, ways
from iceberg_compaction.model.policies import CopyMode, ProofLevel

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import DeleteFile

SPREAD = frozenset(range(3, 4 * joining.ROWS, 17))  # some of every row group
DELETED = copied_row_groups.Kept.DELETED.value


@pytest.fixture(autouse=True)
def _small_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few kilobytes are joined, too."""
    monkeypatch.setattr(ways, "_LEAST_PAGE", 0)
    monkeypatch.setattr(join_choice, "_GAIN", 1000.0)
    monkeypatch.setattr(read_files, "_TINY_CHUNK", 0)


def _positions(root: Path, paths: Sequence[Path], dead: Collection[int], name: str = "p") -> DeleteFile:
    """Position deletes of rows by their number in all files."""
    rows = [(paths[at // joining.ROWS], at % joining.ROWS) for at in sorted(dead)]
    return delete_files.position_delete(root / f"{name}.parquet", rows, sequence_number=1)


def _keys(root: Path, dead: Collection[int]) -> DeleteFile:
    """Equality deletes of the same: ids are the numbers of rows."""
    only = Schema(joining.SCHEMA.find_field(1))
    rows = [{"id": key} for key in sorted(dead)]
    return delete_files.equality_delete(root / "e.parquet", rows, only, [1], sequence_number=2)


def _alive(paths: Sequence[Path], dead: Collection[int]) -> list[str]:
    return [row for at, row in enumerate(joining.stored(paths)) if at not in dead]


@pytest.mark.parametrize("level", list(ProofLevel))
def test_row_groups_with_deleted_positions_are_joined_without_them(tmp_path: Path, level: ProofLevel) -> None:
    paths = joining.inputs(tmp_path, groups=2)
    dead = {350, 351, 600}
    result = joining.run(tmp_path, paths, deletes=[_positions(tmp_path, paths, dead)], verify=level)
    assert joining.efforts(result) == (0, 8, 0)
    assert result.effort.kept_from_copying == {}
    assert tasks.read_rows(result) == _alive(paths, dead)
    assert (result.proof.deleted_rows, result.proof.rows, result.proof.copied.rows) == (3, 797, 797)
    assert [pq.read_metadata(file.file_path).num_row_groups for file in result.staged] == [1]
    assert spliced.check(result.staged[0].file_path).column_indexes > 0


def test_row_groups_with_deleted_keys_are_joined_without_them(tmp_path: Path) -> None:
    paths = joining.inputs(tmp_path, groups=2)
    result = joining.run(tmp_path, paths, deletes=[_keys(tmp_path, {350, 600, 10**6})])
    assert joining.efforts(result) == (0, 8, 0)
    assert result.proof.deleted_rows == 2
    assert tasks.read_rows(result) == _alive(paths, {350, 600})


@pytest.mark.parametrize("seed", range(8))
def test_no_row_is_lost_or_revived_whatever_is_deleted(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    paths = joining.inputs(tmp_path, groups=4, use_dictionary=chance.choice((["name"], True, False)))
    dead = {chance.randrange(4 * joining.ROWS) for _ in range(chance.choice((1, 5, 40, 150)))}
    start = chance.randrange(4) * joining.ROWS
    dead |= set(range(start, start + chance.choice((0, 50, 100))))  # whole row groups
    keys = {number for number in dead if chance.random() < 0.5}
    deletes = []
    if dead - keys:
        deletes.append(_positions(tmp_path, paths, dead - keys))
        deletes.append(_positions(tmp_path, paths, set(list(dead - keys)[:3]), "again"))
    if keys:
        deletes.append(_keys(tmp_path, keys))
    result = joining.run(tmp_path, paths, deletes=deletes, target=chance.choice((8000, 2**20)))
    assert tasks.read_rows(result) == _alive(paths, dead)
    assert result.proof.deleted_rows == len(dead)


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"use_dictionary": True}], ids=str)
@pytest.mark.parametrize("told", [False, True])
def test_metrics_are_those_of_a_full_encode(tmp_path: Path, told: bool, options: dict[str, Any]) -> None:
    """Bounds and nulls of deleted rows are not in them: the smallest and largest of all columns are deleted."""
    paths = joining.inputs(tmp_path, **options)
    dead = SPREAD | {0, 1, 4 * joining.ROWS - 1}
    deletes = [_positions(tmp_path, paths, dead)]
    of_task = joining.manifest_metrics(tmp_path, paths) if told else {}
    encoded = joining.run(tmp_path / "e", paths, deletes=deletes, copy_row_groups=CopyMode.NEVER)
    joined = joining.run(tmp_path / "j", paths, deletes=deletes, of_task=of_task)
    assert joined.effort.joined_groups == 4
    assert tasks.read_rows(joined) == tasks.read_rows(encoded)
    for name in joining.METRICS:
        assert getattr(joined.staged[0], name) == getattr(encoded.staged[0], name), name
    assert len(joined.staged[0].split_offsets) == 1


@pytest.mark.parametrize("level", list(ProofLevel))
def test_inputs_without_statistics_are_counted(tmp_path: Path, level: ProofLevel) -> None:
    paths = joining.inputs(tmp_path, write_statistics=False, write_page_index=False)
    deletes = [_positions(tmp_path, paths, SPREAD)]
    encoded = joining.run(tmp_path / "e", paths, deletes=deletes, copy_row_groups=CopyMode.NEVER).staged[0]
    joined = joining.run(tmp_path / "j", paths, deletes=deletes, verify=level)
    assert tasks.read_rows(joined) == _alive(paths, SPREAD)
    for name in joining.METRICS:
        assert getattr(joined.staged[0], name) == getattr(encoded, name), name


@pytest.mark.parametrize(("mode", "kept"), [(CopyMode.NEVER, {}), (CopyMode.ALWAYS, {DELETED: 4})])
def test_rows_are_decoded_unless_the_choice_is_ours(tmp_path: Path, mode: CopyMode, kept: dict[str, int]) -> None:
    paths = joining.inputs(tmp_path)
    result = joining.run(tmp_path, paths, deletes=[_positions(tmp_path, paths, SPREAD)], copy_row_groups=mode)
    assert joining.efforts(result) == (0, 0, 4)
    assert result.effort.kept_from_copying == kept
    assert tasks.read_rows(result) == _alive(paths, SPREAD)


def test_row_groups_of_which_much_is_deleted_are_decoded_and_the_others_joined(tmp_path: Path) -> None:
    paths = joining.inputs(tmp_path, groups=2)
    dead = set(range(200, 240)) | set(range(600, 700))  # two fifths of a row group, and the whole of another
    result = joining.run(tmp_path, paths, deletes=[_positions(tmp_path, paths, dead)])
    assert joining.efforts(result) == (0, 6, 1)
    assert result.effort.kept_from_copying == {DELETED: 1}
    assert tasks.read_rows(result) == _alive(paths, dead)
    assert result.proof.deleted_rows == len(dead)


def test_row_groups_are_joined_without_others_where_leaving_out_does_not_pay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(join_choice._JOINED, ways.JoinWay.PLAIN, 1e-9)
    monkeypatch.setitem(join_choice._JOINED, ways.JoinWay.INDEXES, 1e12)
    paths = joining.inputs(tmp_path, groups=2)
    dead = {350, 351, 600}
    result = joining.run(tmp_path, paths, deletes=[_positions(tmp_path, paths, dead)])
    assert joining.efforts(result) == (0, 6, 2)
    assert result.effort.kept_from_copying == {DELETED: 2}
    assert tasks.read_rows(result) == _alive(paths, dead)


def test_large_row_groups_are_copied_beside_those_that_lose_rows(tmp_path: Path) -> None:
    paths = joining.inputs(tmp_path, groups=2)
    result = joining.run(tmp_path, paths, deletes=[_positions(tmp_path, paths, {350, 600})], min_row_group=1)
    assert joining.efforts(result) == (6, 2, 0)
    assert tasks.read_rows(result) == _alive(paths, {350, 600})


def test_a_row_group_whose_decoded_columns_take_too_much_memory_is_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_choice, "_DECODED_BYTES", 100)
    paths = joining.inputs(tmp_path)
    result = joining.run(tmp_path, paths, deletes=[_positions(tmp_path, paths, SPREAD)], min_row_group=1)
    assert joining.efforts(result) == (0, 0, 4)
    assert tasks.read_rows(result) == _alive(paths, SPREAD)


def test_deletes_count_once_where_pages_cannot_be_joined_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: Any) -> None:
        raise ValueError("a page is damaged")

    monkeypatch.setattr(join_row_groups, "join", damaged)
    paths = joining.inputs(tmp_path, groups=2)
    deletes = [_positions(tmp_path, paths, {350, 351}), _keys(tmp_path, {600})]
    result = joining.run(tmp_path, paths, deletes=deletes)
    assert joining.efforts(result) == (0, 0, 8)
    assert tasks.read_rows(result) == _alive(paths, {350, 351, 600})
    assert result.proof.deleted_rows == 3


def test_partition_columns_defaults_and_missing_columns_lose_the_same_rows(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"), spec_id=3)
    now = Schema(
        *joining.SCHEMA.fields,
        NestedField(20, "extra", LongType(), required=False),
        NestedField(21, "kind", StringType(), required=False, initial_default="usual"),
        NestedField(22, "weight", DoubleType(), required=False),
    )
    paths = joining.inputs(tmp_path)
    more = [pa.array(range(200)), pa.array(["k"] * 200), pa.array([0.5] * 200)]
    columns = [*joining.rows(joining.ROWS, 4 * joining.ROWS).columns, *more]
    newer = pa.table(columns, schema=arrow_schemas.file_schema(now))
    paths.append(joining.write(tmp_path / "newer.parquet", newer, now))
    dead = SPREAD | {4 * joining.ROWS + at for at in (0, 5, 199)}
    delete = _positions(tmp_path, paths, dead)
    partition = json.dumps({"name": "here"})
    result = joining.run(tmp_path, paths, schema=now, deletes=[delete], spec=spec, partition=partition)
    assert result.effort.joined_groups == 5
    table = pa.concat_tables(pq.read_table(file.file_path) for file in result.staged)
    ids = [at for at in range(5 * joining.ROWS) if at not in dead]
    assert table["id"].to_pylist() == ids
    assert set(table["name"].to_pylist()) == {"here"}
    assert table["extra"].to_pylist() == [at - 800 if at >= 800 else None for at in ids]
    assert table["kind"].to_pylist() == ["k" if at >= 800 else "usual" for at in ids]
    assert table["weight"].null_count == sum(at < 800 for at in ids)
    assert result.staged[0].null_value_counts[20] == table["extra"].null_count


def test_a_bloom_filter_has_the_rows_that_stay(tmp_path: Path) -> None:
    properties = {"write.parquet.bloom-filter-enabled.column.name": "true"}
    paths = joining.inputs(tmp_path)
    result = joining.run(tmp_path, paths, deletes=[_positions(tmp_path, paths, SPREAD)], properties=properties)
    assert joining.efforts(result) == (0, 4, 0)
    assert tasks.read_rows(result) == _alive(paths, SPREAD)


# The proof


def test_deep_proof_notices_that_other_rows_were_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = apply_deletes.DeleteFilter.dead_mask

    def shifted(self: Any, number: int, first: int, rows: int) -> Any:
        mask = real(self, number, first, rows)
        return np.roll(mask, 1) if joins else mask

    joins, load = False, join_rows._load

    def loaded(*arguments: Any) -> Any:
        nonlocal joins
        joins = True
        try:
            return load(*arguments)
        finally:
            joins = False

    monkeypatch.setattr(apply_deletes.DeleteFilter, "dead_mask", shifted)
    monkeypatch.setattr(join_rows, "_load", loaded)
    monkeypatch.setattr(join_rows, "_AT_ONCE", 1)
    paths = joining.inputs(tmp_path)
    with pytest.raises(errors.ProofError):
        joining.run(tmp_path, paths, deletes=[_positions(tmp_path, paths, SPREAD)], verify=ProofLevel.DEEP)
    assert tasks.files_below(tmp_path) == []


@pytest.mark.parametrize("level", list(ProofLevel))
def test_proof_notices_nulls_that_were_left_out_in_place_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: ProofLevel
) -> None:
    real = source_chunks.alive

    def shifted(stored: pa.Table, kept: pa.BooleanArray) -> pa.Table:
        rest = real(stored, kept)
        return rest if not rest.column(0).null_count else _without_null(stored, rest.num_rows)

    def _without_null(stored: pa.Table, rows: int) -> pa.Table:
        return stored.filter(pc.is_valid(stored.column(0))).slice(0, rows)

    monkeypatch.setattr(source_chunks, "alive", shifted)
    paths = joining.inputs(tmp_path)
    few = range(0, 4 * joining.ROWS, 5)  # more than there are nulls
    with pytest.raises(errors.ProofError, match="null"):
        joining.run(tmp_path, paths, deletes=[_positions(tmp_path, paths, few)], verify=level)
    assert tasks.files_below(tmp_path) == []


@pytest.mark.parametrize("level", list(ProofLevel))
def test_another_number_of_rows_than_planned_is_never_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: ProofLevel
) -> None:
    real = apply_deletes.DeleteFilter.dead_rows
    monkeypatch.setattr(apply_deletes.DeleteFilter, "dead_rows", lambda *of: max(0, real(*of) - 1))
    paths = joining.inputs(tmp_path)
    with pytest.raises(errors.ProofError, match="were to be left out"):
        joining.run(tmp_path, paths, deletes=[_positions(tmp_path, paths, SPREAD)], verify=level)
    assert tasks.files_below(tmp_path) == []
