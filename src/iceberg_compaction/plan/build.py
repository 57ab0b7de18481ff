"""The planner's entry. The view of a table and a policy come in, a `Plan` goes out, or an `EmptyPlan` with the reasons.
Pure: no I/O, no clock, no randomness; the same input gives the same plan."""

from __future__ import annotations

import os
from concurrent import futures
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.model import writer_check
from iceberg_compaction.model.copy_plan import Rates
from iceberg_compaction.model.rewrite_plan import (
    PLAN_FILES,
    PLAN_GROUPS,
    Draft,
    EmptyPlan,
    GroupReason,
    LeftOut,
    LeftOutReason,
    Plan,
)
from iceberg_compaction.plan import (
    copy_or_encode,
    decide_bins,
    explain,
    output_counts,
    plan_request,
    respec,
    selection,
    slice_sums,
)
from iceberg_compaction.plan.costs import cost_model, group_costs
from iceberg_compaction.plan.triggers import partition_scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.copy_plan import Copying
    from iceberg_compaction.model.plan_cost import Budget, PlanCost
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.plan_request import PlanRequest

_ASSUMED = Rates()
_PATHS_PER_TASK = 1 << 16
_BUDGET_ROUNDS = 5


def build(
    view: TableView,
    policy: Policy,
    *,
    plan_id: str,
    now_ms: int,
    rates: Rates = _ASSUMED,
    budget: Budget | None = None,
) -> Plan | EmptyPlan:
    """The plan for a table. `rates`: speeds of copying and encoding in earlier runs. `budget`: what the run may cost;
    by default the policy's max-cost. Raises UnsupportedError for a table that must not be rewritten and ConfigError
    for sizes that cannot be used."""
    request = plan_request.resolve(view, policy)
    request = request if budget is None else replace(request, budget=budget.dollars, budget_words=budget.words)
    return build_request(request, plan_id=plan_id, now_ms=now_ms, rates=rates)


def build_request(request: PlanRequest, *, plan_id: str, now_ms: int, rates: Rates = _ASSUMED) -> Plan | EmptyPlan:
    """The plan for a request, whatever its strategy."""
    check(request)
    request = replace(request, rates=rates, now_ms=now_ms)
    view = request.view
    decision = decide_bins.decide(request)
    request = decision.request
    weighed = copy_or_encode.weigh(request, rates)
    chosen, files, groups = _groups(decision, weighed)
    scores = None if decision.triggers is None else partition_scores.highest(decision.triggers, view.past)
    waiting = decision.left_out.get(LeftOutReason.OVER_BUDGET, (0, 0))
    over_budget = (waiting[0] + chosen.over_budget[0], waiting[1] + chosen.over_budget[1])
    left_out = decision.left_out | {LeftOutReason.OVER_BUDGET: over_budget}
    ways = request.strategy.ways
    return Draft(
        id=plan_id,
        table=view.table,
        created_ms=now_ms,
        pin=view.pin,
        policy=request.policy,
        sizes=request.sizes,
        layout=request.layout,
        copying=weighed,
        groups=groups,
        left_out=_left_out(left_out, len(files), decision),
        files=files,
        useless_deletes=view.useless_deletes,
        maintainers=view.maintainers,
        cost=_basis(request),
        notes=_notes(request),
        partition_scores=scores or (),
        deletes=() if ways is None else ways.entries,
    ).plan()


def _notes(request: PlanRequest) -> tuple[str, ...]:
    guard, options = request.guard, request.policy.write_options
    notes = () if guard is None or guard.declines else (guard.note,)
    return (*notes, writer_check.note(options)) if options else notes


def _basis(request: PlanRequest) -> PlanCost:
    """The basis of the estimates, with what merged and converted delete files cost, which the budget was charged."""
    based, ways = cost_model.basis(request), request.strategy.ways
    if ways is None:
        return based
    budget = None if based.budget is None else based.budget + ways.cost
    return based.model_copy(
        update={"budget": budget, "exchange_cost": ways.cost, "exchange_saving": ways.saving},
    )


def _groups(decision: decide_bins.Decision, weighed: Copying) -> tuple[selection.Selection, pa.Table, pa.Table]:
    """The groups within the budgets: as a selection, their files, and as columns. Rows that move to another partition
    spec may become more files than bins show, so that the money for them is counted again."""
    budget = decision.request.budget
    for _ in range(_BUDGET_ROUNDS):
        chosen = selection.select(decision, decision.request)
        files, columns = _columns(decision, chosen, weighed)
        spent = float(columns["cost"].sum())
        if budget is None or spent <= budget:
            break
        less = (decision.request.budget or 0.0) * 0.95 * budget / spent
        decision = replace(decision, request=replace(decision.request, budget=less))
    else:
        decision = replace(decision, request=replace(decision.request, budget=0.0))
        chosen = selection.select(decision, decision.request)
        files, columns = _columns(decision, chosen, weighed)
    return chosen, files, pa.table(columns, schema=PLAN_GROUPS)


def _columns(
    decision: decide_bins.Decision, chosen: selection.Selection, weighed: Copying
) -> tuple[pa.Table, dict[str, Any]]:
    """The files of the groups, and their columns of PLAN_GROUPS."""
    request, candidates = decision.request, decision.packing.files
    files = _plan_files(request.view.files, candidates, chosen)
    columns = _plan_groups(request.view, decision, chosen, files)
    columns |= copy_or_encode.expect(request, weighed, candidates.rows[chosen.positions], chosen.first)
    columns |= respec.expect(candidates, chosen, request)
    columns["outputs"] = _outputs(decision, chosen, request, columns["outputs"])
    keys = decision.packing.bins.packing_key[chosen.bins]
    freed = chosen.bytes - slice_sums.sums(candidates.live[chosen.positions], chosen.first)
    seconds = group_costs.key_seconds(candidates.rows[chosen.positions], chosen.first, request)
    deletes = group_costs.GroupDeletes(freed=freed, key_seconds=seconds)
    columns |= group_costs.of_columns(columns, deletes, keys, request).columns()
    choices = request.strategy.choices
    columns["choice"] = pa.array([""] * len(keys)) if choices is None else choices.sentences_of(keys)
    return files, columns


