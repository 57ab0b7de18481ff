"""Which snapshots expire (R71): the rules of Iceberg Java's `expireSnapshots`, and what is kept beside them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.model.snapshot_retention import RefFacts, RetentionGoal, SnapshotFacts
from iceberg_compaction.plan.expiry import choose_snapshots, effective_retention
from iceberg_compaction.plan.expiry.choose_snapshots import KeptFor, SnapshotChoice, SnapshotsOfTable

DAY = 86_400_000
NOW = 1_000 * DAY
MAIN = RefFacts(name="main", snapshot_id=10, is_branch=True)


def line(*ids: int, every: int = DAY, parent: int | None = None, until: int = NOW) -> list[SnapshotFacts]:
    """Snapshots, each the parent of the next; the last one is an hour old."""
    made = []
    for number, each in enumerate(ids):
        age = every * (len(ids) - 1 - number) + DAY // 24
        made.append(SnapshotFacts(snapshot_id=each, parent_id=parent, timestamp_ms=until - age))
        parent = each
    return made


def choose(
    snapshots: list[SnapshotFacts],
    refs: list[RefFacts],
    properties: dict[str, str] | None = None,
    in_use: dict[int, str] | None = None,
    **goal: Any,
) -> SnapshotChoice:
    table = SnapshotsOfTable(snapshots=snapshots, refs=refs, in_use=in_use or {})
    wanted = RetentionGoal(**goal)
    held = effective_retention.effective(wanted, properties or {}, NOW)
    choose_snapshots.check_ids(table, wanted, held, NOW)
    return choose_snapshots.choose(table, wanted, held, NOW)


def test_old_snapshots_go_and_five_days_stay_by_default() -> None:
    choice = choose(line(*range(1, 11)), [MAIN])
    assert choice.expired == (1, 2, 3, 4, 5)
    assert choice.kept[10] is KeptFor.HEAD
    assert choice.kept[9] is KeptFor.AGE


@pytest.mark.parametrize(
    ("properties", "goal", "expired"),
    [
        ({"history.expire.max-snapshot-age-ms": str(2 * DAY)}, {}, 8),
        ({"history.expire.min-snapshots-to-keep": "7"}, {}, 3),
        ({"snapshot.keep.duration": "48h"}, {}, 8),
        ({"snapshot.keep.duration": "48h", "history.expire.max-snapshot-age-ms": str(7 * DAY)}, {}, 3),
        ({"snapshot.keep.duration": "2880 min", "snapshot.keep.min-count": "4"}, {}, 6),
        ({"history.expire.max-snapshot-age-ms": str(2 * DAY)}, {"policy_age_ms": 3 * DAY}, 7),
        ({"history.expire.max-snapshot-age-ms": str(2 * DAY)}, {"policy_age_ms": 3 * DAY, "older_than_ms": 0}, 0),
        ({"history.expire.min-snapshots-to-keep": "7"}, {"older_than_ms": NOW, "retain_last": 2}, 8),
        ({}, {"older_than_ms": NOW}, 9),
    ],
)
def test_the_order_of_precedence(properties: dict[str, str], goal: dict[str, Any], expired: int) -> None:
    assert len(choose(line(*range(1, 11)), [MAIN], properties, **goal).expired) == expired


def test_each_value_has_its_origin() -> None:
    properties = {"history.expire.min-snapshots-to-keep": "7", "snapshot.keep.duration": "1d"}
    held = effective_retention.effective(RetentionGoal(policy_ref_age_ms=5), properties, NOW)
    assert held.older_than_ms.origin == "snapshot.keep.duration"
    assert held.min_snapshots.origin == "history.expire.min-snapshots-to-keep"
    assert held.max_ref_age_ms.origin == "policy"


@pytest.mark.parametrize("value", ["", "x", "-1", "0", "5 fortnights"])
@pytest.mark.parametrize("name", ["history.expire.max-snapshot-age-ms", "snapshot.keep.duration"])
def test_a_property_that_is_no_number_is_refused(name: str, value: str) -> None:
    with pytest.raises(errors.ConfigError, match=name):
        effective_retention.effective(RetentionGoal(), {name: value}, NOW)


@pytest.mark.parametrize(("goal", "refused"), [({}, True), ({"allow_recent": True}, False)])
def test_snapshots_of_the_last_hour_need_a_word(goal: dict[str, Any], refused: bool) -> None:
    """#8994: an expiry with older_than=now destroyed a table that a stream was writing."""
    wanted = RetentionGoal(older_than_ms=NOW - 60_000, **goal)
    held = effective_retention.effective(wanted, {}, NOW)
    if refused:
        with pytest.raises(errors.ConfigError, match="--allow-recent"):
            effective_retention.check_age(wanted, held, NOW)
    else:
        effective_retention.check_age(wanted, held, NOW)


