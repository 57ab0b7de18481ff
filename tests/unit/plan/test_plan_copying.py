"""Copy or encode: the size from which on a row group is copied, the expectation for each group, its words, and the
rates learned from earlier runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.factories import inventories
from tests.factories.examples import examples

from iceberg_compaction.model.copy_plan import Rate, RateOrigin, Rates, Way
from iceberg_compaction.model.policies import DEFAULT_MIN_ROW_GROUP, NO_LIMIT, CopyMode, Policy
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.plan import build, copy_or_encode, rates

if TYPE_CHECKING:
    from iceberg_compaction.model.rewrite_plan import Plan

MIB = 2**20
ROW_GROUP = 128 * MIB
COPIED = (Way.LARGE, Way.ASKED)
fixed = examples(60)
speeds = st.floats(1e6, 1e11)


def make_rates(encoding: float = 40e6, copied: float = 600e6) -> Rates:
    return Rates(encoding=Rate(bytes_per_second=encoding), copying=Rate(bytes_per_second=copied))


def planned(
    sizes: list[int],
    row_groups: list[int | None] | int | None = 1,
    *,
    rates: Rates | None = None,
    specs: list[int] | int = 0,
    deleted: list[int] | None = None,
    properties: dict[str, str] | None = None,
    sorts_rows: bool = False,
    columns: int = 0,
    **policy: Any,
) -> Plan:
    rows = inventories.files(sizes, row_groups=row_groups, specs=specs)
    more: dict[str, Any] = {"properties": properties or {}, "sorts_rows": sorts_rows, "columns": columns}
    if deleted is not None:
        more |= {"deleted_rows": pa.array(deleted), "delete_files": pa.array([int(count > 0) for count in deleted])}
    plan = inventories.view(rows, **more)
    chosen = Policy(rewrite_all=True, **policy)
    return build.build(plan, chosen, plan_id="p", now_ms=1, rates=rates or make_rates())


def test_the_break_even_solves_the_formula() -> None:
    even = copy_or_encode.break_even(make_rates(), ROW_GROUP)
    saved = even * (1 / 40e6 - 1 / 600e6)
    lost = copy_or_encode.SCANS * copy_or_encode.SCAN_SECONDS * (1 - even / ROW_GROUP)
    assert saved == pytest.approx(lost, rel=1e-6)
    assert even == pytest.approx(8.06e6, rel=0.01)


@fixed
@given(st.tuples(speeds, speeds), speeds, st.integers(1, NO_LIMIT))
@example((1e6, 1e6), 1e6, 4081407)  # nothing is saved: the quotient is the row group size and a rounding error
def test_faster_encoding_copies_less_and_faster_copying_more(
    pair: tuple[float, float], other: float, row_group: int
) -> None:
    by_encoding = [
        copy_or_encode.break_even(make_rates(encoding=rate, copied=other), row_group) for rate in sorted(pair)
    ]
    by_copying = [
        copy_or_encode.break_even(make_rates(encoding=other, copied=rate), row_group) for rate in sorted(pair)
    ]
    assert by_encoding == sorted(by_encoding)
    assert by_copying == sorted(by_copying, reverse=True)
    assert all(0 < even <= row_group for even in (*by_encoding, *by_copying))


@fixed
@given(
    st.lists(st.tuples(st.integers(1, 2**31), st.integers(1, 40)), min_size=1, max_size=9),
    st.integers(1, 2**28),
    speeds,
    speeds,
)
def test_nothing_below_the_minimum_is_copied(
    files: list[tuple[int, int]], minimum: int, encoding: float, copied: float
) -> None:
    sizes, groups = [size for size, _ in files], [count for _, count in files]
    plan = planned(sizes, groups, rates=make_rates(encoding, copied), min_row_group_size_bytes=minimum)
    large = [size for size, count in files if size / count >= minimum]
    assert plan.copying.least >= minimum
    assert plan.copying.copied_bytes <= sum(large)
    for group in plan.groups:
        assert group.copying is Way.SMALL or 2 * sum(large) >= group.bytes


@fixed
@given(st.integers(1, 2**31), st.integers(1, 100), speeds)
def test_larger_row_groups_are_never_copied_less(size: int, groups: int, encoding: float) -> None:
    fewer = [planned([size], count, rates=make_rates(encoding)) for count in (groups, max(1, groups // 2))]
    assert fewer[0].groups[0].copied_bytes <= fewer[1].groups[0].copied_bytes
    assert (fewer[0].groups[0].copying in COPIED) <= (fewer[1].groups[0].copying in COPIED)


@fixed
@given(st.lists(st.tuples(st.integers(1, 2**31), st.integers(1, 9)), min_size=1, max_size=5), speeds, speeds)
def test_faster_encoding_never_copies_more(files: list[tuple[int, int]], one: float, two: float) -> None:
    sizes, groups = [size for size, _ in files], [count for _, count in files]
    slow, fast = (planned(sizes, groups, rates=make_rates(rate)) for rate in sorted([one, two]))
    assert fast.copying.copied_bytes <= slow.copying.copied_bytes


@fixed
@given(
    st.lists(
        st.tuples(st.integers(1, 2**31), st.none() | st.integers(1, 9), st.integers(0, 1), st.integers(0, 99)),
        min_size=1,
        max_size=9,
    ),
    st.sampled_from(CopyMode),
    st.booleans(),
    st.booleans(),
)
def test_sentences_always_have_figures(
    files: list[tuple[int, int | None, int, int]], mode: CopyMode, sorts: bool, keep: bool
) -> None:
    sizes, groups, specs, deleted = (list(column) for column in zip(*files, strict=True))
    plan = planned(sizes, groups, specs=specs, deleted=deleted, sorts_rows=sorts, copy_row_groups=mode, keep_spec=keep)
    assert re.search(
        r"(Nothing|About \d+%) of [\d.]+ [KMGT]?i?B is copied as bytes, row groups of ", plan.copying.sentence
    )
    for group in plan.groups:
        assert re.search(r"row groups of [\d.]+ [KMGT]?i?B on average", group.copy_sentence)
        assert ("copied" in group.copy_sentence) or group.copying not in COPIED
        assert 0 <= group.copied_bytes <= group.bytes
        assert not group.copied_bytes or not group.copying.forbids
    assert plan.copying.copied_bytes == plan.groups.total("copied_bytes")


def test_large_row_groups_are_copied() -> None:
    plan = planned([64 * MIB] * 9 + [16 * MIB], [3] * 9 + [16])
    (group,) = plan.groups
    assert (group.copying, group.copied_bytes, group.row_groups) == (Way.LARGE, 9 * 64 * MIB, 43)
    assert group.copy_sentence == (
        "row groups of 13.8 MiB on average are copied where they have at least 8.0 MiB, in 9 of 10 files"
    )
    assert plan.copying.sentence == (
        "About 97% of 592.0 MiB is copied as bytes, row groups of 13.8 MiB on average; break-even 7.7 MiB at 40 MB/s "
        "encoding (assumed) and 600 MB/s copying (assumed), but nothing below 8.0 MiB. Row groups that are not "
        "compressed with zstd, gzip or brotli are encoded."
    )


def test_small_row_groups_are_encoded() -> None:
    plan = planned([4 * MIB] * 20 + [20 * MIB])
    (group,) = plan.groups
    assert (group.copying, group.copied_bytes) == (Way.SMALL, 20 * MIB)
    assert group.copy_sentence == (
        "row groups of 4.8 MiB on average are encoded, because they have less than 8.0 MiB in 20 of 21 files; "
        "about 20.0 MiB is copied all the same"
    )


def test_an_encoder_that_is_slow_makes_small_row_groups_worth_copying() -> None:
    slow, fast = (
        planned([4 * MIB] * 20, rates=make_rates(rate), min_row_group_size_bytes=MIB) for rate in (10e6, 200e6)
    )
    assert [plan.groups[0].copying for plan in (slow, fast)] == [Way.LARGE, Way.SMALL]
    assert slow.copying.least < 4 * MIB < fast.copying.least
    assert "at 10 MB/s encoding" in slow.copying.sentence


@pytest.mark.parametrize(
    ("given", "way", "said"),
    [
        ({"copy_row_groups": "never"}, Way.NEVER, "are encoded as asked"),
        ({"sorts_rows": True}, Way.SORTED, "because rows are sorted"),
        ({"sorts_rows": True, "copy_row_groups": "never"}, Way.SORTED, "because rows are sorted"),
        ({"specs": 3, "copy_row_groups": "never"}, Way.RESPEC, "because their rows leave partition spec 3"),
        ({"specs": 3}, Way.RESPEC, "because their rows leave partition spec 3"),
        ({"specs": 3, "keep_spec": True}, Way.LARGE, "are copied"),
        ({"deleted": [500] * 6}, Way.DELETES, "because most have deleted rows (about 0.1% of all)"),
        (
            {"deleted": [1] + [0] * 5},
            Way.LARGE,
            "; those with deleted rows (about 0.0% of all) are joined without these, or encoded",
        ),
    ],
)
def test_why_row_groups_are_encoded(given: dict[str, Any], way: Way, said: str) -> None:
    (group,) = planned([64 * MIB] * 6, 2, **given).groups
    assert group.copying is way
    assert said in group.copy_sentence
    assert bool(group.copied_bytes) == (way in COPIED)


@pytest.mark.parametrize(
    ("size", "deleted", "policy", "way", "said"),
    [
        (4 * MIB, 500, {}, Way.JOINED, "(about 1.2% of all) are joined without these, or encoded"),
        (64 * MIB, 500, {}, Way.JOINED_DELETES, "are joined page by page, because most have deleted rows (about 0.1%"),
        (64 * MIB, 10**9, {}, Way.DELETES, "are encoded, because most have deleted rows"),
        (4 * MIB, 10**9, {}, Way.SMALL, "are encoded, because they have less than"),
        (64 * MIB, 500, {"copy_row_groups": "always"}, Way.DELETES, "are encoded, because most have deleted rows"),
        (64 * MIB, 500, {"copy_row_groups": "never"}, Way.NEVER, "are encoded as asked"),
    ],
)
def test_row_groups_are_joined_without_a_few_deleted_rows(
    size: int, deleted: int, policy: dict[str, Any], way: Way, said: str
) -> None:
    plan = planned([size] * 20, 2, deleted=[deleted] * 20, columns=12, **policy)
    assert {group.copying for group in plan.groups} == {way}
    assert said in plan.groups[0].copy_sentence
    assert plan.copying.joined_bytes == (20 * size - plan.copying.copied_bytes if way.joins else 0)


def test_deleted_rows_touch_as_many_row_groups_as_chance_has_it() -> None:
    (group,) = planned([640 * MIB] * 2, 10, deleted=[5, 0], max_file_size_bytes=2**40).groups
    assert group.copied_bytes == pytest.approx(640 * MIB * (1 + 0.9**5), rel=1e-6)


def test_with_always_the_size_does_not_matter() -> None:
    plan = planned([MIB] * 9, 4, copy_row_groups="always")
    assert plan.copying.least == 1
    assert plan.groups[0].copying is Way.ASKED
    assert plan.copying.copied_bytes == 9 * MIB
    assert "whatever their size, as asked" in plan.copying.sentence


def test_row_groups_are_assumed_if_manifests_lack_them() -> None:
    (group,) = planned([300 * MIB, 10 * MIB], [None, 1]).groups
    assert (group.row_groups, group.untold_files) == (4, 1)
    assert "(assumed for 1 of 2 files)" in group.copy_sentence
    (group,) = planned([300 * MIB], None, properties={"write.parquet.row-group-size-bytes": str(32 * MIB)}).groups
    assert group.row_groups == 10


@pytest.mark.parametrize("stated", ["", "0", "many", "-5"])
def test_a_property_that_is_no_size_means_the_default_row_group(stated: str) -> None:
    plan = planned([64 * MIB] * 6, properties={"write.parquet.row-group-size-bytes": stated})
    assert plan.copying.encoded_row_group == copy_or_encode.DEFAULT_ROW_GROUP


def test_the_tables_codec_is_in_the_sentence() -> None:
    plan = planned([64 * MIB] * 6, properties={"write.parquet.compression-codec": "SNAPPY"})
    assert plan.copying.sentence.endswith("Row groups that are not compressed with snappy are encoded.")


def test_a_plan_with_nothing_in_it() -> None:
    plan = planned([])
    assert plan.copying.sentence == "Nothing is rewritten, so nothing is copied."
    assert plan.copying.least == DEFAULT_MIN_ROW_GROUP


def effort(encoded: float = 0, encode_seconds: float = 0, copied: float = 0, copy_seconds: float = 0) -> Effort:
    return Effort(
        encoded_bytes=int(encoded), encode_seconds=encode_seconds, copied_bytes=int(copied), copy_seconds=copy_seconds
    )


def test_nothing_is_learned_from_nothing() -> None:
    assert rates.learn([], []) == Rates()
    tiny = effort(encoded=rates.ENOUGH_BYTES - 1, encode_seconds=1, copied=rates.ENOUGH_BYTES - 1, copy_seconds=1)
    timeless = effort(encoded=1e9, copied=1e9)
    absurd = effort(encoded=1e9, encode_seconds=1e9, copied=1e12, copy_seconds=1e-3)
    assert rates.learn([tiny, timeless], [absurd]) == Rates()


def test_runs_of_the_same_table_count_before_others() -> None:
    own = [effort(encoded=20e6, encode_seconds=1)]
    others = [effort(encoded=90e6, encode_seconds=1, copied=500e6, copy_seconds=1)] * 2
    learned = rates.learn(own, others)
    assert learned.encoding == Rate(bytes_per_second=20e6, origin=RateOrigin.TABLE, runs=1)
    assert learned.copying == Rate(bytes_per_second=500e6, origin=RateOrigin.OTHERS, runs=2)
    assert (learned.encoding.sentence, learned.copying.sentence) == (
        "measured in 1 run on this table",
        "measured in 2 runs on other tables",
    )


def test_newer_and_larger_runs_count_for_more() -> None:
    fast, slow = effort(encoded=100e6, encode_seconds=1), effort(encoded=100e6, encode_seconds=4)
    newest_fast, newest_slow = (
        rates.learn(runs, []).encoding.bytes_per_second for runs in ([fast, slow], [slow, fast])
    )
    assert 25e6 < newest_slow < newest_fast < 100e6
    large = effort(encoded=10e9, encode_seconds=400)
    assert rates.learn([fast, large], []).encoding.bytes_per_second == pytest.approx(25e6, rel=0.02)


@fixed
@given(st.lists(st.tuples(st.integers(2 * 10**7, 10**12), st.floats(0.1, 1e4)), min_size=1, max_size=20))
def test_a_learned_rate_lies_between_those_that_were_measured(figures: list[tuple[int, float]]) -> None:
    learned = rates.learn([effort(copied=size, copy_seconds=seconds) for size, seconds in figures], []).copying
    measured = [size / seconds for size, seconds in figures if 1e6 <= size / seconds <= 1e11]
    if measured:
        assert min(measured) * 0.999 <= learned.bytes_per_second <= max(measured) * 1.001
        assert 1 <= learned.runs <= rates.RUNS
    else:
        assert learned.origin is RateOrigin.DEFAULT
