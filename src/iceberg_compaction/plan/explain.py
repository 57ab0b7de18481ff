"""Sentences for every reason to leave files alone. Figures come in, words go out; sentences have no full stop, because
they are also joined into longer ones. A strategy words its own reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.model import byte_size, plurals
from iceberg_compaction.model.rewrite_plan import LeftOutReason
from iceberg_compaction.plan.triggers import trigger_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.triggers.trigger_check import TriggerCheck

_MOST_NAMED = 3  # runs


def left_out(
    reason: LeftOutReason, count: int, total: int, request: PlanRequest, *, triggers: TriggerCheck | None = None
) -> str:
    """The reason why `count` files of `total` bytes are left alone."""
    files = f"{plurals.count(count, 'file')} ({byte_size.format_size(total)})"
    be, where = plurals.form(count, "is", "are"), request.policy.where
    match reason:
        case LeftOutReason.NOT_SELECTED:
            return f"{files} cannot hold rows that match the filter" + (f" {where}" if where else "")
        case LeftOutReason.LEASED:
            return f"{files} {be} in partitions that another run is working on ({_lessees(request)})"
        case LeftOutReason.MAINTAINED:
            words = "; ".join(each.words for each in request.view.maintainers)
            return f"{files} {be} left to another maintainer ({words}), because others is yield"
        case LeftOutReason.NOT_TRIGGERED if triggers is not None:
            return f"{files} {trigger_check.sentence(triggers, count)}"
        case LeftOutReason.READ_PARALLELISM if request.guard is not None:
            return f"{files} {be} left as small as {plurals.form(count, 'it is', 'they are')}: {request.guard.reason}"
        case LeftOutReason.OVER_BUDGET:
            verb = plurals.form(count, "waits", "wait")
            return f"{files} {verb} for another run, because {' and '.join(_budgets(request))}"
        case LeftOutReason.NOT_WORTH:
            verb = plurals.form(count, "costs", "cost")
            return f"{files} {verb} more to rewrite than that is expected to save"
        case LeftOutReason.NO_DATA:
            return "The table has no data files"
        case LeftOutReason.UNSUPPORTED:
            return f"{files} {be} not touched, because the table is not supported"
        case _:
            by_filter = _filtered(reason, count, request.policy)
            return f"{files} {by_filter or request.strategy.explain(reason, count, request)}"


def _filtered(reason: LeftOutReason, count: int, policy: Policy) -> str | None:
    """The predicate for files that a filter rules out; None: it was none of the filters."""
    be = plurals.form(count, "is", "are")
    match reason:
        case LeftOutReason.OTHER_PARTITION:
            return f"{be} in other partitions than {', '.join(policy.partition)}"
        case LeftOutReason.CURRENT_SPEC:
            return f"{be} of the current partition spec, because of only-old-spec"
        case LeftOutReason.UNCHANGED:
            return f"{be} in partitions that nothing was added to since {policy.changed_since}"
        case LeftOutReason.TOO_YOUNG:
            return f"{plurals.form(count, 'was', 'were')} added less than {policy.min_file_age} ago"
        case LeftOutReason.LATER_SEQUENCE:
            have = plurals.form(count, "has a file sequence number", "have file sequence numbers")
            return f"{have} above {policy.max_file_sequence_number}"
        case LeftOutReason.COLD:
            return f"{be} in a cold tier of the store, and rewrite-cold-tiers is off"
        case _:
            return None


def _lessees(request: PlanRequest) -> str:
    named, more = request.view.lessees[:_MOST_NAMED], len(request.view.lessees) - _MOST_NAMED
    return "; ".join([*named, *([f"{more} more"] if more > 0 else [])])


def _budgets(request: PlanRequest) -> Iterator[str]:
    policy = request.policy
    if request.budget_words:
        yield request.budget_words
    if policy.max_files_to_rewrite is not None:
        yield f"max-files-to-rewrite is {policy.max_files_to_rewrite}"
    if policy.max_bytes_to_rewrite is not None:
        yield f"max-bytes-to-rewrite is {byte_size.format_size(policy.max_bytes_to_rewrite)}"