@pytest.mark.parametrize(("goal", "expired"), [({}, ()), ({"allow_recent": True}, tuple(range(1, 10)))])
def test_a_branch_alone_cannot_let_snapshots_of_the_last_hour_go(goal: dict[str, Any], expired: tuple[int]) -> None:
    brief = RefFacts(name="main", snapshot_id=10, is_branch=True, max_snapshot_age_ms=1)
    snapshots = line(*range(1, 11), every=60_000, until=NOW + DAY // 24)
    assert choose(snapshots, [brief], **goal).expired == expired


def test_branches_and_tags_keep_to_their_own_retention() -> None:
    """#13568, #10982: several refs, and snapshots that only one of them has."""
    snapshots = [*line(*range(1, 11)), *line(21, 22, 23, parent=3)]
    short = RefFacts(name="short", snapshot_id=23, is_branch=True, max_snapshot_age_ms=DAY, min_snapshots_to_keep=2)
    tag = RefFacts(name="v1", snapshot_id=2, is_branch=False)
    choice = choose(snapshots, [MAIN, short, tag])
    assert choice.expired == (1, 3, 4, 5, 21)
    assert choice.removed_refs == ()
    assert choice.kept[22] is KeptFor.COUNT


def test_refs_go_by_their_age_and_main_never() -> None:
    """#12200: what only such a ref held expires with it."""
    snapshots = [*line(*range(1, 11), every=2 * DAY, until=NOW - 100 * DAY), *line(21, parent=4, until=NOW - 20 * DAY)]
    old_tag = RefFacts(name="old", snapshot_id=2, is_branch=False, max_ref_age_ms=DAY)
    branch = RefFacts(name="b", snapshot_id=21, is_branch=True)
    choice = choose(snapshots, [MAIN, old_tag, branch], {"history.expire.max-ref-age-ms": str(10 * DAY)})
    assert choice.removed_refs == ("old", "b")
    assert choice.expired == (1, 2, 3, 4, 5, 6, 7, 8, 9, 21)


def test_a_snapshot_without_a_ref_stays_while_it_is_young() -> None:
    """Staged by write-audit-publish, or left by a rollback."""
    staged = SnapshotFacts(snapshot_id=31, parent_id=9, timestamp_ms=NOW - DAY)
    old = SnapshotFacts(snapshot_id=32, parent_id=9, timestamp_ms=NOW - 6 * DAY)
    choice = choose([*line(*range(1, 11)), staged, old], [MAIN])
    assert choice.expired == (1, 2, 3, 4, 5, 32)


def test_ids_alone_expire_nothing_else() -> None:
    assert choose(line(*range(1, 11)), [MAIN], snapshot_ids=(4, 9)).expired == (4, 9)
    assert choose(line(*range(1, 11)), [MAIN], snapshot_ids=(9,), older_than_ms=NOW - 8 * DAY).expired == (1, 2, 9)


@pytest.mark.parametrize(("named", "words"), [(10, "the branch main"), (77, "no snapshot 77")])
def test_ids_that_cannot_expire_are_refused(named: int, words: str) -> None:
    with pytest.raises(errors.ConfigError, match=words):
        choose(line(*range(1, 11)), [MAIN], snapshot_ids=(named,))


def test_what_others_work_on_stays() -> None:
    choice = choose(line(*range(1, 11)), [MAIN], in_use={2: "run x", 99: "run y"}, snapshot_ids=(2,))
    assert choice.expired == ()
    assert choice.kept[2] is KeptFor.IN_USE


def flink(snapshots: list[SnapshotFacts], **jobs: int) -> list[SnapshotFacts]:
    """The same, with checkpoints: `a7=3` is checkpoint 3 of job a in snapshot 7."""
    marks = {int(name[1:]): (name[0], checkpoint) for name, checkpoint in jobs.items()}
    return [
        SnapshotFacts(
            snapshot_id=each.snapshot_id,
            parent_id=each.parent_id,
            timestamp_ms=each.timestamp_ms,
            flink_job=marks.get(each.snapshot_id, (None, None))[0],
            flink_checkpoint=marks.get(each.snapshot_id, (None, None))[1],
        )
        for each in snapshots
    ]


def test_the_latest_checkpoint_of_each_flink_job_stays_with_the_way_to_it() -> None:
    snapshots = flink(line(*range(1, 11)), a1=1, a5=7, a4=6, b2=40)
    choice = choose(snapshots, [MAIN], older_than_ms=NOW)
    assert choice.expired == (1, 3, 4)  # job b is long over: a way back is of no use to it, its snapshot stays
    assert choice.kept[5] is KeptFor.FLINK
    assert choice.kept[2] is KeptFor.FLINK


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[SnapshotFacts], list[RefFacts]]:
    count = draw(st.integers(1, 12))
    snapshots = []
    for number in range(1, count + 1):
        parent = draw(st.none() | st.integers(1, number - 1)) if number > 1 else None
        age = draw(st.integers(0, 20)) * DAY // 2
        snapshots.append(SnapshotFacts(snapshot_id=number, parent_id=parent, timestamp_ms=NOW - age))
    refs = [RefFacts(name="main", snapshot_id=draw(st.integers(1, count)), is_branch=True)]
    for number in range(draw(st.integers(0, 3))):
        is_branch = draw(st.booleans())
        refs.append(
            RefFacts(
                name=f"r{number}",
                snapshot_id=draw(st.integers(1, count)),
                is_branch=is_branch,
                max_ref_age_ms=draw(st.none() | st.integers(1, 10).map(lambda days: days * DAY)),
                max_snapshot_age_ms=draw(st.none() | st.integers(1, 10)) if is_branch else None,
                min_snapshots_to_keep=draw(st.none() | st.integers(1, 4)) if is_branch else None,
            )
        )
    return snapshots, refs


