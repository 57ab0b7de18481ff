"""How urgent the work on a table is: gain for cost, from the few figures of its last look. Small files and delete files
are what readers gain, bytes are what a rewrite costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iceberg_compaction.model.run_figures import TableFigures

LEAST, USUAL, MOST = 1, 5, 8  # 9 is for people in a hurry, 0 for what can wait
_MIB = 1 << 20
_FULL_SCALE = 2.0  # ten times the gain for the same cost is worth so many priorities


def priority(figures: TableFigures | None) -> int:
    """The priority of work on a table; without figures the usual one."""
    if figures is None:
        return USUAL
    troubles = figures.small_files + figures.delete_files
    if not troubles:
        return LEAST
    rewritten = min(figures.bytes, troubles * max(1, figures.target_file_bytes or figures.mean_file_bytes))
    gain_for_cost = troubles / (1 + rewritten / (16 * _MIB))
    return max(LEAST, min(MOST, LEAST + round(_FULL_SCALE * math.log10(1 + gain_for_cost))))
