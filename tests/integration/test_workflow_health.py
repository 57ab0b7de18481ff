"""Health of real tables in a real catalog: one, many at once, and with properties set."""

from __future__ import annotations

import datetime
import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField
from tests.factories import lake as lakes
from tests.factories import manifests, runs

from iceberg_compaction import errors
from iceberg_compaction.catalog import threads
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.table_health import BrokenTable, PropertyFix, TableHealth
from iceberg_compaction.operations import set_properties
from iceberg_compaction.workflow import diagnose, fleet

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

BY_DAY = Schema(NestedField(1, "day", DateType()), NestedField(2, "value", LongType()))
FLINK = {"flink.job-id": "5f1c", "flink.operator-id": "sink"}


def streamed(catalog: Catalog, name: str, commits: int = 8) -> None:
    """A table that a Flink job has written, each commit two days; the first day's file of each is the smaller one."""
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "day"))
    table = lakes.make_table(catalog, name, BY_DAY, spec=spec, properties={"write.parquet.compression-codec": "gzip"})
    days = [datetime.date(2026, 1, 1)] * 10 + [datetime.date(2026, 1, 2)] * 20
    for number in range(commits):
        rows = {"day": pa.array(days), "value": pa.array(range(number * 30, number * 30 + 30))}
        table.append(pa.table(rows), snapshot_properties=FLINK)


def test_all_figures_of_a_streamed_table(local_lake: lakes.Lake) -> None:
    streamed(local_lake.catalog, "db.clicks")
    table = local_lake.catalog.load_table("db.clicks")
    found = diagnose.diagnose(local_lake.catalog, "db.clicks", Policy())
    sizes = [file["file_size_in_bytes"] for file in table.inspect.data_files().to_pylist()]
    assert found.sick
    assert (found.data_files, found.small_files, found.partitions, found.bytes) == (16, 16, 2, sum(sizes))
    assert (found.records, found.snapshots, found.refs, found.manifests) == (240, 8, 1, 8)
    assert found.manifest_bytes == sum(m["length"] for m in table.inspect.manifests().to_pylist())
    assert found.metadata_bytes == found.manifest_bytes + len(table.io.new_input(table.metadata_location))
    assert [part.records for part in found.worst_partitions] == [80, 160]
    assert found.clustering is not None
    assert (found.clustering.column, found.clustering.depth) == ("day", 8.0)
    writer = found.writers[0]
    assert (writer.name, writer.commits, writer.files_per_commit) == ("flink job 5f1c (append)", 8, 2.0)
    assert (writer.live_files, writer.live_small_files, writer.added_records) == (16, 16, 240)
    assert "execution.checkpointing.interval" in found.causes[0]
    assert [day.total_files for day in found.growth][-1] == 16
    assert sum(day.added_records for day in found.growth) == 240
    assert [(fix.name, fix.old, fix.new) for fix in found.fixes] == [
        ("write.parquet.compression-codec", "gzip", "zstd")
    ]


def test_health_survives_json(local_lake: lakes.Lake) -> None:
    streamed(local_lake.catalog, "db.clicks", 2)
    found = diagnose.diagnose(local_lake.catalog, "db.clicks", Policy())
    assert TableHealth.model_validate_json(found.model_dump_json()) == found


def test_a_compacted_table_names_both_writers(local_lake: lakes.Lake) -> None:
    from iceberg_compaction import Compactor

    streamed(local_lake.catalog, "db.clicks")
    Compactor(local_lake.catalog, engine="inline").compact_table("db.clicks")
    found = diagnose.diagnose(local_lake.catalog, "db.clicks", Policy())
    assert (found.sick, found.data_files, found.causes) == (False, 2, ())
    assert {(one.engine, one.operation, one.live_files) for one in found.writers} == {
        ("flink", "append", 0),
        ("iceberg-compaction", "replace", 2),
    }


def test_one_broken_table_does_not_stop_the_rest(local_lake: lakes.Lake) -> None:
    for number in range(6):
        lakes.append_small_files(lakes.make_table(local_lake.catalog, f"db.t{number}"), 1)
    seen: list[tuple[str, bool]] = []
    names = [f"db.t{number}" for number in range(6)]

    def check(name: str) -> TableHealth:
        if name == "db.t2":
            raise errors.MetadataError("Manifest m is missing.")
        if name == "db.t4":
            raise ZeroDivisionError("oh")
        return diagnose.diagnose(local_lake.catalog, name, Policy())

    def on_done(one: fleet.Diagnosis) -> None:
        seen.append((one.table, threading.current_thread() is threading.main_thread()))

    found = fleet.diagnose_all(local_lake.catalog, names, check, parallel=3, on_done=on_done)
    assert [one.table for one in found] == names
    assert sorted(seen) == [(name, True) for name in names]
    broken = {one.table: one.error for one in found if isinstance(one, BrokenTable)}
    assert broken["db.t2"] == "Manifest m is missing."
    assert "ZeroDivisionError" in broken["db.t4"]
    assert len(broken) == 2