def java(snapshots: list[SnapshotFacts], refs: list[RefFacts], older: int, least: int) -> tuple[set[int], set[str]]:
    """The rules of Java's RemoveSnapshots, in its own order of steps."""
    by_id = {each.snapshot_id: each for each in snapshots}
    kept_refs = [
        ref
        for ref in refs
        if ref.name == "main"
        or ref.max_ref_age_ms is None
        or NOW - by_id[ref.snapshot_id].timestamp_ms <= ref.max_ref_age_ms
    ]
    retained, referenced = {ref.snapshot_id for ref in kept_refs}, set()
    for ref in kept_refs:
        referenced.add(ref.snapshot_id)
        if not ref.is_branch:
            continue
        since = older if ref.max_snapshot_age_ms is None else NOW - ref.max_snapshot_age_ms
        own: set[int] = set()
        going, at = True, ref.snapshot_id
        while at is not None:
            referenced.add(at)
            enough = len(own) >= (least if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep)
            going = going and (not enough or by_id[at].timestamp_ms >= since)
            if going:
                own.add(at)
            at = by_id[at].parent_id
        retained |= own
    retained |= {each for each in by_id if each not in referenced and by_id[each].timestamp_ms >= older}
    return set(by_id) - retained, {ref.name for ref in refs} - {ref.name for ref in kept_refs}


@examples(200)
@given(tables(), st.integers(0, 10), st.integers(1, 4))
def test_the_choice_is_that_of_iceberg_java(
    table: tuple[list[SnapshotFacts], list[RefFacts]], days: int, least: int
) -> None:
    snapshots, refs = table
    older = NOW - days * DAY
    choice = choose(snapshots, refs, older_than_ms=older, retain_last=least)
    assert (set(choice.expired), set(choice.removed_refs)) == java(snapshots, refs, older, least)
