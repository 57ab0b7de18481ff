"""Strategy `sort`: sorts the rows of partitions by the table's sort order, or by the columns of the option sort-order.

Candidates: files that are not sorted, or overlap others, and files of a wrong size next to them; see
plan/strategies/ordering/ordered.py for units, groups and the fixed point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.model import policies, row_order_terms
from iceberg_compaction.plan.strategies import by_policy, delete_thresholds, rewrite_strategy
from iceberg_compaction.plan.strategies.ordering import ordered

if TYPE_CHECKING:
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.table_shape import TableShape
    from iceberg_compaction.plan.strategies.rewrite_strategy import RowsBy


def rows_by(shape: TableShape, policy: Policy) -> RowsBy:
    if policy.sort_order is not None:
        terms = shape.bind(row_order_terms.parse(policy.sort_order), "sort-order")
    elif shape.sort_order:
        terms = shape.sort_order
    else:
        raise rewrite_strategy.NoOrderError("it has no sort order that can be followed; name columns with sort-order")
    return rewrite_strategy.RowsBy(terms=terms, measured=ordered.measured(terms, shape.constant))


STRATEGY = rewrite_strategy.RewriteStrategy(
    choose=ordered.choose,
    group=ordered.group,
    judge=ordered.judge,
    gains=ordered.gains,
    order=by_policy.order,
    sizes=policies.resolve_sizes,
    layout=by_policy.layout,
    delete_thresholds=delete_thresholds.of_policy,
    explain=ordered.explain,
    rows_by=rows_by,
)