def check(request: PlanRequest) -> None:
    """Raises UnsupportedError for a table that must not be rewritten, or not in this layout."""
    view = request.view
    if view.unsupported:
        reasons = "; ".join(reason.rstrip(".") for reason in view.unsupported)
        raise errors.UnsupportedError(f"Table {view.table} is not rewritten: {reasons}.")
    _check_specs(request)


def _plan_files(files: pa.Table, candidates: CandidateFiles, chosen: selection.Selection) -> pa.Table:
    rows = candidates.rows[chosen.positions]
    columns = {
        "file_path": _take(files["file_path"], rows),
        "file_size_in_bytes": candidates.bytes[chosen.positions],
        "record_count": files["record_count"].to_numpy()[rows],
    }
    return pa.table(columns, schema=PLAN_FILES)


def _take(texts: pa.ChunkedArray, rows: NDArray[np.int64]) -> pa.ChunkedArray:
    """The texts of these rows, taken by several cores: the paths take most of the time of a large plan."""
    starts = range(0, len(rows), _PATHS_PER_TASK)
    with futures.ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="plan") as pool:
        parts = list(pool.map(lambda start: texts.take(pa.array(rows[start : start + _PATHS_PER_TASK])), starts))
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], texts.type)


def _plan_groups(
    view: TableView, decision: decide_bins.Decision, chosen: selection.Selection, files: pa.Table
) -> dict[str, Any]:
    """The columns of PLAN_GROUPS except those about copying and outputs."""
    candidates, rewritten = decision.packing.files, decision.verdict.rewritten
    partitions = candidates.partition[chosen.positions[chosen.first]]
    sections = respec.sections(candidates, chosen.positions, chosen.first)
    several = pc.greater(sections.value_lengths(), 0)
    reason_of = np.argmax([mask[chosen.bins] for mask in rewritten.values()], axis=0)
    rows = candidates.rows[chosen.positions]
    return {
        "id": np.arange(len(partitions)),
        "spec_id": candidates.numbering.spec_ids[partitions],
        "partition": pc.if_else(several, "{}", candidates.numbering.texts_of(partitions)),
        "sections": sections,
        "first": chosen.first,
        "files": chosen.count,
        "bytes": chosen.bytes,
        "records": slice_sums.sums(files["record_count"].to_numpy(), chosen.first),
        "small_files": chosen.below,
        "large_files": chosen.above,
        "delete_files": _sums(view.delete_files, rows, chosen.first),
        "deleted_rows": _sums(view.deleted_rows, rows, chosen.first),
        "reason": pa.array([reason.value for reason in rewritten]).take(pa.array(reason_of)),
        "triggers": [""] * len(partitions) if decision.triggers is None else decision.triggers.names(partitions),
    }


def _outputs(
    decision: decide_bins.Decision, chosen: selection.Selection, request: PlanRequest, outputs: list[int]
) -> list[int]:
    """The expected files of each group, with the sizes of cold partitions where these hold."""
    cold = decision.verdict.rewritten.get(GroupReason.COLD)
    if request.layout.cold is None or cold is None:
        return outputs
    live = slice_sums.sums(decision.packing.files.live[chosen.positions], chosen.first)
    counts = output_counts.output_counts(live, request.layout.cold)
    expected: list[int] = np.where(cold[chosen.bins], counts, outputs).tolist()
    return expected


def _sums(column: pa.Int64Array | None, rows: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of a column about deletes for each group; zeros for a table without deletes."""
    return np.zeros(len(first), np.int64) if column is None else slice_sums.sums(column.to_numpy()[rows], first)


def _check_specs(request: PlanRequest) -> None:
    """Files of a spec whose source column is gone can move to the current spec, but no new file can have theirs."""
    view, wanted = request.view, request.policy.output_spec_id
    if wanted is not None and view.pin is not None and (wanted != view.pin.spec_id or request.layout.keep_spec):
        raise errors.ConfigError(
            f"Table {view.table} is not rewritten: output-spec-id is {wanted}, but new files have the table's current "
            f"partition spec {view.pin.spec_id}, or with keep-spec that of their inputs; leave one of them out."
        )
    lost = sorted(view.unwritable_specs) if request.layout.keep_spec else []
    if lost and np.isin(view.files["spec_id"].to_numpy(), lost).any():
        raise errors.UnsupportedError(
            f"Table {view.table} is not rewritten: keep-spec needs files in partition specs whose source column the "
            f"table no longer has ({', '.join(map(str, lost))}); leave keep-spec out."
        )


def _left_out(tally: decide_bins.Tally, planned: int, decision: decide_bins.Decision) -> tuple[LeftOut, ...]:
    """One entry per reason that applies, in the order of the enum so that equal plans are equal."""
    request = decision.request
    reasons = {reason: tally[reason] for reason in LeftOutReason if tally.get(reason, (0, 0))[0]}
    if not reasons and not planned and LeftOutReason.UNSUPPORTED not in tally:
        reasons[LeftOutReason.NO_DATA] = (0, 0)
    return tuple(
        LeftOut(
            reason=reason,
            files=count,
            bytes=total,
            sentence=explain.left_out(reason, count, total, request, triggers=decision.triggers)
            + decision.words_of(reason),
        )
        for reason, (count, total) in reasons.items()
    )