def test_an_interrupt_ends_it_all() -> None:
    def interrupted(one: fleet.Diagnosis) -> None:
        raise KeyboardInterrupt

    def diagnose(name: str) -> TableHealth:
        raise errors.MetadataError("gone")

    with pytest.raises(KeyboardInterrupt):
        fleet.diagnose_all(object(), ["a", "b"], diagnose, on_done=interrupted)  # type: ignore[arg-type]


def test_hive_is_asked_by_one_thread_only(local_lake: lakes.Lake) -> None:
    class HiveCatalog:
        """Only its name counts."""

    class Derived(HiveCatalog):
        """So does that of what it is derived from."""

    assert not threads.may_share(Derived())  # type: ignore[arg-type]
    assert threads.may_share(local_lake.catalog)


def healed(local_lake: lakes.Lake, *fixes: PropertyFix) -> TableHealth:
    found = diagnose.diagnose(local_lake.catalog, "db.t", Policy())
    return found.model_copy(update={"fixes": fixes})


MODE = "write.distribution-mode"


def test_properties_are_set_and_nothing_else(lake: lakes.Lake) -> None:
    name = lake.name("t")
    lakes.append_small_files(lakes.make_table(lake.catalog, name, properties={MODE: "none", "owner": "me"}), 1)
    before = lake.catalog.load_table(name)
    set_properties.set_properties(before, {MODE: "hash"}, {MODE: "none"}, runs.make_run())
    after = lake.catalog.load_table(name)
    assert after.properties == {**before.properties, MODE: "hash"}
    assert after.metadata.current_snapshot_id == before.metadata.current_snapshot_id


@pytest.mark.parametrize("seen", [None, "none"])
def test_what_somebody_else_has_set_meanwhile_stays(local_lake: lakes.Lake, seen: str | None) -> None:
    table = lakes.make_table(local_lake.catalog, "db.t", properties={MODE: "range"})
    with pytest.raises(errors.ConflictError, match=MODE):
        set_properties.set_properties(table, {MODE: "hash"}, {MODE: seen}, runs.make_run())
    assert local_lake.catalog.load_table("db.t").properties[MODE] == "range"


def test_only_safe_properties_are_set(local_lake: lakes.Lake) -> None:
    lakes.make_table(local_lake.catalog, "db.t")
    unsafe = PropertyFix(name="history.expire.max-snapshot-age-ms", old=None, new="1", why="no")
    safe = PropertyFix(name=MODE, old=None, new="hash", why="yes")
    fleet.fix_properties(local_lake.catalog, healed(local_lake, unsafe, safe), runs.make_run())
    found = local_lake.catalog.load_table("db.t").properties
    assert found.get(MODE) == "hash"
    assert unsafe.name not in found


def test_real_deletes_are_told_with_what_they_meet(local_lake: lakes.Lake) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 4, 10)
    first = table.inspect.data_files()["file_path"][0].as_py()
    table = manifests.add_position_delete(table, {first: [0, 1, 2]})
    table = manifests.add_equality_delete(table, pa.table({"id": pa.array([1, 2], pa.int64())}))
    found = diagnose.diagnose(local_lake.catalog, "db.t", Policy())
    deletes = found.deletes
    assert (deletes.position_files, deletes.position_rows, deletes.equality_files, deletes.equality_rows) == (
        1,
        3,
        1,
        2,
    )
    assert (deletes.fragment_ratio, deletes.deleted_row_ratio, deletes.equality_row_ratio) == (0.5, 0.075, 0.05)
    # The equality delete is newer than all four files, the position delete is for one of them.
    assert (deletes.per_data_file_mean, deletes.per_data_file_max, deletes.dangling_files) == (1.25, 2, 0)
    assert found.sick  # three of ten rows of the first file are deleted, and one in twenty of all
    assert "--strategy delete-files --delete-file-threshold 5" in " ".join(found.advice)
    assert found.unsupported == ()
