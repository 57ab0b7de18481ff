"""What health says about tables whose state is known, and that its figures add up for any table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.factories import inventories

from iceberg_compaction.inspect import health
from iceberg_compaction.model import table
from iceberg_compaction.model.policy import Policy
from iceberg_compaction.plan import build

if TYPE_CHECKING:
    import pyarrow as pa

MIB = 2**20
DAY_1, DAY_2 = '{"day": "2026-01-01"}', '{"day": "2026-01-02"}'


def assessed(rows: pa.Table, policy: Policy | None = None, **changes: Any) -> table.TableHealth:
    stock = inventories.inventory(rows, **changes)
    make = build.empty_plan if stock.unsupported else build.build
    return health.assess(stock, make(stock, policy or Policy(), plan_id="", now_ms=0))


def test_a_sick_table() -> None:
    found = assessed(inventories.files([MIB] * 9 + [512 * MIB], partitions=[DAY_1] * 7 + [DAY_2] * 3))
    assert found.sick
    assert (found.data_files, found.small_files, found.small_ratio, found.large_files) == (10, 9, 0.9, 0)
    assert (found.partitions, found.bytes, found.mean_file_bytes) == (2, 521 * MIB, 521 * MIB // 10)
    assert [(part.partition, part.small_files) for part in found.worst_partitions] == [(DAY_1, 7), (DAY_2, 2)]
    assert found.advice[0] == "Run: iceberg-compact run --table shop.events --strategy small-files"
    assert "write.target-file-size-bytes is not set, so the target is 512.0 MiB" in found.advice[1]
    # 60 x (1 - (9 small - 2 partitions) / 10 files) + 25 + 15, as docs/health.md does it
    assert found.score == 58


def test_a_healthy_table_scores_higher_than_any_sick_one() -> None:
    good = assessed(inventories.files([512 * MIB] * 10))
    assert (good.score, good.sick, good.advice) == (100, False, ())
    # Hardly sick at all, against healthy but with many files that no run would merge.
    hardly = assessed(inventories.files([512 * MIB] * 1000 + [MIB] * 5))
    scattered = assessed(inventories.files([MIB] * 40, partitions=[f'{{"p": {n // 4}}}' for n in range(40)]))
    assert hardly.sick
    assert not scattered.sick
    assert hardly.score == 79
    assert scattered.score == 80


def test_one_tiny_file_is_not_sick() -> None:
    found = assessed(inventories.files([10]))
    assert (found.sick, found.score, found.worst_partitions) == (False, 100, ())


def test_a_table_without_files() -> None:
    found = assessed(table.FILES.empty_table(), pin=None, manifests=0, snapshots=0)
    assert (found.snapshot_id, found.data_files, found.mean_file_bytes, found.small_ratio) == (None, 0, 0, 0.0)
    assert (found.sick, found.score) == (False, 100)


def test_an_unsupported_table_is_still_seen() -> None:
    rows = inventories.files([MIB] * 10, content=[0] * 8 + [1, 2])
    found = assessed(rows, unsupported=("it has delete files",))
    assert not found.sick
    assert (found.data_files, found.delete_files, found.small_files) == (8, 2, 8)
    assert found.score < 80
    assert found.advice[0] == "Not supported yet: it has delete files."
    assert any("2 delete files" in sentence for sentence in found.advice)


def test_many_manifests_and_snapshots_are_told() -> None:
    found = assessed(inventories.files([512 * MIB] * 10), manifests=40, snapshots=500)
    assert not found.sick
    assert found.score == 88  # 15 x 10 / 40 for the manifests
    assert "40 manifests for 10 files" in found.advice[0]
    assert "500 snapshots" in found.advice[1]


def test_the_property_that_sets_the_target_is_named() -> None:
    rows = inventories.files([MIB] * 10)
    found = assessed(rows, properties={"write.target-file-size-bytes": str(64 * MIB)})
    assert found.target_file_bytes == 64 * MIB
    assert "write.target-file-size-bytes is 64.0 MiB" in found.advice[1]
    assert "asked for is 32.0 MiB" in assessed(rows, Policy(target_file_size_bytes=32 * MIB)).advice[1]


def test_the_histogram_has_a_bar_for_every_size() -> None:
    target = 512 * MIB
    sizes = [0, target // 50, target // 5, target // 2, target, int(target * 1.8), int(target * 1.8) + 1]
    found = assessed(inventories.files(sizes))
    assert [(bar.label, bar.files) for bar in found.histogram] == [
        ("< 1%", 1),
        ("1%-10%", 1),
        ("10%-25%", 1),
        ("25%-75%", 1),
        ("near target (75%-180%)", 2),
        ("> 180%", 1),
    ]
    assert [bar.label for bar in assessed(inventories.files(sizes), Policy(min_file_size_bytes=0)).histogram] == [
        "near target (0%-180%)",
        "> 180%",
    ]


ROW = st.tuples(st.integers(0, 3000), st.sampled_from([DAY_1, DAY_2]), st.integers(0, 1))


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.lists(ROW, max_size=40), st.integers(0, 50))
def test_figures_add_up(rows: list[tuple[int, str, int]], manifests: int) -> None:
    sizes, parts, specs = ([row[i] for row in rows] for i in range(3))
    stock = inventories.files(sizes, partitions=parts, specs=specs)  # type: ignore[arg-type]
    found = assessed(stock, Policy(target_file_size_bytes=1000), manifests=manifests)
    assert sum(bar.files for bar in found.histogram) == found.data_files == len(rows)
    assert sum(bar.bytes for bar in found.histogram) == found.bytes == sum(sizes)
    assert found.partitions == len({(part, spec) for _, part, spec in rows})
    assert 0 <= found.score <= 100
    assert (found.score < 80) == found.sick
    small = [part.small_files for part in found.worst_partitions]
    assert small == sorted(small, reverse=True)
