"""The writers of small files, their cadence, and the remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.factories import histories, inventories

from iceberg_compaction.inspect import assess, causes, growth, health_request, prevention, writers
from iceberg_compaction.model import table_view
from iceberg_compaction.model.policies import Policy, resolve_sizes
from iceberg_compaction.model.snapshot_history import SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.snapshot_history import History
    from iceberg_compaction.model.table_health import TableHealth

MIB = 2**20
DAY = '{"day": "2026-01-01"}'


def assessed(
    sizes: Sequence[int], past: History, *, sequence: Sequence[int] | None = None, **changes: Any
) -> TableHealth:
    rows = inventories.files(sizes, partitions=DAY)
    if sequence is not None:
        field = table_view.FILES.field("file_sequence_number")
        rows = rows.set_column(rows.schema.get_field_index(field.name), field, pa.array(sequence, pa.int64()))
    view = inventories.view(rows, **changes)
    sizes_in_force = resolve_sizes(Policy(), view.properties)
    return assess.assess(view, health_request.Checkup(policy=Policy(), sizes=sizes_in_force, sick=True, history=past))


FLINK = {"engine": "flink", "app": "5f1c", "added_files": 4, "added_bytes": 4 * MIB, "added_records": 40}
SPARK = {"engine": "spark", "added_files": 1, "added_bytes": 512 * MIB, "added_records": 10}


def test_the_guilty_writer_is_named_with_its_cadence() -> None:
    past = histories.history(
        histories.commits(10, every_ms=12_000, changed_partitions=1, **FLINK),
        histories.commits(2, every_ms=3_600_000, first=11, changed_partitions=1, **SPARK),
        partitioned=True,
    )
    sequence = [number for number in range(1, 11) for _ in range(4)] + [11, 12]
    health = assessed([MIB] * 40 + [512 * MIB] * 2, past, sequence=sequence)
    flink, spark = health.writers
    assert (flink.name, flink.engine, flink.app, flink.operation) == (
        "flink job 5f1c (append)",
        "flink",
        "5f1c",
        "append",
    )
    assert (flink.commits, flink.median_interval_seconds, flink.files_per_commit) == (10, 12.0, 4.0)
    assert (flink.added_files, flink.added_records, flink.mean_file_bytes) == (40, 400, MIB)
    assert (flink.live_files, flink.live_small_files, flink.small_share) == (40, 40, 1.0)
    assert (spark.live_files, spark.live_small_files, spark.small_share) == (2, 0, 0.0)
    # Ten commits cannot become less than one, however hasty they were.
    assert health.causes == (
        "Flink job 5f1c (append) wrote 40 of the 40 small files: a commit every 12 s, 4 files each, 1.0 MiB on "
        "average. A checkpoint interval of 10 minutes (execution.checkpointing.interval) would make about 10 times "
        "fewer files.",
    )
    assert [(fix.name, fix.old, fix.new) for fix in health.fixes] == [("write.distribution-mode", None, "hash")]
    assert "flink job 5f1c (append) adds 4.0 files to each partition" in health.fixes[0].why


@pytest.mark.parametrize(
    ("engine", "knob"),
    [
        ("spark", "processingTime='10 minutes'"),
        ("kafka-connect", "iceberg.control.commit.interval-ms=600000"),
        ("trino", "one INSERT"),
        ("unknown", "ollecting rows"),
    ],
)
def test_each_engine_has_its_own_knob(engine: str, knob: str) -> None:
    made = {**FLINK, "engine": engine, "app": None}
    health = assessed([MIB] * 40, histories.history(histories.commits(40, **made)))
    assert knob.lower() in health.causes[0].lower()
    assert "10 times fewer" in health.causes[0]


def test_a_slow_writer_is_not_told_to_be_slower() -> None:
    slow = {"every_ms": 86_400_000, "engine": "spark", "added_bytes": 8 * MIB, "added_records": 8}
    scattered = assessed([MIB] * 8, histories.history(histories.commits(8, added_files=8, **slow)))
    assert "shuffle them by partition" in scattered.causes[0]
    single = assessed([MIB] * 8, histories.history(histories.commits(8, added_files=1, **slow)))
    assert "1.6% of a full file" in single.causes[0]


def test_short_lived_applications_are_taken_together() -> None:
    jobs = [
        histories.commits(1, first=n, start_ms=histories.NOON + n * 60_000, **{**SPARK, "app": f"a{n}"})
        for n in range(1, 6)
    ]
    long_lived = histories.commits(3, first=10, **{**SPARK, "app": "stream"})
    commits = writers.group(pa.concat_tables([*jobs, long_lived]))
    assert [commits.name(n) for n in range(2)] == [
        "spark, 5 applications (append)",
        "spark application stream (append)",
    ]


def test_operations_are_writers_of_their_own_and_rewrites_are_not_guilty() -> None:
    replaced = {**FLINK, "engine": "iceberg-compaction", "app": None, "operation": "replace"}
    past = histories.history(histories.commits(5, **replaced))
    health = assessed([MIB] * 40, past, sequence=[1] * 40)
    assert [writer.name for writer in health.writers] == ["iceberg-compaction (replace)"]
    assert health.causes == ()


def test_version_one_cannot_tell_whose_files_are_live() -> None:
    past = histories.history(histories.commits(4, sequence_number=0, **FLINK))
    health = assessed([MIB] * 16, past, sequence=[0] * 16)
    assert (health.writers[0].live_files, health.writers[0].live_small_files) == (None, None)
    assert "added 16 files" in health.causes[0]


def test_sequence_numbers_far_apart_are_counted_too() -> None:
    far = 2**40
    past = histories.history(histories.commits(2, sequence_number=[1, far], **FLINK))
    health = assessed([MIB, MIB, 512 * MIB], past, sequence=[1, far, far])
    assert (health.writers[0].live_files, health.writers[0].live_small_files) == (3, 2)


def test_files_of_expired_snapshots_belong_to_nobody() -> None:
    health = assessed([MIB] * 10, histories.history(histories.commits(2, first=9, **FLINK)))
    assert (health.writers[0].live_files, health.writers[0].live_small_files) == (2, 2)


def test_a_summary_without_counts_says_nothing() -> None:
    health = assessed([MIB] * 10, histories.history(histories.commits(3)))
    assert health.writers == ()
    assert health.growth[0].total_files is None
    assert assessed([MIB], histories.history()).growth == ()


def test_growth_is_by_day_and_writer() -> None:
    hour = 3_600_000
    first = histories.commits(3, every_ms=6 * hour, total_files=[4, 8, 12], total_bytes=[1, 2, 3], **FLINK)
    second = histories.commits(1, start_ms=histories.NOON + 24 * hour, total_files=2, removed_files=10, **SPARK)
    past = pa.concat_tables([first, second])
    days = growth.growth(writers.group(past), past)
    assert [(day.day, day.commits, day.added_files, day.removed_files, day.total_files) for day in days] == [
        ("2026-01-01", 2, 8, 0, 8),
        ("2026-01-02", 2, 5, 10, 2),
    ]
    assert days[1].added_files_by_writer == {"flink job 5f1c (append)": 4, "spark (append)": 1}
    assert (days[0].added_bytes, days[0].added_records, days[0].total_bytes) == (8 * MIB, 80, 2)


def test_only_the_latest_days_are_kept() -> None:
    past = histories.commits(100, every_ms=86_400_000, **SPARK)
    days = growth.growth(writers.group(past), past)
    assert (len(days), days[-1].day) == (90, "2026-04-10")


def test_a_clock_far_off_is_told_as_it_is() -> None:
    past = histories.commits(1, start_ms=histories.NOON * 1000, **SPARK)  # microseconds, taken for milliseconds
    assert [day.day for day in growth.growth(writers.group(past), past)] == ["57972-07-09"]


@pytest.mark.parametrize(
    ("properties", "metadata_files", "fixed"),
    [
        ({}, 10, {}),
        ({"write.distribution-mode": "hash"}, 10, {}),
        ({"write.parquet.compression-codec": "gzip"}, 10, {"write.parquet.compression-codec": ("gzip", "zstd")}),
        ({"write.parquet.compression-codec": "snappy"}, 10, {}),
        ({}, 60, {"write.metadata.delete-after-commit.enabled": (None, "true")}),
        ({"write.metadata.delete-after-commit.enabled": "true"}, 60, {}),
        (
            {"write.metadata.previous-versions-max": "500", "write.metadata.delete-after-commit.enabled": "true"},
            400,
            {"write.metadata.previous-versions-max": ("500", "100")},
        ),
        ({"commit.manifest-merge.enabled": "false"}, 1, {"commit.manifest-merge.enabled": ("false", "true")}),
        (
            {"write.parquet.row-group-size-bytes": "1048576"},
            1,
            {"write.parquet.row-group-size-bytes": ("1048576", "134217728")},
        ),
        ({"write.parquet.row-group-size-bytes": "many"}, 1, {}),
        (
            {"write.target-file-size-bytes": "1048576"},
            1,
            {"write.target-file-size-bytes": ("1048576", "536870912")},
        ),
    ],
)
def test_properties_are_proposed_only_where_they_are_part_of_the_trouble(
    properties: dict[str, str], metadata_files: int, fixed: dict[str, tuple[str | None, str]]
) -> None:
    past = histories.history(metadata_files=metadata_files, partitioned=True)
    health = assessed([MIB] * 40, past, properties=properties, manifests=40)
    assert {fix.name: (fix.old, fix.new) for fix in health.fixes} == fixed
    assert all(fix.why and fix.name in prevention.SAFE for fix in health.fixes)


@pytest.mark.parametrize(
    ("engine", "mode", "partitioned", "proposed"),
    [
        ("flink", None, True, True),
        ("flink", None, False, False),  # there is nothing to shuffle by
        ("flink", "hash", True, False),
        ("flink", "range", True, False),
        ("spark", None, True, False),  # Spark shuffles unless told otherwise
        ("spark", "none", True, True),
    ],
)
def test_rows_are_distributed_by_partition(engine: str, mode: str | None, partitioned: bool, proposed: bool) -> None:
    past = histories.history(
        histories.commits(10, changed_partitions=1, **{**FLINK, "engine": engine}), partitioned=partitioned
    )
    properties = {} if mode is None else {"write.distribution-mode": mode}
    health = assessed([MIB] * 40, past, properties=properties)
    assert [(fix.name, fix.old, fix.new) for fix in health.fixes] == (
        [("write.distribution-mode", mode, "hash")] if proposed else []
    )


def test_nothing_that_shortens_history_or_deletes_data_is_ever_set() -> None:
    assert not [name for name in prevention.SAFE if name.startswith(("history.", "gc.", "format-version"))]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.25, "250 ms"), (12, "12 s"), (90, "90 s"), (120, "2 min"), (7200, "2 h"), (200_000, "2 days")],
)
def test_spans(seconds: float, said: str) -> None:
    assert causes.span(seconds) == said


def test_history_schema_is_what_the_factory_makes() -> None:
    assert histories.commits(1).schema == SNAPSHOTS
