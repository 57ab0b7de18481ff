"""The planner's entry: what would be done to one table, and why. An inventory and a policy come in, a `Plan` goes out.
Pure: no I/O, no clock, no randomness; the same input gives the same plan."""

from __future__ import annotations

import os
from concurrent import futures
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.model.copy_plan import Rates
from iceberg_compaction.model.rewrite_plan import PLAN_FILES, PLAN_GROUPS, Groups, LeftOut, LeftOutReason, Plan
from iceberg_compaction.plan import copy_or_encode, decide_bins, explain, respec, selection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Policy, Sizes
    from iceberg_compaction.model.table_view import TableView


_ASSUMED = Rates()
_AT_ONCE = 1 << 16  # paths


def build(view: TableView, policy: Policy, *, plan_id: str, now_ms: int, rates: Rates = _ASSUMED) -> Plan:
    """The plan for a table. `rates`: how fast copying and encoding were in earlier runs. Raises UnsupportedError for a
    table that must not be rewritten (see `empty_plan`) and ConfigError for sizes that contradict one another."""
    check(view, policy)
    sizes = decide_bins.resolve_sizes(view, policy)
    decided = decide_bins.decide(view, policy, sizes)
    chosen = selection.select(decided, policy, sizes, view)
    files = _plan_files(view.files, decided, chosen)
    weighed = copy_or_encode.weigh(view, policy, rates)
    expected = copy_or_encode.expect(view, policy, weighed, decided.files.rows[chosen.positions], chosen.first)
    expected |= respec.expect(view, decided.files, chosen, sizes)
    groups = pa.table(_plan_groups(view, decided, chosen, files) | expected, schema=PLAN_GROUPS)
    weighed = weighed.of(groups)
    left = decided.left | {LeftOutReason.OVER_BUDGET: chosen.over_budget}
    return Plan(
        id=plan_id,
        table=view.table,
        created_ms=now_ms,
        pin=view.pin,
        policy=policy,
        sizes=sizes,
        copying=weighed,
        groups=Groups(groups, sizes, weighed),
        left_out=_left_out(left, len(files), policy, sizes),
        files=files,
        useless_deletes=view.useless_deletes,
    )


def check(view: TableView, policy: Policy) -> None:
    """Raises UnsupportedError for a table that must not be rewritten, or not by this policy."""
    if view.unsupported:
        raise errors.UnsupportedError(f"Table {view.table} is not rewritten: {'; '.join(view.unsupported)}.")
    _check_specs(view, policy)


def empty_plan(view: TableView, policy: Policy, *, plan_id: str, now_ms: int) -> Plan:
    """A plan that touches nothing, for a table that must not be rewritten but whose health is still of interest."""
    sizes = decide_bins.resolve_sizes(view, policy)
    groups = PLAN_GROUPS.empty_table()
    weighed = copy_or_encode.weigh(view, policy, _ASSUMED).of(groups)
    return Plan(
        id=plan_id,
        table=view.table,
        created_ms=now_ms,
        pin=view.pin,
        policy=policy,
        sizes=sizes,
        copying=weighed,
        groups=Groups(groups, sizes, weighed),
        left_out=_left_out(decide_bins.untouched(view, policy), 0, policy, sizes),
        files=PLAN_FILES.empty_table(),
    )


def _plan_files(files: pa.Table, decided: decide_bins.Decision, chosen: selection.Selection) -> pa.Table:
    rows = decided.files.rows[chosen.positions]
    columns = {
        "file_path": _take(files["file_path"], rows),
        "file_size_in_bytes": decided.files.bytes[chosen.positions],
        "record_count": files["record_count"].to_numpy()[rows],
    }
    return pa.table(columns, schema=PLAN_FILES)


def _take(texts: pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.ChunkedArray:
    """The texts of some rows, by several cores: a million paths are what most of a plan's time goes into."""
    starts = range(0, len(rows), _AT_ONCE)
    with futures.ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="plan") as pool:
        parts = list(pool.map(lambda start: texts.take(pa.array(rows[start : start + _AT_ONCE])), starts))
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], texts.type)


def _plan_groups(
    view: TableView, decided: decide_bins.Decision, chosen: selection.Selection, files: pa.Table
) -> dict[str, Any]:
    """The columns of PLAN_GROUPS but for those about copying and outputs."""
    files_of, homes = decided.files, decided.files.homes[chosen.positions[chosen.first]]
    sections = respec.sections(files_of, chosen.positions, chosen.first)
    several = pc.greater(sections.value_lengths(), 0)
    reasons = list(decided.verdict.rewritten)
    reason_of = np.argmax([decided.verdict.rewritten[reason][chosen.bins] for reason in reasons], axis=0)
    return {
        "id": np.arange(len(homes)),
        "spec_id": files_of.partitions.spec_ids[homes],
        "partition": pc.if_else(several, "{}", files_of.partitions.texts_of(homes)),
        "sections": sections,
        "first": chosen.first,
        "files": chosen.count,
        "bytes": chosen.bytes,
        "records": selection.sums(files["record_count"].to_numpy(), chosen.first),
        "small_files": chosen.below,
        "large_files": chosen.above,
        **{name: _deletes(getattr(view, name), decided, chosen) for name in ("delete_files", "deleted_rows")},
        "reason": pa.array([reason.value for reason in reasons]).take(pa.array(reason_of)),
    }


def _deletes(
    column: pa.Int64Array | None, decided: decide_bins.Decision, chosen: selection.Selection
) -> NDArray[np.int64]:
    """The sum of a column about deletes for each group."""
    if column is None:
        return np.zeros(len(chosen.first), np.int64)
    return selection.sums(column.to_numpy()[decided.files.rows[chosen.positions]], chosen.first)


def _check_specs(view: TableView, policy: Policy) -> None:
    """Files of a spec whose source column is gone can move to the current spec, but no new file can have theirs."""
    lost = sorted(view.unwritable_specs) if policy.keep_spec else []
    if lost and np.isin(view.files["spec_id"].to_numpy(), lost).any():
        raise errors.UnsupportedError(
            f"Table {view.table} is not rewritten: keep-spec asks for files in partition specs whose source "
            f"column the table no longer has ({', '.join(map(str, lost))}); leave keep-spec out."
        )


def _left_out(left: decide_bins.Tally, planned: int, policy: Policy, sizes: Sizes) -> tuple[LeftOut, ...]:
    """One entry per reason that applies, in the order of the enum so that equal plans are equal."""
    found = {reason: left[reason] for reason in LeftOutReason if left.get(reason, (0, 0))[0]}
    if not found and not planned and LeftOutReason.UNSUPPORTED not in left:
        found[LeftOutReason.NO_DATA] = (0, 0)
    return tuple(
        LeftOut(reason=reason, files=count, bytes=total, sentence=explain.left_out(reason, count, total, policy, sizes))
        for reason, (count, total) in found.items()
    )
