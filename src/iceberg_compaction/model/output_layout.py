"""How a rewrite lays out its output files, beside their sizes. A strategy decides it, the plan stores it, and execution
follows it without knowing the strategy."""

from __future__ import annotations

from enum import Enum

from iceberg_compaction.model import row_order_terms
from iceberg_compaction.model.policies import Sizes
from iceberg_compaction.model.row_order_terms import Terms
from iceberg_compaction.model.value import Value


class RowOrder(str, Enum):
    """The order of rows in output files. Closed set."""

    TABLE = "table-sort-order"  # by the table's sort order, if it has one
    INPUT = "input-order"  # rows keep the order of the inputs
    # By `sort_terms`, over the whole group: one task sorts all its rows, so the ranges of its files do not overlap.
    GIVEN = "given-order"


class OutputLayout(Value):
    """The partition spec and the row order of output files."""

    keep_spec: bool = False  # outputs keep the spec and the partition of their inputs; else the table's current spec
    row_order: RowOrder = RowOrder.TABLE
    sort_terms: Terms = ()  # of RowOrder.GIVEN
    cold: Sizes | None = None  # sizes for groups whose reason is `cold`; None: as all others

    @property
    def sentence(self) -> str:
        """What rows are sorted by; empty unless the layout itself says."""
        if self.row_order is not RowOrder.GIVEN:
            return ""
        return f"Rows are sorted by {row_order_terms.text(self.sort_terms)}, each group as a whole by one task."
