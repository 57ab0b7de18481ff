"""Rebases an earlier plan on the table as it is now. A plan and a view of its branch's head come in. The groups that
still hold go out, pinned to that head, and for each other group the reason why it does not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.model import partition_key, plurals
from iceberg_compaction.model.rewrite_plan import PLAN_FILES, Draft, EmptyPlan, Groups, Plan
from iceberg_compaction.model.table_view import DATA

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from iceberg_compaction.model.delete_choice import PartitionDeletes
    from iceberg_compaction.model.partition_key import PartitionKey
    from iceberg_compaction.model.table_view import Pin, TableView


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebased:
    """The groups of a plan that still hold, and those that do not."""

    plan: Plan | EmptyPlan  # groups keep their ids, sizes and policy stay as planned
    dropped: dict[int, str]  # the other groups by id, each with a sentence that gives the reason
    leased: frozenset[int] = frozenset()  # those of them that other runs are working on


def rebase(plan: Plan, view: TableView) -> Rebased:
    """A group holds as long as all its files are live, in the partition and spec and of the size that were planned,
    and no other run is working on one of its partitions."""
    groups = plan.groups.columns
    counts = groups["files"].to_numpy()
    changed, gone = _changed_files(plan, view)
    owner = np.repeat(np.arange(len(counts)), counts)  # the group of each file
    bad = np.zeros(len(counts), bool)
    bad[owner[changed]] = True
    dropped = {}
    for group in np.flatnonzero(bad).tolist():
        first, count = groups["first"][group].as_py(), int(counts[group])
        rows = first + np.flatnonzero(changed[first : first + count])
        dropped[groups["id"][group].as_py()] = _sentence(plan, rows, gone)
    busy = np.zeros(len(counts), bool)
    busy[owner[_leased_files(plan, view)]] = True
    leased = frozenset(groups["id"].filter(pa.array(busy & ~bad)).to_pylist())
    dropped |= dict.fromkeys(sorted(leased), f"Another run is working on its partition ({'; '.join(view.lessees)}).")
    return Rebased(plan=_keep(plan, view, ~(bad | busy), owner), dropped=dropped, leased=leased)


def select(plan: Plan, group_ids: Sequence[int], *, first_id: int | None, useless_deletes: int = 0) -> Plan:
    """These groups of a plan, one at least, on the same snapshot, with ids from `first_id` on; None: with their ids."""
    columns = plan.groups.columns
    kept = pc.is_in(columns["id"], value_set=pa.array(group_ids, pa.int64())).to_numpy(zero_copy_only=False)
    owner = np.repeat(np.arange(len(columns)), columns["files"].to_numpy())
    selected = _draft(plan, kept, owner, pin=plan.pin, useless_deletes=useless_deletes)
    assert isinstance(selected, Plan)
    return selected if first_id is None else renumber(selected, first_id)


def is_gone(plan: Plan, view: TableView) -> bool:
    """Whether none of the plan's files is in the table any more."""
    _, gone = _changed_files(plan, view)
    return bool(gone.all())


def _leased_files(plan: Plan, view: TableView) -> NDArray[np.bool_]:
    """For each file of the plan: whether it is in a partition that another run is working on."""
    if view.leased is None:
        return np.zeros(plan.files.num_rows, bool)
    paths = view.files["file_path"].filter(view.leased)
    leased: NDArray[np.bool_] = pc.is_in(plan.files["file_path"], value_set=paths).to_numpy(zero_copy_only=False)
    return leased


