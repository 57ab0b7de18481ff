"""The clustering depth, against counting by hand and a plain reference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import inventories
from tests.factories.examples import examples

from iceberg_compaction.inspect import assess, file_census, health_request, overlap
from iceberg_compaction.interfaces import words
from iceberg_compaction.model import table_view
from iceberg_compaction.model.policies import Policy, resolve_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.table_health import ClusteringHealth

Interval = tuple[int | None, int | None]


def rows_of(
    bounds: Sequence[Interval], partitions: Sequence[str] | str = "{}", content: int | list[int] = 0
) -> pa.Table:
    rows = inventories.files([100] * len(bounds), partitions=partitions, content=content)
    for bound, name in enumerate(("cluster_lower", "cluster_upper")):
        values = pa.array([pair[bound] for pair in bounds], pa.int64())
        rows = rows.set_column(rows.schema.get_field_index(name), table_view.FILES.field(name), values)
    return rows


def depth(rows: pa.Table, **more: int) -> tuple[ClusteringHealth | None, list[float]]:
    view = inventories.view(rows, clustering_column="at")
    clustering, depths = overlap.clustering(view, file_census.take(view), **more)
    return clustering, depths.tolist()


def test_side_by_side_is_one() -> None:
    clustering, _ = depth(rows_of([(0, 9), (10, 19), (20, 29)]))
    assert clustering is not None
    assert (clustering.column, clustering.depth, clustering.files, clustering.sampled_files) == ("at", 1.0, 3, 3)


@pytest.mark.parametrize(("bound", "told"), [(11, "1 file holds a value of at"), (10, "1.5 files hold a value of at")])
def test_the_depth_in_words(bound: int, told: str) -> None:
    view = inventories.view(rows_of([(0, 10), (bound, 20)]), clustering_column="at")
    checkup = health_request.Checkup(policy=Policy(), sizes=resolve_sizes(Policy(), {}), sick=False)
    assert dict(words.facts(assess.assess(view, checkup)))["clustering"] == told


def test_files_that_touch_both_hold_the_value() -> None:
    clustering, _ = depth(rows_of([(0, 10), (10, 20)]))  # 1 file holds 0, both hold 10
    assert clustering is not None
    assert clustering.depth == 1.5


def test_partitions_do_not_overlap_one_another() -> None:
    a, b = '{"p": 1}', '{"p": 2}'
    clustering, depths = depth(rows_of([(0, 9), (0, 9), (0, 9), (0, 9)], [a, a, a, b]))
    assert clustering is not None
    assert clustering.depth == 2.5  # three files with 3, one with 1
    assert sorted(depths) == [1.0, 3.0]


def test_files_without_bounds_and_deletes_do_not_count() -> None:
    clustering, _ = depth(rows_of([(0, 9), (None, None), (0, None), (0, 9), (0, 9)], content=[0, 0, 0, 0, 1]))
    assert clustering is not None
    assert (clustering.depth, clustering.files) == (2.0, 2)
    unknown, depths = depth(rows_of([(None, None)]))
    assert unknown is None
    assert depths == [pytest.approx(math.nan, nan_ok=True)]
    assert depth(table_view.FILES.empty_table()) == (None, [])


def test_extreme_bounds_fit() -> None:
    low, high = -(2**63), 2**63 - 1
    clustering, _ = depth(rows_of([(low, low), (high, high), (0, 0), (5, 1)]))  # the last one ends before it begins
    assert clustering is not None
    assert clustering.depth == 1.0


def test_a_sample_estimates_the_whole() -> None:
    bounds: list[Interval] = [(n // 10 * 100, n // 10 * 100 + 50) for n in range(20_000)]  # always ten alike
    exact, _ = depth(rows_of(bounds))
    sampled, _ = depth(rows_of(bounds), most_files=5_000)
    assert exact is not None
    assert sampled is not None
    assert exact.depth == 10.0
    assert sampled.files == 20_000
    assert 4_500 < sampled.sampled_files < 5_500
    assert sampled.depth == pytest.approx(10.0, rel=0.1)


BOUND = st.one_of(st.integers(-20, 20), st.integers(-(2**63), 2**63 - 1))
FILE = st.tuples(st.tuples(BOUND, BOUND).map(sorted).map(tuple), st.sampled_from(["{}", '{"p": 1}', '{"p": 2}']))


@examples(200)
@given(st.lists(FILE, min_size=1, max_size=20))
def test_the_depth_is_the_mean_count_of_files_at_a_lower_bound(files: list[tuple[tuple[int, int], str]]) -> None:
    bounds, parts = [file[0] for file in files], [file[1] for file in files]
    spread = max(high for _, high in bounds) - min(low for low, _ in bounds)
    if spread >= 2**60:  # then bounds lose their lowest bits, and only an upper bound is promised
        return
    counts = [sum(low <= mine <= high for (low, high), other in files if other == part) for (mine, _), part in files]
    clustering, _ = depth(rows_of(bounds, parts))
    assert clustering is not None
    assert clustering.depth == round(sum(counts) / len(counts), 2)
