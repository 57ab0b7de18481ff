"""Position deletes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from tests.factories import java_deletes
from tests.interop.scenarios.scene import HIVE_NULL, POSITION, Play, Scene, rows, scenario

_BY_P = {"partitioned_by": "p"}
_TEN = range(10)


@scenario("R20_positions_count_from_the_start_of_the_file_over_several_row_groups")
def several_row_groups(scene: Scene) -> Play:
    tiny = {"write.parquet.row-group-size-bytes": "1", "write.parquet.row-group-check-min-record-count": "10"}
    path, _ = scene.append(rows(*range(100)), rows(100), properties=tiny)
    with scene.loaded().io.new_input(path).open() as stream:
        assert pq.ParquetFile(stream).metadata.num_row_groups > 3
    scene.commit(scene.positions([(path, position) for position in (0, 9, 10, 11, 55, 98, 99)]))
    yield
    assert sorted(scene.ids()) == sorted({*range(101)} - {0, 9, 10, 11, 55, 98, 99})


@scenario("R20_deletes_of_the_same_commit_apply")
def same_commit(scene: Scene) -> Play:
    scene.append(rows(*_TEN))
    (file,) = scene.write(rows(20, 21, 22))
    scene.commit(scene.positions([(str(file.location()), 1)]), rows=[file])
    yield
    assert 21 not in scene.ids()


@scenario("R20_spark_deletes_one_delete_file_per_data_file", spark=True, again=True,
          properties={"write.delete.granularity": "file"})  # fmt: skip
def spark_by_file(scene: Scene) -> Play:
    scene.append(rows(*_TEN), rows(*range(10, 20)), rows(*range(20, 30)))
    scene.sql("delete from {t} where id % 4 = 1", "delete from {t} where id % 4 = 2")
    assert len(scene.files(POSITION)) >= 3
    yield


@scenario("R20_spark_deletes_one_delete_file_per_partition", engine="spark", spark=True, again=True, **_BY_P,
          properties={"write.delete.granularity": "partition"})  # fmt: skip
def spark_by_partition(scene: Scene) -> Play:
    scene.append(rows(*_TEN), rows(*range(10, 20)), rows(*range(20, 30), p="b"))
    scene.sql("delete from {t} where id % 4 = 1")
    assert len(scene.files(POSITION)) == 2
    yield


@scenario("R20_spark_updates_and_merges", spark=True)
def spark_update_and_merge(scene: Scene) -> Play:
    scene.append(rows(*_TEN), rows(*range(10, 20)))
    scene.sql(
        "update {t} set v = 'new' where id % 5 = 0",
        "merge into {t} using (select cast(3 as bigint) k union all select cast(99 as bigint)) s on {t}.id = s.k"
        " when matched then delete when not matched then insert (id, p, v) values (s.k, 'm', 'merged')",
    )
    yield


@scenario("R21_file_scoped_by_reference")
def by_reference(scene: Scene) -> Play:
    first, second = scene.append(rows(*_TEN), rows(*range(10, 20)))
    scene.commit(scene.positions([(first, 3)], scoped="reference"), scene.positions([(second, 3)], scoped="reference"))
    yield


@scenario("R21_file_scoped_by_equal_bounds")
def by_bounds(scene: Scene) -> Play:
    first, second = scene.append(rows(*_TEN), rows(*range(10, 20)))
    scene.commit(scene.positions([(first, 3)], scoped="bounds"), scene.positions([(second, 0)], scoped="bounds"))
    yield


@scenario("R20_many_delete_files_on_one_data_file")
def many_on_one(scene: Scene) -> Play:
    path, _ = scene.append(rows(*_TEN), rows(20))
    for position in (0, 2, 4, 6, 8, 9):
        scene.commit(scene.positions([(path, position)]))
    yield
    assert sorted(scene.ids()) == [1, 3, 5, 7, 20]


@scenario("R20_one_delete_file_on_many_data_files")
def one_on_many(scene: Scene) -> Play:
    paths = scene.append(*(rows(n, n + 100) for n in range(6)))
    scene.commit(scene.positions([(path, 0) for path in paths[:5]]))
    yield
    assert sorted(scene.ids()) == [5, 100, 101, 102, 103, 104, 105]


@scenario("R20_the_same_position_deleted_twice")
def twice(scene: Scene) -> Play:
    path, _ = scene.append(rows(*_TEN), rows(20))
    scene.commit(scene.positions([(path, 4), (path, 5)]))
    scene.commit(scene.positions([(path, 5), (path, 6)]))
    yield
    assert len(scene.ids()) == 8


def _format(file_format: str) -> object:
    @scenario(f"R20_delete_files_in_{file_format}")
    def play(scene: Scene) -> Play:
        first, second = scene.append(rows(*_TEN), rows(*range(10, 20)))
        pairs = [(first, 0), (first, 9), (second, 5)]
        scene.commit(scene.positions(pairs, file_format=file_format))
        yield

    return play


@scenario("R20_formats_mixed_on_one_file")
def formats_mixed(scene: Scene) -> Play:
    path, _ = scene.append(rows(*_TEN), rows(20))
    scene.commit(*(scene.positions([(path, n)], file_format=kind) for n, kind in enumerate(("parquet", "avro", "orc"))))
    yield
    assert sorted(scene.ids()) == [*range(3, 10), 20]


@scenario("R9_every_row_deleted_leaves_no_file")
def all_deleted(scene: Scene) -> Play:
    first, second = scene.append(rows(1, 2), rows(3))
    scene.commit(scene.positions([(first, 0), (first, 1), (second, 0)]))
    outcome = yield
    assert outcome.files_added == 0
    assert not scene.files()
    assert scene.summary()["total-records"] == "0"


@scenario("R9_a_partition_wholly_deleted", **_BY_P, again=True)
def partition_deleted(scene: Scene) -> Play:
    first, _ = scene.append(rows(1, 2), rows(3, p="b"))
    scene.commit(scene.positions([(first, 0), (first, 1)], partition="p=a"))
    yield
    assert [file.partition[0] for file in scene.files()] == ["b"]


@scenario("R18_position_deletes_of_the_null_partition", **_BY_P)
def null_partition(scene: Scene) -> Play:
    first, *_ = scene.append(rows(1, 2, 3, p=None), rows(4, p=None), rows(5))
    scene.commit(scene.positions([(first, 1)], partition=f"p={HIVE_NULL}"))
    yield
    assert sorted(scene.ids()) == [1, 3, 4, 5]


@scenario("R18_position_deletes_of_an_older_spec", **_BY_P, settled=False)
def older_spec(scene: Scene) -> Play:
    first, _ = scene.append(rows(1, 2, 3), rows(4))
    scene.sql("alter table {t} drop partition field p")
    scene.append(rows(5, 6))
    scene.commit(scene.positions([(first, 1)], partition="p=a", spec_id=0))
    yield
    assert sorted(scene.ids()) == [1, 3, 4, 5, 6]


@scenario("R26_delete_files_that_repeat_the_row")
def with_rows(scene: Scene) -> Play:
    path, _ = scene.append(rows(*_TEN), rows(20))
    delete = java_deletes.position_delete(scene.table, [(path, 2), (path, 7)], scoped="bounds", with_rows=True)
    scene.commit(delete)
    yield
    assert sorted(scene.ids()) == [0, 1, 3, 4, 5, 6, 8, 9, 20]


@scenario("R17_deletes_of_files_that_stay_stay", **_BY_P, options={"rewrite-all": True, "where": "p = 'a'"},
          left=(1, 0), settled=False)  # fmt: skip
def others_stay(scene: Scene) -> Play:
    first, second = scene.append(rows(1, 2, 3), rows(4, 5, p="b"))
    scene.commit(scene.positions([(first, 0)], partition="p=a"), scene.positions([(second, 0)], partition="p=b"))
    yield
    assert sorted(scene.ids()) == [2, 3, 5]


@scenario("R17_a_shared_delete_file_stays_while_one_of_its_files_does", left=(1, 0), settled=False,
          options={"rewrite-all": True, "where": "id < 10"})  # fmt: skip
def shared_stays(scene: Scene) -> Play:
    first, _, third = scene.append(rows(1, 2, 3), rows(4, 5), rows(20, 21))
    scene.commit(scene.positions([(first, 0), (third, 1)]))
    yield
    assert third in {file.file_path for file in scene.files()}
    assert sorted(scene.ids()) == [2, 3, 4, 5, 20]


@scenario("bug_17203_a_file_scoped_delete_of_a_file_that_is_gone_is_removed")
def dead_path(scene: Scene) -> Play:
    first, second, _ = scene.append(rows(1, 2), rows(3, 4), rows(5))
    scene.commit(scene.positions([(first, 0)]), scene.positions([(second, 0)]))
    scene.remove(first)
    assert len(scene.files(POSITION)) == 2
    yield
    assert sorted(scene.ids()) == [4, 5]


@scenario("R20_delete_files_strategy_takes_files_with_deletes_only", strategy="delete-files", settled=False,
          options={"delete-file-threshold": 1})  # fmt: skip
def strategy_of_deletes(scene: Scene) -> Play:
    first, second, third = scene.append(rows(*_TEN), rows(*range(10, 20)), rows(*range(20, 30)))
    scene.commit(scene.positions([(first, 0)]), scene.positions([(third, 0)]))
    yield
    assert second in {file.file_path for file in scene.files()}
    assert not {first, third} & {file.file_path for file in scene.files()}


def _large() -> object:
    @scenario("R20_thousands_of_positions_over_many_files")
    def play(scene: Scene) -> Play:
        table = [pa.table({"id": range(n * 2000, n * 2000 + 2000)}) for n in range(4)]
        files = [java_deletes.data_file(scene.table, part) for part in table]
        scene.commit(rows=files)
        pairs = [(str(file.location()), position) for file in files for position in range(0, 2000, 3)]
        scene.commit(scene.positions(pairs, scoped="partition"))
        yield
        assert len(scene.ids()) == 8000 - len(pairs)

    return play


SCENARIOS = [
    several_row_groups, same_commit, spark_by_file, spark_by_partition, spark_update_and_merge, by_reference, by_bounds,
    many_on_one, one_on_many, twice, *map(_format, ("parquet", "avro", "orc")), formats_mixed, all_deleted,
    partition_deleted, null_partition, older_spec, with_rows, others_stay, shared_stays, dead_path, strategy_of_deletes,
    _large(),
]  # fmt: skip
