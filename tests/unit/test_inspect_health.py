"""What health says about tables whose state is known, and that its figures add up for any table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.factories import inventories

from iceberg_compaction.inspect import assess, delete_cost, health_request, partition_figures
from iceberg_compaction.model import table_view
from iceberg_compaction.model.policies import Policy, resolve_sizes
from iceberg_compaction.plan import quick_look

if TYPE_CHECKING:
    from iceberg_compaction.model.table_health import TableHealth

MIB = 2**20
DAY_1, DAY_2 = '{"day": "2026-01-01"}', '{"day": "2026-01-02"}'


def assessed(
    rows: pa.Table, policy: Policy | None = None, *, asked: dict[str, Any] | None = None, **changes: Any
) -> TableHealth:
    stock, wanted = inventories.view(rows, **changes), policy or Policy()
    sizes = resolve_sizes(wanted, stock.properties)
    sick = quick_look.needs_work(stock, wanted)
    return assess.assess(stock, health_request.Checkup(policy=wanted, sizes=sizes, sick=sick, **(asked or {})))


def test_a_sick_table() -> None:
    found = assessed(inventories.files([MIB] * 9 + [512 * MIB], partitions=[DAY_1] * 7 + [DAY_2] * 3))
    assert found.sick
    assert (found.data_files, found.small_files, found.small_ratio, found.large_files) == (10, 9, 0.9, 0)
    assert (found.partitions, found.bytes, found.mean_file_bytes) == (2, 521 * MIB, 521 * MIB // 10)
    assert [(part.partition, part.small_files) for part in found.worst_partitions] == [(DAY_1, 7), (DAY_2, 2)]
    assert found.advice[0] == "Run: iceberg-compact run --table shop.events --strategy small-files"
    assert "write.target-file-size-bytes is not set, so the target is 512.0 MiB" in found.advice[1]
    # as docs/health.md does it: (9 small - 2 partitions) of 10 files are of a wrong size
    assert [part.points for part in found.score_parts] == [15, 25, 10, 5, 10]
    assert found.score_parts[0].why == "50 x (1 - 7 / 10), files of a wrong size / data files"
    assert (found.score, found.score_note) == (65, None)


def test_a_healthy_table_scores_higher_than_any_sick_one() -> None:
    good = assessed(inventories.files([512 * MIB] * 10))
    assert (good.score, good.sick, good.advice) == (100, False, ())
    # Hardly sick at all, against healthy but with many files that no run would merge.
    hardly = assessed(inventories.files([512 * MIB] * 1000 + [MIB] * 5))
    scattered = assessed(inventories.files([MIB] * 40, partitions=[f'{{"p": {n // 4}}}' for n in range(40)]))
    assert hardly.sick
    assert not scattered.sick
    assert (hardly.score, scattered.score) == (79, 80)
    assert hardly.score_note is not None
    assert "the parts make 99" in hardly.score_note
    assert scattered.score_note is not None
    assert "the parts make 62" in scattered.score_note


def test_one_tiny_file_is_not_sick() -> None:
    found = assessed(inventories.files([10]))
    assert (found.sick, found.score, found.worst_partitions) == (False, 100, ())


def test_a_table_without_files() -> None:
    found = assessed(table_view.FILES.empty_table(), pin=None, manifests=0, snapshots=0)
    assert (found.snapshot_id, found.data_files, found.mean_file_bytes, found.small_ratio) == (None, 0, 0, 0.0)
    assert (found.sick, found.score) == (False, 100)


def test_an_unsupported_table_is_still_seen() -> None:
    rows = inventories.files([MIB] * 10, content=[0] * 8 + [1, 2])
    found = assessed(rows, unsupported=("it has delete files",))
    assert not found.sick
    assert (found.data_files, found.delete_files, found.small_files) == (8, 2, 8)
    assert found.score < 80
    assert found.advice[0] == "Not supported yet: it has delete files."
    assert "2 delete files (1 position, 1 equality) are applied whenever the table is read." in found.advice


def test_many_manifests_and_snapshots_are_told() -> None:
    found = assessed(inventories.files([512 * MIB] * 10), manifests=40, snapshots=500)
    assert not found.sick
    assert found.score == 88  # 10 x 10 / 40 for the manifests, 5 x 100 / 500 for the snapshots
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


def test_deletes_are_counted_by_kind() -> None:
    content = [0] * 8 + [1, 1, 2, 1]
    rows = inventories.files([10_000] * 12, content=content)
    formats = pa.array(["PARQUET"] * 11 + ["PUFFIN"]).dictionary_encode()
    rows = rows.set_column(rows.schema.get_field_index("file_format"), table_view.FILES.field("file_format"), formats)
    found = assessed(rows, asked={"applied": delete_cost.Applied(per_data_file=np.array([0] * 6 + [3, 4]), dangling=1)})
    assert (found.deletes.position_files, found.deletes.equality_files, found.deletes.vectors) == (2, 1, 1)
    assert (found.deletes.position_rows, found.deletes.equality_rows, found.deletes.vector_rows) == (200, 100, 100)
    assert (found.deletes.files, found.delete_files, found.deletes.bytes) == (4, 4, 40_000)
    assert (found.deletes.file_ratio, found.deletes.fragment_ratio) == (4 / 8, 3 / 8)
    assert found.deletes.deleted_row_ratio == 0.375  # (200 + 100) / 800 rows
    assert found.deletes.equality_row_ratio == 0.125
    assert (found.deletes.per_data_file_mean, found.deletes.per_data_file_max) == (0.875, 4)
    assert found.deletes.dangling_files == 1
    assert found.score_parts[1].points == 12.5  # 4 delete files for 8 data files weigh more than 300 of 800 rows
    assert found.worst_partitions[0].delete_files == 4
    assert found.worst_partitions[0].deleted_row_ratio == 0.375


def test_without_the_delete_index_its_figures_are_unknown() -> None:
    found = assessed(inventories.files([MIB] * 3, content=[0, 0, 1]))
    assert (found.deletes.per_data_file_mean, found.deletes.dangling_files) == (None, None)
    assert assessed(inventories.files([MIB] * 3)).deletes.per_data_file_max == 0


def test_rows_weigh_more_than_files_where_they_are_worse() -> None:
    rows = inventories.files([1000] * 9 + [8000], content=[0] * 9 + [1])
    part = assessed(rows).score_parts[1]
    assert part.points == 2.78  # 25 x (1 - 80 deleted rows / 90 rows)
    assert part.why == "25 x (1 - 80 / 90), deleted rows / rows"


def test_files_of_older_specs_are_told() -> None:
    found = assessed(inventories.files([512 * MIB] * 10, specs=[0] * 4 + [1] * 6))
    assert [(spec.spec_id, spec.files, spec.current) for spec in found.specs] == [(0, 4, True), (1, 6, False)]
    assert (found.stale_spec_ratio, found.score_parts[4].points, found.partitions) == (0.6, 4.0, 2)
    assert "6 of 10 data files are of an older partition spec" in found.advice[0]


def test_small_manifests_are_those_below_half_of_the_target() -> None:
    rows = inventories.files([512 * MIB])
    sizes = (1 * MIB, 4 * MIB - 1, 4 * MIB, 9 * MIB)
    found = assessed(rows, manifests=4, manifest_sizes=sizes)
    assert (found.small_manifests, found.manifest_bytes) == (2, 18 * MIB - 1)
    fewer = assessed(rows, manifest_sizes=sizes, properties={"commit.manifest.target-size-bytes": str(2 * MIB)})
    assert fewer.small_manifests == 0


@pytest.mark.parametrize("most", [0, 1, 3, 10])
def test_as_many_partitions_are_named_as_were_asked_for(most: int) -> None:
    parts = [f'{{"p": {n % 5}}}' for n in range(20)]
    found = assessed(inventories.files([MIB] * 20, partitions=parts), asked={"worst": most})
    assert [part.partition for part in found.worst_partitions] == [f'{{"p": {n}}}' for n in range(min(most, 5))]
    assert all(part.records == 4 * (MIB // 100) for part in found.worst_partitions)


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
    assert sum(spec.files for spec in found.specs) == len(rows)
    small = [part.small_files for part in found.worst_partitions]
    assert small == sorted(small, reverse=True)


def test_blocks_of_files_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = inventories.files(
        [(n * 37 % 11) * 100 * MIB for n in range(50)], partitions=[f'{{"p": {n % 2}}}' for n in range(50)]
    )
    whole = assessed(rows)
    monkeypatch.setattr(partition_figures, "_BLOCK", 1)
    assert assessed(rows) == whole
