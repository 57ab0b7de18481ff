"""Health of tables in a known state, and figures that add up for any table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import inventories
from tests.factories.examples import examples

from iceberg_compaction.inspect import assess, delete_cost, health_request, partition_figures
from iceberg_compaction.model import table_view
from iceberg_compaction.model.policies import Policy, resolve_sizes
from iceberg_compaction.plan import quick_look

if TYPE_CHECKING:
    from iceberg_compaction.model.table_health import TableHealth

MIB = 2**20
DAY_1, DAY_2 = '{"day": "2026-01-01"}', '{"day": "2026-01-02"}'


def assessed(
    rows: pa.Table, policy: Policy | None = None, *, facts: dict[str, Any] | None = None, **changes: Any
) -> TableHealth:
    view, policy_in_force = inventories.view(rows, **changes), policy or Policy()
    sizes = resolve_sizes(policy_in_force, view.properties)
    expected = quick_look.expect(view, policy_in_force)
    work = health_request.RunWork(files=expected.files, bytes=expected.bytes, useless_deletes=expected.useless_deletes)
    given = {"work": work, **(facts or {})}
    return assess.assess(
        view, health_request.Checkup(policy=policy_in_force, sizes=sizes, sick=not expected.empty, **given)
    )


def test_a_sick_table() -> None:
    health = assessed(inventories.files([MIB] * 9 + [512 * MIB], partitions=[DAY_1] * 7 + [DAY_2] * 3))
    assert health.sick
    assert (health.data_files, health.small_files, health.small_ratio, health.large_files) == (10, 9, 0.9, 0)
    assert (health.partitions, health.bytes, health.mean_file_bytes) == (2, 521 * MIB, 521 * MIB // 10)
    assert [(part.partition, part.small_files) for part in health.worst_partitions] == [(DAY_1, 7), (DAY_2, 2)]
    assert health.advice[0] == "Run: iceberg-compact run --table shop.events --strategy small-files"
    assert health.advice[1] == "This rewrites 7 of 10 data files (7.0 MiB)."
    assert "write.target-file-size-bytes is not set, so the target is 512.0 MiB" in health.advice[2]
    # as docs/reference/health.md does it: (9 small - 2 partitions) of 10 files are of a wrong size
    assert [part.points for part in health.score_parts] == [15, 25, 10, 5, 10]
    assert health.score_parts[0].why == "50 x (1 - 7 / 10), files of a wrong size / data files"
    assert (health.score, health.score_note) == (65, None)


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
    health = assessed(inventories.files([10]))
    assert (health.sick, health.score, health.worst_partitions) == (False, 100, ())


def test_a_table_without_files() -> None:
    health = assessed(table_view.FILES.empty_table(), pin=None, manifests=0, snapshots=0)
    assert (health.snapshot_id, health.data_files, health.mean_file_bytes, health.small_ratio) == (None, 0, 0, 0.0)
    assert (health.sick, health.score) == (False, 100)
    assert {part.why for part in health.score_parts} == {"no data files", "no manifests", "no snapshots"}


def test_an_unsupported_table_is_still_seen() -> None:
    rows = inventories.files([MIB] * 10, content=[0] * 8 + [1, 2])
    health = assessed(rows, unsupported=("it has delete files",))
    assert not health.sick
    assert (health.data_files, health.delete_files, health.small_files) == (8, 2, 8)
    assert health.score < 80
    assert health.advice[0] == "Not supported yet: it has delete files."
    assert "2 delete files (1 position, 1 equality) are applied whenever the table is read." in health.advice


def test_many_snapshots_are_in_the_advice() -> None:
    health = assessed(inventories.files([512 * MIB] * 10), manifests=40, snapshots=500)
    assert not health.sick
    assert health.score == 88  # 10 x 10 / 40 for the manifests, 5 x 100 / 500 for the snapshots
    assert "500 snapshots" in health.advice[0]


def test_the_property_that_sets_the_target_is_named() -> None:
    rows = inventories.files([MIB] * 10)
    health = assessed(rows, properties={"write.target-file-size-bytes": str(64 * MIB)})
    assert health.target_file_bytes == 64 * MIB
    assert "write.target-file-size-bytes is 64.0 MiB" in health.advice[2]
    assert "requested target is 32.0 MiB" in assessed(rows, Policy(target_file_size_bytes=32 * MIB)).advice[2]


def test_the_histogram_has_a_bar_for_every_size() -> None:
    target = 512 * MIB
    sizes = [0, target // 50, target // 5, target // 2, target, int(target * 1.8), int(target * 1.8) + 1]
    health = assessed(inventories.files(sizes))
    assert [(bar.label, bar.files) for bar in health.histogram] == [
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
    health = assessed(
        rows, facts={"applied": delete_cost.AppliedCounts(per_data_file=np.array([0] * 6 + [3, 4]), dangling=1)}
    )
    assert (health.deletes.position_files, health.deletes.equality_files, health.deletes.vectors) == (2, 1, 1)
    assert (health.deletes.position_rows, health.deletes.equality_rows, health.deletes.vector_rows) == (200, 100, 100)
    assert (health.deletes.files, health.delete_files, health.deletes.bytes) == (4, 4, 40_000)
    assert (health.deletes.file_ratio, health.deletes.fragment_ratio) == (4 / 8, 3 / 8)
    assert health.deletes.deleted_row_ratio == 0.375  # (200 + 100) / 800 rows
    assert health.deletes.equality_row_ratio == 0.125
    assert (health.deletes.per_data_file_mean, health.deletes.per_data_file_max) == (0.875, 4)
    assert health.deletes.dangling_files == 1
    assert health.score_parts[1].points == 12.5  # 4 delete files for 8 data files weigh more than 300 of 800 rows
    assert health.worst_partitions[0].delete_files == 4
    assert health.worst_partitions[0].deleted_row_ratio == 0.375


def test_without_the_delete_index_its_figures_are_unknown() -> None:
    health = assessed(inventories.files([MIB] * 3, content=[0, 0, 1]))
    assert (health.deletes.per_data_file_mean, health.deletes.dangling_files) == (None, None)
    assert assessed(inventories.files([MIB] * 3)).deletes.per_data_file_max == 0


def test_rows_weigh_more_than_files_where_they_are_worse() -> None:
    rows = inventories.files([1000] * 9 + [8000], content=[0] * 9 + [1])
    part = assessed(rows).score_parts[1]
    assert part.points == 2.78  # 25 x (1 - 80 deleted rows / 90 rows)
    assert part.why == "25 x (1 - 80 / 90), deleted rows / rows"


def test_files_of_older_specs_are_in_the_advice() -> None:
    health = assessed(inventories.files([512 * MIB] * 10, specs=[0] * 4 + [1] * 6))
    assert [(spec.spec_id, spec.files, spec.current) for spec in health.specs] == [(0, 4, True), (1, 6, False)]
    assert (health.stale_spec_ratio, health.score_parts[4].points, health.partitions) == (0.6, 4.0, 2)
    assert "6 of 10 data files are of an older partition spec" in health.advice[0]


def test_small_manifests_are_those_below_half_of_the_target() -> None:
    rows = inventories.files([512 * MIB])
    sizes = (1 * MIB, 4 * MIB - 1, 4 * MIB, 9 * MIB)
    health = assessed(rows, manifests=4, manifest_sizes=sizes)
    assert (health.small_manifests, health.manifest_bytes) == (2, 18 * MIB - 1)
    fewer = assessed(rows, manifest_sizes=sizes, properties={"commit.manifest.target-size-bytes": str(2 * MIB)})
    assert fewer.small_manifests == 0


@pytest.mark.parametrize("most", [0, 1, 3, 10])
def test_as_many_partitions_are_listed_as_requested(most: int) -> None:
    parts = [f'{{"p": {n % 5}}}' for n in range(20)]
    health = assessed(inventories.files([MIB] * 20, partitions=parts), facts={"worst": most})
    assert [part.partition for part in health.worst_partitions] == [f'{{"p": {n}}}' for n in range(min(most, 5))]
    assert all(part.records == 4 * (MIB // 100) for part in health.worst_partitions)


ROW = st.tuples(st.integers(0, 3000), st.sampled_from([DAY_1, DAY_2]), st.integers(0, 1))


@examples(100)
@given(st.lists(ROW, max_size=40), st.integers(0, 50))
def test_figures_add_up(rows: list[tuple[int, str, int]], manifests: int) -> None:
    sizes, parts, specs = ([row[i] for row in rows] for i in range(3))
    files = inventories.files(sizes, partitions=parts, specs=specs)  # type: ignore[arg-type]
    health = assessed(files, Policy(target_file_size_bytes=1000), manifests=manifests)
    assert sum(bar.files for bar in health.histogram) == health.data_files == len(rows)
    assert sum(bar.bytes for bar in health.histogram) == health.bytes == sum(sizes)
    assert health.partitions == len({(part, spec) for _, part, spec in rows})
    assert 0 <= health.score <= 100
    assert (health.score < 80) == health.sick
    assert sum(spec.files for spec in health.specs) == len(rows)
    small = [part.small_files for part in health.worst_partitions]
    assert small == sorted(small, reverse=True)


def test_blocks_of_files_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = inventories.files(
        [(n * 37 % 11) * 100 * MIB for n in range(50)], partitions=[f'{{"p": {n % 2}}}' for n in range(50)]
    )
    whole = assessed(rows)
    monkeypatch.setattr(partition_figures, "_BLOCK", 1)
    assert assessed(rows) == whole
