"""The partitions that triggers ask for. A planning request comes in; out go the triggers that fire in each partition,
and in words why they do or do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import plurals
from iceberg_compaction.plan.triggers import decision_table, measures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.triggers.decision_table import TriggerRule
    from iceberg_compaction.plan.triggers.measures import PartitionMeasures


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerCheck:
    """The triggers of a policy against the partitions of a table."""

    measures: PartitionMeasures
    rules: tuple[tuple[TriggerRule, float], ...]
    fired: NDArray[np.bool_]  # two dimensions: rule, partition number

    @property
    def wanted(self) -> NDArray[np.bool_]:
        """The mask of partition numbers that a trigger asks for."""
        wanted: NDArray[np.bool_] = np.logical_or.reduce(self.fired, axis=0)
        return wanted

    def names(self, partitions: NDArray[np.int64]) -> list[str]:
        """For each of these partition numbers the triggers that fired, joined."""
        texts: dict[bytes, str] = {}
        for partition in partitions.tolist():
            column = self.fired[:, partition]
            texts.setdefault(
                column.tobytes(), ", ".join(rule.name for (rule, _), hit in zip(self.rules, column, strict=True) if hit)
            )
        return [texts[self.fired[:, partition].tobytes()] for partition in partitions.tolist()]

    def comparisons(self, partition: int) -> list[str]:
        """Every comparison that fired in one partition, with its figures."""
        return [
            rule.words(float(self.measures.columns[rule.measure][partition]), threshold)
            for (rule, threshold), hit in zip(self.rules, self.fired[:, partition], strict=True)
            if hit
        ]

    def nearest(self) -> str:
        """For partitions that no trigger asks for: the value of each measure that comes nearest to its threshold."""
        quiet = self.measures.has_data & ~self.wanted
        return "; ".join(filter(None, (self._nearest(rule, threshold, quiet) for rule, threshold in self.rules)))

    def _nearest(self, rule: TriggerRule, threshold: float, quiet: NDArray[np.bool_]) -> str:
        values = self.measures.columns[rule.measure][quiet]
        values = values[~np.isnan(values)]
        if not len(values):
            return ""
        extreme = float(values.min() if rule.sign == "<" else values.max())
        word = "at least" if rule.sign == "<" else "at most"
        several = f"{word} " if len(values) > 1 else ""
        return (
            f"{rule.label} {several}{rule.unit.text(extreme)}, not {rule.sign} {rule.name} {rule.unit.text(threshold)}"
        )


def check(request: PlanRequest) -> TriggerCheck | None:
    """The check of a request; None: the policy has no triggers, and every partition is planned."""
    triggers = request.policy.triggers
    if not triggers.active:
        return None
    measured = measures.measure(request.view, request.sizes, triggers)
    rules = decision_table.active(triggers)
    fired = [rule.fires(measured.columns[rule.measure], threshold) for rule, threshold in rules]
    shape = (len(rules), len(measured.numbering))
    return TriggerCheck(measures=measured, rules=rules, fired=np.array(fired, np.bool_).reshape(shape))


def sentence(outcome: TriggerCheck, count: int) -> str:
    """The predicate of a sentence about files that no trigger asks for."""
    lie = plurals.form(count, "lies", "lie")
    nearest = outcome.nearest()
    return f"{lie} in partitions that no trigger asks for" + (f" ({nearest})" if nearest else "")
