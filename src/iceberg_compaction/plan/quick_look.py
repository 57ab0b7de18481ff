"""The work that a plan would have, without the plan: no file is sorted unless its partition is too large for one group.
Health asks this of every table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.plan import decide_bins, plan_request, selection

if TYPE_CHECKING:
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.table_view import TableView


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedWork:
    """What a plan would rewrite and drop."""

    files: int = 0
    bytes: int = 0
    useless_deletes: int = 0  # delete files that go without any data file
    exchanged_deletes: int = 0  # delete files that are merged or converted

    @property
    def empty(self) -> bool:
        return not self.files and not self.useless_deletes and not self.exchanged_deletes


def expect(view: TableView, policy: Policy) -> ExpectedWork:
    """The work of the plan that `build` would make. None for a table that must not be rewritten."""
    if view.unsupported:
        return ExpectedWork()
    request = plan_request.resolve(view, policy)
    decision = decide_bins.decide(request)
    kept, bins = decision.verdict.kept, decision.packing.bins
    count, size = bins.count[kept], bins.bytes[kept]
    budgets = (policy.max_files_to_rewrite, policy.max_bytes_to_rewrite, request.budget)
    if len(count) and any(budget is not None for budget in budgets):
        # A budget smaller than the first group may leave nothing to gain.
        chosen = selection.select(decision, decision.request)
        count, size = chosen.count, chosen.bytes
    ways = decision.request.strategy.ways
    return ExpectedWork(
        files=int(count.sum()),
        bytes=int(size.sum()),
        useless_deletes=view.useless_deletes,
        exchanged_deletes=0 if ways is None else sum(each.delete_files for each in ways.entries if each.exchanged),
    )


def needs_work(view: TableView, policy: Policy) -> bool:
    """Whether `build` would make a plan that is not empty."""
    return not expect(view, policy).empty
