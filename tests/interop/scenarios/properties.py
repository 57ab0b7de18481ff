"""What a table asks of its files (codec, sizes, Bloom filters, places, order), what a run is asked for (filters,
branches), and tables of version 1."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pyarrow.parquet as pq
from tests.factories import java_metrics, java_rows, racing
from tests.interop.scenarios.scene import EQUALITY, Play, Scenario, Scene, rows, scenario

from iceberg_compaction import Kind

_PARQUET = "write.parquet."


def _path(location: str) -> str:
    return location.removeprefix("file:").replace("///", "/", 1)


def _footers(scene: Scene) -> list[Any]:
    return [pq.ParquetFile(_path(file.file_path)).metadata for file in scene.files()]


def _codec(name: str, level: str | None = None) -> Scenario:
    properties = {f"{_PARQUET}compression-codec": name}
    if level:
        properties[f"{_PARQUET}compression-level"] = level

    @scenario(f"R44_codec_{name}", properties=properties, spark=True)
    def play(scene: Scene) -> Play:
        scene.append(rows(*range(50)), rows(*range(50, 60)))
        yield
        (footer,) = _footers(scene)
        assert footer.row_group(0).column(0).compression == name.upper()

    return play


@scenario("R44_row_groups_of_the_tables_size", properties={f"{_PARQUET}row-group-size-bytes": "3000"})
def row_group_bytes(scene: Scene) -> Play:
    scene.append(rows(*range(1500)), rows(*range(1500, 3000)))
    yield
    (footer,) = _footers(scene)
    assert footer.num_row_groups > 2
    (file,) = java_metrics.written(scene.table)
    offsets = list(file.splitOffsets())
    assert len(offsets) == footer.num_row_groups
    assert offsets == sorted(offsets)
    assert offsets[-1] < file.fileSizeInBytes()


@scenario("R44_dictionaries_and_pages", spark=True, properties={
    f"{_PARQUET}page-size-bytes": "512", f"{_PARQUET}page-row-limit": "20", f"{_PARQUET}dict-size-bytes": "64",
    f"{_PARQUET}page-version": "v2",
})  # fmt: skip
def pages(scene: Scene) -> Play:
    scene.append(rows(*range(500)), rows(*range(500, 600)))
    yield


@scenario("R44_bloom_filters_that_java_reads", spark=True, columns="id bigint, v string, d date", properties={
    f"{_PARQUET}bloom-filter-enabled.column.id": "true", f"{_PARQUET}bloom-filter-enabled.column.v": "true",
    f"{_PARQUET}bloom-filter-fpp.column.v": "0.001", f"{_PARQUET}bloom-filter-ndv.column.id": "100",
})  # fmt: skip
def bloom_filters(scene: Scene) -> Play:
    for start in (0, 40):
        scene.append([{"id": 2 * n, "v": f"v{2 * n}", "d": dt.date(2026, 1, 1)} for n in range(start, start + 40)])
    yield
    (file,) = scene.files()
    jvm = scene.table.jvm
    parquet = jvm.org.apache.parquet.hadoop
    path = jvm.org.apache.hadoop.fs.Path(_path(file.file_path))
    source = parquet.util.HadoopInputFile.fromPath(path, jvm.org.apache.hadoop.conf.Configuration())
    reader = parquet.ParquetFileReader.open(source)
    columns = {str(c.getPath().toDotString()): c for c in reader.getFooter().getBlocks()[0].getColumns()}
    numbers, texts = (reader.readBloomFilter(columns[name]) for name in ("id", "v"))
    assert reader.readBloomFilter(columns["d"]) is None
    binary = jvm.org.apache.parquet.io.api.Binary
    found = [texts.findHash(texts.hash(binary.fromString(f"v{n}"))) for n in range(160)]
    assert all(found[::2])
    assert not all(found[1::2])
    assert numbers.getBitsetSize() > 0
    reader.close()


@scenario("R44_bloom_filter_is_used_by_spark", columns="id bigint, v string", spark=True, properties={
    f"{_PARQUET}bloom-filter-enabled.column.v": "true", f"{_PARQUET}row-group-size-bytes": "4000",
})  # fmt: skip
def bloom_filter_used(scene: Scene) -> Play:
    scene.append([{"id": n, "v": f"v{n * 7919 % 2000}"} for n in range(1000)])
    scene.append([{"id": n, "v": f"v{n * 7919 % 2000}"} for n in range(1000, 2000)])
    yield
    for text in ("v0", "v777", "v1999"):
        found = scene.session.sql(f"select count(*) c from lake.{scene.name} where v = '{text}'").collect()[0].c
        assert found == 1
    assert scene.session.sql(f"select count(*) c from lake.{scene.name} where v = 'v2001'").collect()[0].c == 0


@scenario("R44_statistics_switched_off", columns="id bigint, v string, d double",
          properties={f"{_PARQUET}stats-enabled.column.v": "false"})  # fmt: skip
def no_statistics(scene: Scene) -> Play:
    scene.append([{"id": 1, "v": "x", "d": 1.0}], [{"id": 2, "v": None, "d": float("nan")}])
    yield
    (file,) = java_metrics.written(scene.table)
    assert 2 not in java_metrics.of(scene.table, file)["lowerBounds"]


@scenario("R44_files_of_a_target_size", options={"target-file-size-bytes": 4000, "rewrite-all": True}, settled=False)
def target_size(scene: Scene) -> Play:
    """Bug 2195: every part of what is cut into several files arrives."""
    scene.append(rows(*range(4000)), rows(*range(4000, 5000)))
    yield
    assert len(scene.files()) > 3
    assert sorted(scene.ids()) == [*range(5000)]


# Places


def _place(name: str, partitioned_by: str = "p", **properties: str) -> Scenario:
    """R45: where we put a file is where Java would put one of that name."""

    @scenario(f"R45_{name}", partitioned_by=partitioned_by, properties=properties)
    def play(scene: Scene) -> Play:
        scene.append([*rows(1, 2), *rows(3, p="b/c"), *rows(4, p=None), *rows(5, p="")], [*rows(6), *rows(7, p="b/c")])
        yield
        provider = scene.table.table.locationProvider()
        for file in java_metrics.written(scene.table):
            base = re.sub(r"^[01]{8}-", "", str(file.location()).rsplit("/", 1)[1])  # the hash may stand in the name
            spec = scene.table.spec(file.specId())
            if spec.isUnpartitioned():
                wanted = provider.newDataLocation(base)
            else:
                wanted = provider.newDataLocation(spec, file.partition(), base)
            assert _path(str(file.location())) == _path(str(wanted))

    return play


@scenario("R45_data_path_elsewhere", partitioned_by="p")
def data_path(scene: Scene) -> Play:
    elsewhere = str(scene.table.table.location()) + "-elsewhere"
    scene.sql(f"alter table {{t}} set tblproperties ('write.data.path'='{elsewhere}')")
    scene.append(rows(1), rows(2))
    yield
    assert all(_path(file.file_path).startswith(_path(elsewhere) + "/p=a/") for file in scene.files())


# Order


def _ordered(name: str, order: str, expected: list[int | None]) -> Scenario:
    @scenario(f"R34_{name}", columns="id bigint, v string, f double", spark=True)
    def play(scene: Scene) -> Play:
        scene.sql(f"alter table {{t}} write locally ordered by {order}")
        nan = float("nan")
        scene.append([{"id": 3, "v": "b", "f": nan}, {"id": 1, "v": "c", "f": -0.0}, {"id": None, "v": "a", "f": 1.5}])
        scene.append([{"id": 2, "v": None, "f": None}, {"id": 0, "v": "aa", "f": 0.0}])
        yield
        assert scene.ids() == expected
        (file,) = java_metrics.written(scene.table)
        assert file.sortOrderId() == scene.loaded().sort_order().order_id != 0

    return play


_ORDERS: dict[str, tuple[str, list[int | None]]] = {
    "ascending": ("id", [None, 0, 1, 2, 3]),
    "descending": ("id desc", [3, 2, 1, 0, None]),
    "ascending_nulls_last": ("id asc nulls last", [0, 1, 2, 3, None]),
    "descending_nulls_first": ("id desc nulls first", [None, 3, 2, 1, 0]),
    "by_text": ("v", [2, None, 0, 3, 1]),
    "by_double": ("f", [2, 1, 0, None, 3]),
    "by_double_descending": ("f desc", [3, None, 0, 1, 2]),
    "by_transform_then_column": ("truncate(1, v), id desc", [2, 0, None, 3, 1]),
}


@scenario("R42_order_of_the_inputs_kept_without_a_sort_order")
def unsorted(scene: Scene) -> Play:
    scene.append(rows(3, 1, 2), rows(9, 8))
    yield
    assert scene.ids() in ([3, 1, 2, 9, 8], [9, 8, 3, 1, 2])
    (file,) = java_metrics.written(scene.table)
    assert file.sortOrderId() == 0


@scenario("R42_sort_order_changed_and_removed")
def order_removed(scene: Scene) -> Play:
    scene.sql("alter table {t} write locally ordered by id")
    scene.append(rows(3, 1), rows(2))
    scene.sql("alter table {t} write unordered")
    yield
    (file,) = java_metrics.written(scene.table)
    assert file.sortOrderId() == 0


@scenario("R42_sorted_within_each_partition", partitioned_by="p", again=True, engine="spark")
def ordered_partitions(scene: Scene) -> Play:
    scene.sql("alter table {t} write locally ordered by id desc")
    scene.append([*rows(3, 1), *rows(2, 7, p="b")], [*rows(5), *rows(4, p="b")])
    scene.delete([{"id": 3}], partition="p=a")
    yield
    for file in scene.files():
        ids = pq.read_table(_path(file.file_path))["id"].to_pylist()
        assert ids == sorted(ids, reverse=True)


# What a run is asked for


@scenario("R47_rows_that_a_filter_does_not_match_stay", settled=False,
          options={"rewrite-all": True, "where": "id = 2"})  # fmt: skip
def residuals(scene: Scene) -> Play:
    _, other = scene.append(rows(1, 2, 3), rows(10, 11))
    yield
    assert other in {file.file_path for file in scene.files()}
    assert sorted(scene.ids()) == [1, 2, 3, 10, 11]


@scenario("R47_filters_on_partitions", partitioned_by="days(ts)", columns="id bigint, ts timestamp", settled=False,
          options={"rewrite-all": True, "where": "ts >= '2026-01-02T00:00:00+00:00'"})  # fmt: skip
def partition_filter(scene: Scene) -> Play:
    days = [dt.datetime(2026, 1, day, 12, tzinfo=dt.timezone.utc) for day in (1, 2, 3)]
    old, *_ = scene.append(*([{"id": n, "ts": day}] for n, day in enumerate(days)), [{"id": 9, "ts": days[2]}])
    yield
    assert old in {file.file_path for file in scene.files()}
    assert len(scene.files()) == 3


@scenario(
    "bug_14667_filter_and_order_on_a_single_file", settled=False, options={"rewrite-all": True, "where": "id > 1"}
)
def single_file(scene: Scene) -> Play:
    scene.sql("alter table {t} write locally ordered by id")
    (old,) = scene.append(rows(3, 1, 2))
    yield
    assert old not in {file.file_path for file in scene.files()}
    assert scene.ids() == [1, 2, 3]


@scenario("R46_a_branch_moves_alone", branch="audit")
def branch(scene: Scene) -> Play:
    scene.append(rows(1), rows(2))
    scene.sql("alter table {t} create branch audit")
    scene.append(rows(3), branch="audit")
    main = scene.loaded().metadata.snapshot_by_name("main")
    yield
    assert scene.loaded().metadata.snapshot_by_name("main") == main
    assert len(java_rows.read(scene.table, branch="main")) == 2
    assert len(java_rows.read(scene.table, branch="audit")) == 3


@scenario("R46_main_moves_and_a_branch_does_not")
def main_only(scene: Scene) -> Play:
    scene.append(rows(1), rows(2))
    scene.sql("alter table {t} create branch audit")
    scene.delete([{"id": 1}])
    yield
    assert sorted(java_rows.read(scene.table, branch="audit")["id"].to_pylist()) == [1, 2]
    assert scene.ids() == [2]


@scenario("R46_write_audit_publish_does_not_stage_a_rewrite", properties={"write.wap.enabled": "true"})
def wap(scene: Scene) -> Play:
    scene.append(rows(1), rows(2))
    yield
    assert len(scene.files()) == 1


# Versions, and what Java does afterwards


@scenario("R1_version_1", properties={"format-version": "1"}, spark=True, again=True)
def version_1(scene: Scene) -> Play:
    scene.append(rows(1), rows(2))
    yield
    assert {entry.sequence_number for entry in scene.entries()} == {0}


@scenario("R1_version_1_upgraded", properties={"format-version": "1"}, spark=True, again=True)
def upgraded(scene: Scene) -> Play:
    scene.append(rows(1, 2), rows(3, 4))
    scene.sql("alter table {t} set tblproperties ('format-version'='2')")
    yield


@scenario("R1_version_1_upgraded_and_deleted_from", properties={"format-version": "1"}, spark=True, again=True,
          partitioned_by="p")  # fmt: skip
def upgraded_deletes(scene: Scene) -> Play:
    """Bugs 4514 and 5913: files of version 1 have sequence number 0, also in manifests that were rewritten."""
    path, _ = scene.append(rows(1, 2), rows(3, 4))
    scene.sql(
        "alter table {t} set tblproperties ('format-version'='2')", "call lake.system.rewrite_manifests('{name}')"
    )
    scene.append(rows(5, 6))
    scene.commit(scene.positions([(path, 0)], partition="p=a"), scene.equality([{"id": 3}], partition="p=a"))
    yield
    assert sorted(scene.ids()) == [2, 4, 5, 6]


@scenario("bug_3842_sequence_numbers_survive_merged_manifests", settled=False, left=None,
          properties={"commit.manifest.min-count-to-merge": "2"})  # fmt: skip
def merged_manifests(scene: Scene) -> Play:
    scene.append(rows(1, 2), rows(3, 4))
    plan = scene.plan()
    scene.delete([{"id": 1}, {"id": 4}])
    assert racing.apply_as_planned(scene.compactor(), plan).kind is Kind.COMPACTED
    scene.sql("insert into {t} values (1, 'a', 'again')", "call lake.system.rewrite_manifests('{name}')")
    assert sorted(scene.ids()) == [1, 2, 3]
    assert scene.files(EQUALITY)
    yield
    assert sorted(scene.ids()) == [1, 2, 3]


@scenario("java_expires_and_removes_orphans_afterwards", partitioned_by="p")
def expired(scene: Scene) -> Play:
    """Every file that the snapshot needs is found by Java as needed."""
    path, _ = scene.append(rows(1, 2), rows(3, p="b"))
    scene.commit(scene.positions([(path, 0)], partition="p=a"))
    yield
    scene.sql(
        "call lake.system.expire_snapshots(table => '{name}', older_than => timestamp'2100-01-01 00:00:00',"
        " retain_last => 1)"
    )
    spark = scene.table.iceberg.spark.actions.SparkActions.get(scene.session._jsparkSession)
    scene.table.table.refresh()
    spark.deleteOrphanFiles(scene.table.table).olderThan(2**42).execute()
    assert sorted(scene.ids()) == [2, 3]
    assert scene.compact("small-files", **{"min-input-files": 2}).kind is Kind.HEALTHY


@scenario("java_compacts_what_we_compacted_and_we_again", partitioned_by="p", again=True, spark=True)
def in_turns(scene: Scene) -> Play:
    scene.append([*rows(1, 2), *rows(3, p="b")], rows(4))
    scene.sql("call lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    scene.append(rows(5))
    scene.delete([{"id": 1}], partition="p=a")
    scene.compact()
    scene.append(rows(1))
    scene.sql("delete from {t} where id = 2")
    yield
    assert sorted(scene.ids()) == [1, 3, 4, 5]


@scenario("R43_encrypted_tables_are_refused", kind=Kind.UNSUPPORTED)
def encrypted(scene: Scene) -> Play:
    scene.append(rows(1), rows(2))
    scene.sql("alter table {t} set tblproperties ('encryption.key-id'='k')")
    yield


@scenario("R44_mixed_input_formats_are_refused", kind=Kind.UNSUPPORTED)
def other_formats(scene: Scene) -> Play:
    scene.append(rows(1))
    scene.append(rows(2), file_format="avro")
    yield


SCENARIOS = [
    _codec("zstd", "9"), _codec("gzip"), _codec("snappy"), _codec("uncompressed"), row_group_bytes, pages,
    bloom_filters, bloom_filter_used, no_statistics, target_size, _place("default"), data_path,
    _place("unpartitioned", partitioned_by="", **{"write.object-storage.enabled": "true"}),
    _place("object_storage", **{"write.object-storage.enabled": "true"}),
    _place("object_storage_without_partitions", **{
        "write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false",
    }),
    *(_ordered(name, *case) for name, case in _ORDERS.items()), unsorted, order_removed, ordered_partitions, residuals,
    partition_filter, single_file, branch, main_only, wap, version_1, upgraded, upgraded_deletes, merged_manifests,
    expired, in_turns, encrypted, other_formats,
]  # fmt: skip
