"""The planner's entry: what would be done to one table, and why. An inventory and a policy come in, a `Plan` goes out.
Pure: no I/O, no clock, no randomness; the same input gives the same plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from typing_extensions import assert_never

from iceberg_compaction import errors
from iceberg_compaction.model import policy as policy_model
from iceberg_compaction.model.plan import PLAN_FILES, FileGroup, LeftOut, LeftOutReason, Plan
from iceberg_compaction.model.policy import Policy, Sizes, Strategy
from iceberg_compaction.plan import candidates, explain, full, packing, selection, small_files, verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.table import Inventory

    Tally = dict[LeftOutReason, NDArray[np.int64]]  # sizes of the files left out, by reason


def build(inventory: Inventory, policy: Policy, *, plan_id: str, now_ms: int) -> Plan:
    """The plan for a table. Raises UnsupportedError for a table that must not be rewritten (see `empty_plan`) and
    ConfigError for sizes that contradict one another."""
    if inventory.unsupported:
        raise errors.UnsupportedError(f"Table {inventory.table} is not rewritten: {'; '.join(inventory.unsupported)}.")
    sizes = resolve_sizes(inventory, policy)
    files, not_selected = candidates.data_files(inventory)
    wanted = np.ones(len(files.rows), np.bool_) if policy.rewrite_all else _candidates(files, policy, sizes)
    bins = packing.pack(files.take(wanted).in_reading_order(inventory), policy, sizes)
    decided = verdict.everything(bins) if policy.rewrite_all else _judge(bins, policy, sizes)
    chosen = selection.select(bins, decided, policy, sizes)
    left: Tally = {LeftOutReason.WELL_SIZED: files.bytes[~wanted]}
    for reason, mask in decided.left_out.items():
        sizes_left = bins.files.bytes[np.repeat(mask, bins.count)]
        left[reason] = np.concatenate([left.get(reason, sizes_left[:0]), sizes_left])
    left[LeftOutReason.NOT_SELECTED] = not_selected
    left[LeftOutReason.OVER_BUDGET] = bins.files.bytes[chosen.over_budget]
    if not (len(files.rows) or len(not_selected)):
        left[LeftOutReason.NO_DATA] = files.bytes
    return Plan(
        id=plan_id,
        table=inventory.table,
        created_ms=now_ms,
        pin=inventory.pin,
        policy=policy,
        sizes=sizes,
        groups=_groups(chosen, sizes),
        left_out=_left_out(left, policy, sizes),
        files=_plan_files(inventory.files, chosen.bins.files.rows),
    )


def empty_plan(inventory: Inventory, policy: Policy, *, plan_id: str, now_ms: int) -> Plan:
    """A plan that touches nothing, for a table that must not be rewritten but whose health is still of interest."""
    sizes = resolve_sizes(inventory, policy)
    files, not_selected = candidates.data_files(inventory)
    left: Tally = {LeftOutReason.UNSUPPORTED: files.bytes, LeftOutReason.NOT_SELECTED: not_selected}
    return Plan(
        id=plan_id,
        table=inventory.table,
        created_ms=now_ms,
        pin=inventory.pin,
        policy=policy,
        sizes=sizes,
        groups=(),
        left_out=_left_out(left, policy, sizes),
        files=PLAN_FILES.empty_table(),
    )


def resolve_sizes(inventory: Inventory, policy: Policy) -> Sizes:
    """The sizes in force for a table."""
    try:
        return policy_model.resolve_sizes(policy, inventory.properties)
    except ValueError as error:
        raise errors.ConfigError(f"The file sizes for table {inventory.table} make no sense: {error}.") from error


def _candidates(files: candidates.DataFiles, policy: Policy, sizes: Sizes) -> NDArray[np.bool_]:
    match policy.strategy:
        case Strategy.SMALL_FILES:
            return small_files.candidates(files, sizes)
        case Strategy.FULL:
            return full.candidates(files, sizes)
        case _:
            assert_never(policy.strategy)


def _judge(bins: packing.Bins, policy: Policy, sizes: Sizes) -> verdict.Verdict:
    match policy.strategy:
        case Strategy.SMALL_FILES:
            return small_files.judge(bins, policy, sizes)
        case Strategy.FULL:
            return full.judge(bins, policy, sizes)
        case _:
            assert_never(policy.strategy)


def _groups(chosen: selection.Selection, sizes: Sizes) -> tuple[FileGroup, ...]:
    bins, words = chosen.bins, explain.GroupWords(sizes)
    columns: list[list[Any]] = [
        array.tolist()
        for array in (bins.first, bins.count, bins.bytes, bins.records, bins.below, bins.above, bins.outputs, bins.keys)
    ]
    groups = []
    for number, row in enumerate(zip(*columns, chosen.reasons, strict=True)):
        first, count, total, records, below, above, outputs, key, reason = row
        spec_id, where = bins.files.partition_of(key)
        group = FileGroup(
            id=number,
            spec_id=spec_id,
            partition=where,
            first=first,
            files=count,
            bytes=total,
            records=records,
            outputs=outputs,
            reason=reason,
            sentence=words.sentence(where, reason, count, total, (below, above, outputs)),
        )
        groups.append(group)
    return tuple(groups)


def _left_out(left: Tally, policy: Policy, sizes: Sizes) -> tuple[LeftOut, ...]:
    """One entry per reason that applies, in the order of the enum so that equal plans are equal."""
    found = []
    for reason in LeftOutReason:
        sized = left.get(reason)
        if sized is None or not (len(sized) or reason is LeftOutReason.NO_DATA):
            continue
        count, total = len(sized), int(sized.sum())
        sentence = explain.left_out(reason, count, total, policy, sizes)
        found.append(LeftOut(reason=reason, files=count, bytes=total, sentence=sentence))
    return tuple(found)


def _plan_files(files: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    taken: pa.Table = files.select(PLAN_FILES.names).take(pa.array(rows))
    return taken.cast(PLAN_FILES)
