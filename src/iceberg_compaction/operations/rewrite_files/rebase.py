"""A plan made earlier, carried over to the table as it is now. A plan and the inventory of its branch's head come in;
out go the groups that still hold, pinned to that head, and for the others why they do not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.model import partition_key
from iceberg_compaction.model.rewrite_plan import PLAN_FILES, Draft, EmptyPlan, Groups, Plan
from iceberg_compaction.model.table_view import DATA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from iceberg_compaction.model.partition_key import PartitionKey
    from iceberg_compaction.model.table_view import TableView


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebased:
    """What is left of a plan."""

    plan: Plan | EmptyPlan  # groups keep their ids, sizes and policy stay as planned
    dropped: dict[int, str]  # the other groups: the id, and a sentence that says why


def rebase(plan: Plan, view: TableView) -> Rebased:
    """A group holds as long as all its files are live, in the partition and spec and of the size that were planned."""
    groups = plan.groups.columns
    counts = groups["files"].to_numpy()
    wrong, gone = _wrong(plan, view)
    owner = np.repeat(np.arange(len(counts)), counts)  # the group of each file
    bad = np.zeros(len(counts), bool)
    bad[owner[wrong]] = True
    dropped = {}
    for group in np.flatnonzero(bad).tolist():
        first, count = groups["first"][group].as_py(), int(counts[group])
        rows = first + np.flatnonzero(wrong[first : first + count])
        dropped[groups["id"][group].as_py()] = _sentence(plan, rows, gone)
    return Rebased(plan=_keep(plan, view, ~bad, owner), dropped=dropped)


def _wrong(plan: Plan, view: TableView) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each file of the plan: whether it is not as planned, and whether it is gone altogether."""
    live = view.files.filter(pc.equal(view.files["content"], DATA))
    found = pc.index_in(plan.files["file_path"], value_set=live["file_path"])
    gone = pc.is_null(found).to_numpy(zero_copy_only=False)
    now = live.take(pc.fill_null(found, 0)) if live.num_rows else live.slice(0, 0)
    if not live.num_rows:
        return gone, gone
    same = np.ones(len(gone), bool)
    for name in PLAN_FILES.names[1:]:
        same &= now[name].to_numpy() == plan.files[name].to_numpy()
    lies = plan.groups.sections()
    owner = pa.array(np.repeat(np.arange(lies.num_rows), lies["files"].to_numpy()))
    same &= now["spec_id"].to_numpy() == lies["spec_id"].take(owner).to_numpy()
    planned = lies["partition"].take(owner)
    same &= pc.equal(now["partition"].cast(pa.string()), planned).to_numpy(zero_copy_only=False)
    return gone | ~same, gone


def _sentence(plan: Plan, wrong: NDArray[np.int64], gone: NDArray[np.bool_]) -> str:
    missing = wrong[gone[wrong]]
    which = missing if len(missing) else wrong
    path = plan.files["file_path"][int(which[0])].as_py()
    one = len(which) == 1
    if len(missing):
        return f"{len(which)} of its files {'is' if one else 'are'} no longer in the table, the first is {path}."
    return f"{len(which)} of its files {'is' if one else 'are'} not as planned any more, the first is {path}."


def _keep(plan: Plan, view: TableView, kept: NDArray[np.bool_], owner: NDArray[np.int64]) -> Plan | EmptyPlan:
    groups = plan.groups.columns.filter(pa.array(kept))
    counts = groups["files"].to_numpy()
    first = pa.array(np.cumsum(counts) - counts, pa.int64())
    groups = groups.set_column(groups.column_names.index("first"), groups.schema.field("first"), first)
    return Draft(
        id=plan.id,
        table=plan.table,
        created_ms=plan.created_ms,
        pin=view.pin,
        policy=plan.policy,
        sizes=plan.sizes,
        layout=plan.layout,
        copying=plan.copying,
        groups=groups,
        left_out=plan.left_out,
        files=plan.files.filter(pa.array(kept[owner])),
        useless_deletes=view.useless_deletes if plan.useless_deletes else 0,
    ).plan()


def only(view: TableView, partition_keys: set[PartitionKey], *, run_id: str, without: Sequence[str] = ()) -> TableView:
    """The same table, of which only files of these partitions may be chosen, and none that this run has written itself,
    or that are named in `without`."""
    chosen = partition_key.lie_in(view.files, partition_keys)
    ours = pc.match_substring(view.files["file_path"], run_id).to_numpy(zero_copy_only=False)
    if view.selected is not None:
        chosen &= view.selected.to_numpy(zero_copy_only=False)
    if without:
        named = pc.is_in(view.files["file_path"], value_set=pa.array(without, pa.string()))
        chosen &= ~named.to_numpy(zero_copy_only=False)
    return replace(view, selected=pa.array(chosen & ~ours))


def renumber(plan: Plan, first_id: int) -> Plan:
    """The same plan with ids of groups from `first_id` on."""
    columns = plan.groups.columns
    ids = pa.array(np.arange(first_id, first_id + len(columns)), pa.int64())
    columns = columns.set_column(columns.column_names.index("id"), columns.schema.field("id"), ids)
    return plan.model_copy(update={"groups": Groups(columns, plan.sizes, plan.copying)})
