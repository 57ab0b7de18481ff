"""The extremes of measures over all partitions of a table, for its stored health. Measures come in, a small value goes
out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model.run_figures import PartitionExtremes
from iceberg_compaction.plan.triggers import decision_table

if TYPE_CHECKING:
    from iceberg_compaction.model.policies import Sizes
    from iceberg_compaction.model.triggers import Triggers
    from iceberg_compaction.plan.triggers.measures import PartitionMeasures


def of(measured: PartitionMeasures, sizes: Sizes, triggers: Triggers, now_ms: int) -> PartitionExtremes:
    """The extremes of a table whose measures were taken with these sizes and triggers."""
    values: dict[str, float] = {}
    oldest_ms: dict[str, int | None] = {}
    for rule in decision_table.TABLE:
        column = measured.columns[rule.measure]
        column = column[~np.isnan(column)]
        if not len(column):
            continue
        extreme = float(column.min() if rule.sign == "<" else column.max())
        if not rule.is_timed:
            values[rule.measure] = round(extreme, 4)
        else:
            oldest_ms[rule.measure] = None if np.isinf(extreme) else round(now_ms - 1000 * extreme)
    return PartitionExtremes(
        small_file_bytes=decision_table.small_file_bytes(triggers),
        target_bytes=sizes.target,
        fragment_size_divisor=triggers.fragment_size_divisor,
        min_target_size_ratio=triggers.min_target_size_ratio,
        values=values,
        oldest_ms=oldest_ms,
    )
