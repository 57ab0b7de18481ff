"""The small parts of a commit: totals, waits and the economy of manifests that need not be opened."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import ManifestFile, PartitionFieldSummary, construct_partition_summaries
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.commit import commit_retry, merge_manifests, snapshot_summary
from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.metadata.manifest import prune_manifests
from iceberg_compaction.metadata.manifest.written_manifests import Counts

FIGURES = snapshot_summary.SummaryFigures(
    added=Counts(files=1, records=5, bytes=9),
    removed=Counts(files=3, records=5, bytes=30),
    changed_partitions=1,
    manifests_created=1,
    manifests_kept=0,
    manifests_replaced=1,
)


def test_totals_that_are_missing_or_senseless_are_left_out() -> None:
    told = snapshot_summary.summarize(
        FIGURES, {"total-data-files": "7", "total-records": "x", "total-files-size": "5"}, {}
    )
    totals = {key: value for key, value in told.additional_properties.items() if key.startswith("total")}
    assert totals == {"total-data-files": "5"}
    assert snapshot_summary.summarize(FIGURES, None, {})["total-data-files"] is None


def test_properties_cannot_overwrite_figures() -> None:
    told = snapshot_summary.summarize(FIGURES, None, {"added-records": "99", "mine": "x"})
    assert (told["added-records"], told["mine"]) == ("5", "x")


def test_waits_double_between_the_tables_limits() -> None:
    properties = {
        "commit.retry.num-retries": "5",
        "commit.retry.min-wait-ms": "1000",
        "commit.retry.max-wait-ms": "4000",
    }
    still = lambda: 7  # noqa: E731 a clock on which no time goes by
    assert list(commit_retry.commit_retry(properties).waits(lambda: 0.0, still)) == [1, 2, 4, 4, 4]
    assert list(commit_retry.commit_retry(properties).waits(lambda: 1.0, still)) == pytest.approx(
        [1.1, 2.2, 4.4, 4.4, 4.4]
    )
    limited = properties | {"commit.retry.total-timeout-ms": "3500"}
    assert list(commit_retry.commit_retry(limited).waits(lambda: 0.0, still)) == [1, 2]


def test_the_time_that_attempts_take_counts() -> None:
    now = [0]
    waits = commit_retry.commit_retry({"commit.retry.total-timeout-ms": "10000"}).waits(lambda: 0.0, lambda: now[0])
    now[0] = 9_000  # the first attempt took so long
    assert next(waits) == 0.1
    now[0] = 9_900
    assert next(waits, None) is None


def test_defaults_are_icebergs_and_wrong_properties_do_not_stop_a_commit() -> None:
    assert commit_retry.commit_retry({}) == commit_retry.Backoff(
        retries=4, min_ms=100, max_ms=60_000, total_ms=1_800_000
    )
    assert commit_retry.status_check({}) == commit_retry.Backoff(
        retries=3, min_ms=1000, max_ms=60_000, total_ms=1_800_000
    )
    assert commit_retry.commit_retry({"commit.retry.num-retries": "many"}).retries == 4


SCHEMA = Schema(NestedField(1, "n", LongType()), NestedField(2, "s", StringType()))
SPEC = PartitionSpec(
    PartitionField(1, 1000, IdentityTransform(), "n"), PartitionField(2, 1001, IdentityTransform(), "s"), spec_id=0
)


def _metadata() -> TableMetadata:
    return new_table_metadata(SCHEMA, SPEC, UNSORTED_SORT_ORDER, "file:///t")


def _row(summaries: list[PartitionFieldSummary] | None, spec_id: int = 0) -> ManifestFile:
    return ManifestFile.from_args(manifest_path="m", partition_spec_id=spec_id, partitions=summaries)


TUPLES = st.tuples(
    st.none() | st.integers(-3, 3), st.none() | st.sampled_from(["", "a", "b", "é", "\U0001f600", "\uffff"])
)


@examples(200)
@given(st.lists(TUPLES, min_size=1, max_size=4), st.lists(TUPLES, min_size=1, max_size=4))
def test_a_manifest_that_holds_a_wanted_partition_is_opened(held: list[Any], wanted: list[Any]) -> None:
    spec = _metadata().spec()
    schema = _metadata().schema()
    summaries = construct_partition_summaries(spec, schema, [Record(*values) for values in held])
    texts = [partition_tuples.encode_one(Record(*values), spec, schema) for values in wanted]
    may = prune_manifests.PartitionScope(_metadata(), [(0, text) for text in texts]).may_be_in(_row(summaries))
    assert may or not set(held) & set(wanted)


def test_manifests_are_ruled_out_by_spec_and_by_bounds_and_opened_in_doubt() -> None:
    spec, schema = _metadata().spec(), _metadata().schema()
    partition = partition_tuples.encode_one(Record(5, "m"), spec, schema)
    scope = prune_manifests.PartitionScope(_metadata(), [(0, partition)])
    inside = construct_partition_summaries(spec, schema, [Record(1, "a"), Record(9, "z")])
    outside = construct_partition_summaries(spec, schema, [Record(6, "a"), Record(9, "z")])
    nulls = construct_partition_summaries(spec, schema, [Record(None, "m")])
    assert scope.may_be_in(_row(inside))
    assert not scope.may_be_in(_row(outside))
    assert not scope.may_be_in(_row(nulls))
    assert not scope.may_be_in(_row(inside, spec_id=1))
    assert scope.may_be_in(_row(None))
    exotic = construct_partition_summaries(spec, schema, [Record(5, "\uffff")])
    assert scope.may_be_in(_row(exotic))
    int_bounds = PartitionFieldSummary(False, False, to_bytes(LongType(), 5)[:4], to_bytes(LongType(), 5)[:4])
    assert scope.may_be_in(_row([int_bounds, inside[1]]))  # written before the column became a long


def test_a_spec_that_is_gone_is_a_conflict() -> None:
    with pytest.raises(errors.ConflictError, match="spec 7"):
        prune_manifests.PartitionScope(_metadata(), [(7, "{}")])


# ---- which manifests become one (R12)


@dataclass(frozen=True, eq=False)
class Item:
    spec_id: int
    length: int
    is_new: bool = False


@examples()
@given(st.lists(st.builds(Item, st.integers(0, 1), st.integers(1, 120)), min_size=1, max_size=30))
def test_bins_keep_the_order_and_are_filled_from_the_end(items: list[Item]) -> None:
    bins = merge_manifests.Merging(target=100).bins(items)
    assert all(len({item.spec_id for item in members}) == 1 for members in bins)
    for spec_id in (0, 1):
        mine = [members for members in bins if members[0].spec_id == spec_id]
        assert [id(item) for members in mine for item in members] == [id(i) for i in items if i.spec_id == spec_id]
        assert all(len(members) == 1 or sum(item.length for item in members) <= 100 for members in mine)
        for before, after in itertools.pairwise(mine):
            assert before[-1].length + sum(item.length for item in after) > 100


def test_the_bin_that_grows_is_merged_once_it_has_many() -> None:
    merging = merge_manifests.Merging(min_count=3)
    new, old = Item(0, 1, is_new=True), [Item(0, 1) for _ in range(3)]
    assert [merging.joins([new, *old[:count]], new) for count in range(4)] == [False, False, True, True]
    assert [merging.joins(old[:count], new) for count in range(1, 4)] == [False, True, True]
    assert [merging.joins(old[:count], old[0]) for count in range(1, 4)] == [False, False, True]
    assert not merge_manifests.Merging(enabled=False).joins(old, new)


def test_merging_is_set_by_the_table() -> None:
    names = (merge_manifests.ENABLED, merge_manifests.TARGET, merge_manifests.MIN_COUNT)
    assert merge_manifests.merging({}) == merge_manifests.Merging(enabled=True, target=8 << 20, min_count=100)
    assert merge_manifests.merging(dict(zip(names, ("False", "5", "7"), strict=True))) == merge_manifests.Merging(
        enabled=False, target=5, min_count=7
    )
    assert merge_manifests.merging({merge_manifests.TARGET: "8 MB"}) == merge_manifests.Merging()
