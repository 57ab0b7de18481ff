"""Strategy `dimensional`: clusters rows by the columns that queries filter by, so that readers skip files.

The columns are those of cluster-by or, without it, those that partitioning and sort order suggest: sources of partition
fields that still vary inside a partition, then the columns of the sort order. Rows are sorted by them one after the
other, the first one first; a curve through all dimensions at once (z-order) needs a shuffle, which there is not yet.
Candidates, groups and fixed point: as `sort`, see plan/strategies/ordering/ordered.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.plan.strategies import rewrite_strategy, sort
from iceberg_compaction.plan.strategies.ordering import ordered

if TYPE_CHECKING:
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.row_order_terms import Terms
    from iceberg_compaction.model.table_shape import TableShape
    from iceberg_compaction.plan.strategies.rewrite_strategy import RowsBy

_USELESS = ("identity", "void")  # transforms whose source does not vary in a partition, or says nothing


def rows_by(shape: TableShape, policy: Policy) -> RowsBy:
    terms = tuple(shape.ascending(name, "cluster-by") for name in policy.cluster_by) or _suggested(shape)
    if not terms:
        raise rewrite_strategy.NoOrderError(
            "neither its partitioning nor a sort order suggests columns; name them with cluster-by"
        )
    if len({term.column for term in terms}) < len(terms):
        raise ValueError("cluster-by names a column twice")
    return rewrite_strategy.RowsBy(terms=terms, measured=ordered.measured(terms, shape.constant))


def _suggested(shape: TableShape) -> Terms:
    """A column of the sort order is sorted as there."""
    sources = [field.column for field in shape.partition if field.transform not in _USELESS]
    by_order = {term.column: term for term in shape.sort_order if term.transform == "identity"}
    names = dict.fromkeys([*sources, *by_order])
    constant = {column for column, transform in shape.constant if transform == "identity"}
    return tuple(
        by_order[name] if name in by_order else shape.ascending(name, "cluster-by")
        for name in names
        if name not in constant and shape.column(name) is not None
    )


STRATEGY = rewrite_strategy.RewriteStrategy(
    choose=ordered.choose,
    group=ordered.group,
    judge=ordered.judge,
    gains=ordered.gains,
    order=sort.STRATEGY.order,
    sizes=sort.STRATEGY.sizes,
    layout=sort.STRATEGY.layout,
    delete_thresholds=sort.STRATEGY.delete_thresholds,
    explain=ordered.explain,
    rows_by=rows_by,
)
