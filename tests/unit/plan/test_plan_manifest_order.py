"""The order of work goes through the manifests, so that a batch or a budget empties whole ones instead of taking a few
files out of each: a commit writes every manifest anew that it takes files from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import inventories

from iceberg_compaction.model.policies import Policy
from iceberg_compaction.plan import build

if TYPE_CHECKING:
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.table_view import TableView

MIB = 2**20
EACH = 5  # files of a partition


def scattered(manifests: int, partitions: int) -> TableView:
    """Every manifest lists all files of some partitions, which are neighbours neither by name nor by number."""
    names = [f'{{"n":{number}}}' for number in range(manifests * partitions)]
    listed = [name for number in range(manifests) for name in names[number::manifests]]
    rows = inventories.files(
        [MIB] * len(names) * EACH,
        partitions=[name for name in listed for _ in range(EACH)],
        sequence=[1] * EACH * len(names),
    )
    return inventories.view(rows, manifest_files=(partitions * EACH,) * manifests, manifests=manifests)


def planned(view: TableView, **policy: int | str) -> Plan:
    return build.build(view, Policy.model_validate(policy), plan_id="plan", now_ms=0)


def manifests_of(plan: Plan, view: TableView) -> list[set[int]]:
    """The manifests that list files of each group."""
    numbers = np.repeat(np.arange(len(view.manifest_files)), view.manifest_files).tolist()
    of = dict(zip(view.files["file_path"].to_pylist(), numbers, strict=True))
    return [{of[path] for path in plan.files_of(group)["file_path"].to_pylist()} for group in plan.groups]


def touched(groups: list[set[int]], batch: int) -> list[int]:
    """How many manifests each batch takes files from."""
    return [len(set().union(*groups[first : first + batch])) for first in range(0, len(groups), batch)]


def test_batches_empty_one_manifest_after_the_other() -> None:
    view = scattered(manifests=8, partitions=8)
    assert touched(manifests_of(planned(view), view), batch=8) == [1] * 8
    by_name = planned(inventories.view(view.files))
    assert sum(touched(manifests_of(by_name, view), batch=8)) > 6 * 8


def test_a_budget_empties_the_oldest_manifests() -> None:
    view = scattered(manifests=8, partitions=8)
    plan = manifests_of(planned(view, **{"max-files-to-rewrite": 2 * 8 * EACH}), view)
    assert [number for group in plan for number in group] == [7] * 8 + [6] * 8  # lists begin with the newest


def test_groups_of_one_manifest_are_sorted_by_partition() -> None:
    names = [group.partition for group in planned(scattered(manifests=2, partitions=3)).groups]
    assert names == ['{"n":1}', '{"n":3}', '{"n":5}', '{"n":0}', '{"n":2}', '{"n":4}']


def test_the_order_that_was_asked_for_is_above_that_of_manifests() -> None:
    rows = inventories.files([3 * MIB] * EACH + [MIB] * EACH, partitions=["{}"] * EACH + ['{"a":1}'] * EACH)
    view = inventories.view(rows, manifest_files=(EACH, EACH))
    for order, sizes in (("bytes-asc", [5, 15]), ("bytes-desc", [15, 5]), ("none", [5, 15]), ("files-asc", [5, 15])):
        plan = planned(view, **{"rewrite-job-order": order})
        assert [group.bytes // MIB for group in plan.groups] == sizes, order


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=8),  # partitions by manifest
    st.sampled_from([{}, {"max-file-group-input-files": 3}, {"strategy": "full"}]),
)
def test_once_passed_a_manifest_is_touched_no_more(listed: list[list[int]], options: dict[str, int | str]) -> None:
    """Whatever manifests list, nothing planned is left in those older than the one that is worked on; and the same is
    done as in any other order."""
    parts = [f'{{"p":{part}}}' for manifest in listed for part in manifest]
    rows = inventories.files([MIB] * len(parts), partitions=parts, sequence=[1] * len(parts))
    view = inventories.view(rows, manifest_files=tuple(map(len, listed)))
    plan = planned(view, **{"min-input-files": 2, **options})
    oldest = [max(group) for group in manifests_of(plan, view)]
    assert oldest == sorted(oldest, reverse=True)
    by_name = planned(inventories.view(rows), **{"min-input-files": 2, **options})
    assert paths_of(plan) == paths_of(by_name)


def paths_of(plan: Plan) -> set[frozenset[str]]:
    """The groups, in no order."""
    return {frozenset(plan.files_of(group)["file_path"].to_pylist()) for group in plan.groups}