def _changed_files(plan: Plan, view: TableView) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each file of the plan: whether it is no longer as planned, and whether it is gone."""
    live = view.files.filter(pc.equal(view.files["content"], DATA))
    positions = pc.index_in(plan.files["file_path"], value_set=live["file_path"])
    gone = pc.is_null(positions).to_numpy(zero_copy_only=False)
    now = live.take(pc.fill_null(positions, 0)) if live.num_rows else live.slice(0, 0)
    if not live.num_rows:
        return gone, gone
    same = np.ones(len(gone), bool)
    for name in PLAN_FILES.names[1:]:
        same &= now[name].to_numpy() == plan.files[name].to_numpy()
    sections = plan.groups.sections()
    owner = pa.array(np.repeat(np.arange(sections.num_rows), sections["files"].to_numpy()))
    same &= now["spec_id"].to_numpy() == sections["spec_id"].take(owner).to_numpy()
    planned = sections["partition"].take(owner)
    same &= pc.equal(now["partition"].cast(pa.string()), planned).to_numpy(zero_copy_only=False)
    return gone | ~same, gone


def _sentence(plan: Plan, changed: NDArray[np.int64], gone: NDArray[np.bool_]) -> str:
    missing = changed[gone[changed]]
    rows = missing if len(missing) else changed
    path = plan.files["file_path"][int(rows[0])].as_py()
    verb = plurals.form(len(rows), "is", "are")
    if len(missing):
        return f"{len(rows)} of its files {verb} no longer in the table, the first is {path}."
    return f"{len(rows)} of its files {verb} not as planned any more, the first is {path}."


def _keep(plan: Plan, view: TableView, kept: NDArray[np.bool_], owner: NDArray[np.int64]) -> Plan | EmptyPlan:
    useless_deletes = view.useless_deletes if plan.useless_deletes else 0
    deletes = _free_deletes(plan, view)
    return _draft(plan, kept, owner, pin=view.pin, useless_deletes=useless_deletes, deletes=deletes)


def _free_deletes(plan: Plan, view: TableView) -> tuple[PartitionDeletes, ...]:
    """What becomes of deletes where no other run is at work. What is left of them is seen when they are exchanged."""
    if view.leased is None:
        return plan.deletes
    leased = view.files.filter(view.leased).select(["spec_id", "partition"])
    keys = set(zip(leased["spec_id"].to_pylist(), leased["partition"].to_pylist(), strict=True))
    return tuple(each for each in plan.deletes if each.key not in keys)


def _draft(
    plan: Plan,
    kept: NDArray[np.bool_],
    owner: NDArray[np.int64],
    *,
    pin: Pin | None,
    useless_deletes: int,
    deletes: tuple[PartitionDeletes, ...] = (),
) -> Plan | EmptyPlan:
    groups = plan.groups.columns.filter(pa.array(kept))
    counts = groups["files"].to_numpy()
    first = pa.array(np.cumsum(counts) - counts, pa.int64())
    groups = groups.set_column(groups.column_names.index("first"), groups.schema.field("first"), first)
    return Draft(
        id=plan.id,
        table=plan.table,
        created_ms=plan.created_ms,
        pin=pin,
        policy=plan.policy,
        sizes=plan.sizes,
        layout=plan.layout,
        copying=plan.copying,
        groups=groups,
        left_out=plan.left_out,
        files=plan.files.filter(pa.array(kept[owner])),
        maintainers=plan.maintainers,
        notes=plan.notes,
        partition_scores=plan.partition_scores,
        useless_deletes=useless_deletes,
        past_rows=plan.past_rows,
        cost=plan.cost,
        deletes=deletes,
    ).plan()


def restrict(
    view: TableView, partition_keys: set[PartitionKey], *, run_id: str, without: Sequence[str] = ()
) -> TableView:
    """The same view, in which only files of these partitions are candidates: none that this run has written itself, and
    none of `without`."""
    chosen = partition_key.lie_in(view.files, partition_keys)
    ours = pc.match_substring(view.files["file_path"], run_id).to_numpy(zero_copy_only=False)
    if view.selected is not None:
        chosen &= view.selected.to_numpy(zero_copy_only=False)
    if without:
        named = pc.is_in(view.files["file_path"], value_set=pa.array(without, pa.string()))
        chosen &= ~named.to_numpy(zero_copy_only=False)
    return replace(view, selected=pa.array(chosen & ~ours))


def without_runs(view: TableView, run_ids: Collection[str]) -> TableView:
    """The same view, in which no file that these runs have written is a candidate."""
    chosen = (
        np.ones(view.files.num_rows, bool) if view.selected is None else view.selected.to_numpy(zero_copy_only=False)
    )
    for run_id in run_ids:
        chosen = chosen & ~pc.match_substring(view.files["file_path"], run_id).to_numpy(zero_copy_only=False)
    return replace(view, selected=pa.array(chosen))


def renumber(plan: Plan, first_id: int) -> Plan:
    """The same plan with ids of groups from `first_id` on."""
    columns = plan.groups.columns
    ids = pa.array(np.arange(first_id, first_id + len(columns)), pa.int64())
    columns = columns.set_column(columns.column_names.index("id"), columns.schema.field("id"), ids)
    return plan.model_copy(update={"groups": Groups(columns, plan.sizes, plan.copying)})
