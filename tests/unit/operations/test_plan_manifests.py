"""Which manifests are rewritten: the reasons one by one; and of any manifests, a second run finds nothing to do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples

from iceberg_compaction.model import manifest_plan
from iceberg_compaction.operations.rewrite_manifests import choose_manifests

TARGET = 8 << 20
ASKED = choose_manifests.ManifestPlanRequest(plan_id="p", table="db.t", now_ms=1, pin=None, target=TARGET)


def facts(
    number: int, size: int, partitions: list[int], *, live: int | None = None, dead: int = 0, spec_id: int = 0
) -> manifest_plan.ManifestFacts:
    return manifest_plan.ManifestFacts(
        path=f"m{number}",
        spec_id=spec_id,
        content=manifest_plan.Content.DATA,
        bytes=size,
        live=len(partitions) * 10 if live is None else live,
        dead=dead,
        partitions=np.array(partitions, np.int64),
    )


def only(found: manifest_plan.ManifestPlan) -> manifest_plan.ManifestGroup:
    (group,) = found.groups
    return group


def test_many_small_manifests_are_joined() -> None:
    found = choose_manifests.build([facts(n, 10_000, [n]) for n in range(100)], ASKED)
    assert only(found).reason is manifest_plan.Reason.SMALL
    assert (found.replaced, found.outputs) == (100, 1)
    assert found.sentence == "100 manifests (976.6 KiB) become about 1."


def test_two_small_manifests_are_not_worth_a_commit() -> None:
    found = choose_manifests.build([facts(n, 10_000, [n]) for n in range(2)], ASKED)
    assert found.empty
    assert [kept.reason for kept in found.kept] == [manifest_plan.KeptReason.WELL_PACKED]
    assert found.sentence.startswith("Nothing to do: a rewrite would halve neither the 2 manifests of data files")


def test_small_manifests_leave_full_ones_alone() -> None:
    full = [facts(n, TARGET - 1000, list(range(n * 100, n * 100 + 100))) for n in range(20)]
    small = [facts(100 + n, 50_000, [n * 100]) for n in range(10)]
    found = choose_manifests.build([*small, *full], ASKED)
    assert only(found).manifests == tuple(one.path for one in small)
    assert found.sentence == "10 manifests (488.3 KiB) become about 1; 20 stay as they are."


def test_small_manifests_take_full_ones_along_if_all_partitions_are_scattered() -> None:
    full = [facts(n, TARGET - 1000, list(range(1000))) for n in range(20)]
    small = [facts(100 + n, 50_000, [n]) for n in range(10)]
    assert len(only(choose_manifests.build([*small, *full], ASKED)).manifests) == 30


def test_scattered_partitions_are_brought_together() -> None:
    group = only(choose_manifests.build([facts(n, TARGET - 1000, list(range(1000))) for n in range(10)], ASKED))
    assert group.reason is manifest_plan.Reason.SCATTERED
    assert group.spread == 10
    assert group.spread_after == pytest.approx(1.01)
    assert group.sentence == "the files of a partition lie in 10.0 manifests on average"


def test_one_large_partition_over_many_manifests_is_not_scattered() -> None:
    assert choose_manifests.build([facts(n, TARGET - 1000, [7], live=10_000) for n in range(50)], ASKED).empty


def test_large_manifests_are_split() -> None:
    group = only(choose_manifests.build([facts(0, 3 * TARGET, list(range(100)))], ASKED))
    assert (group.reason, group.outputs) == (manifest_plan.Reason.LARGE, 3)


def test_entries_of_deleted_files_do_not_count() -> None:
    found = choose_manifests.build([facts(n, TARGET - 1000, [n], live=10, dead=9990) for n in range(10)], ASKED)
    assert (only(found).reason, found.outputs) == (manifest_plan.Reason.SMALL, 1)


def test_a_single_manifest_is_alone() -> None:
    found = choose_manifests.build([facts(0, 5000, [1])], ASKED)
    assert [kept.reason for kept in found.kept] == [manifest_plan.KeptReason.ALONE]


def test_a_branch_without_files_has_nothing_to_do() -> None:
    found = choose_manifests.build([], ASKED)
    assert found.sentence == "Nothing to do: the branch has no live files."


def test_specs_and_contents_are_apart() -> None:
    small = [facts(n, 10_000, [n]) for n in range(10)]
    deletes = [replace(facts(20 + n, 10_000, [n]), content=manifest_plan.Content.DELETES) for n in range(10)]
    old = [facts(40 + n, 10_000, [n], spec_id=1) for n in range(10)]
    lost = [facts(60 + n, 10_000, [n], spec_id=2) for n in range(10)]
    asked = replace(ASKED, unwritable_specs=frozenset({2}))
    found = choose_manifests.build([*small, *deletes, *old, *lost], asked)
    assert [(group.spec_id, group.content.value) for group in found.groups] == [
        (0, "data"),
        (0, "deletes"),
        (1, "data"),
    ]
    assert [(kept.spec_id, kept.reason) for kept in found.kept] == [(2, manifest_plan.KeptReason.LOST_COLUMN)]
    chosen = choose_manifests.build([*small, *old, *lost], replace(asked, spec_id=1))
    assert only(chosen).spec_id == 1
    assert [kept.reason for kept in chosen.kept] == [manifest_plan.KeptReason.OTHER_SPEC] * 2


@st.composite
def tables(draw: st.DrawFn) -> list[manifest_plan.ManifestFacts]:
    kinds = draw(st.lists(st.sampled_from(["tiny", "small", "half", "full", "huge"]), min_size=1, max_size=60))
    sizes = {"tiny": 8_000, "small": 600_000, "half": TARGET // 2, "full": TARGET - 5000, "huge": 3 * TARGET}
    partitions = draw(st.integers(1, 300))
    width = draw(st.integers(1, partitions))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    found = []
    for number, kind in enumerate(kinds):
        first = int(random.integers(0, partitions))
        chosen = sorted({(first + int(step)) % partitions for step in random.integers(0, width, width)})
        size = int(sizes[kind] * random.uniform(0.7, 1.3))
        each = 1 + size // len(chosen) // 20_000  # so that an entry is small beside a manifest
        found.append(facts(number, size, chosen, live=len(chosen) * each, dead=draw(st.integers(0, 50))))
    return found


def performed(
    before: list[manifest_plan.ManifestFacts], found: manifest_plan.ManifestPlan
) -> list[manifest_plan.ManifestFacts]:
    """The manifests after the plan: entries in the order of partitions, filled up to the target."""
    gone = {path for group in found.groups for path in group.manifests}
    after = [one for one in before if one.path not in gone]
    entries = sorted(
        (int(partition), one.live_bytes / one.live)
        for one in before
        if one.path in gone
        for partition in np.repeat(one.partitions, one.live // len(one.partitions))
    )
    outputs, filled = [list[tuple[int, float]]()], [0.0]
    for entry in entries:
        if filled[-1] + entry[1] > TARGET:
            outputs.append([])
            filled.append(0.0)
        outputs[-1].append(entry)
        filled[-1] += entry[1]
    if len(outputs) > 1 and filled[-1] * 4 < TARGET:
        tail, size = outputs.pop(), filled.pop()
        outputs[-1] += tail
        filled[-1] += size
    for number, (output, size) in enumerate(zip(outputs, filled, strict=True)):
        if output:
            places = sorted({place for place, _ in output})
            after.append(facts(1000 + number, int(size) + 1, places, live=len(output)))
    return after


@given(tables())
@examples(60)
def test_a_second_run_finds_nothing_to_do(before: list[manifest_plan.ManifestFacts]) -> None:
    found = choose_manifests.build(before, ASKED)
    assert sum(kept.manifests for kept in found.kept) + found.replaced == len(before)
    after = performed(before, found)
    assert sum(one.live for one in after) == sum(one.live for one in before)
    again = choose_manifests.build(after, ASKED)
    assert again.empty, (found.sentence, again.sentence)
