"""The answer to "has a plan anything to do?" without the plan: no file is sorted unless its partition is too large for
one group. Health asks this of every table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.plan import decide_bins, plan_request, selection

if TYPE_CHECKING:
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.table_view import TableView


def needs_work(view: TableView, policy: Policy) -> bool:
    """Whether `build` would make a plan that is not empty. Never for a table that must not be rewritten."""
    return needs_rewrite(view, policy) or (view.useless_deletes > 0 and not view.unsupported)


def needs_rewrite(view: TableView, policy: Policy) -> bool:
    """Whether `build` would make a plan with groups."""
    if view.unsupported:
        return False
    request = plan_request.resolve(view, policy)
    decision = decide_bins.decide(request)
    needed = bool(decision.verdict.kept.any())
    if policy.max_files_to_rewrite is None and policy.max_bytes_to_rewrite is None:
        return needed
    # A budget smaller than the first group may leave nothing to gain.
    return needed and len(selection.select(decision, request).first) > 0
