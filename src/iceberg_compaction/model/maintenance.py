"""The upkeep of one table as a whole: the steps that were done, in their order, and the outcome of each."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

from iceberg_compaction import errors
from iceberg_compaction.model.outcome import Kind, Outcome
from iceberg_compaction.model.value import Value


class MaintenanceStep(str, Enum):
    """The steps, in the one order that is safe: a tag protects a snapshot before others expire, rows past their time go
    before files are rewritten, statistics are of what is left then, and orphans are looked for when nothing else writes
    any more. What dead runs left is removed before the first step, by every step itself."""

    TAGS = "tags"
    EXPIRE = "expire"
    TTL = "ttl"
    DELETES = "deletes"
    REWRITE = "rewrite"
    MANIFESTS = "manifests"
    STATISTICS = "statistics"
    ORPHANS = "orphans"


def named_steps(given: Any) -> tuple[MaintenanceStep, ...]:
    """The steps that somebody names, as a list or as one text. ConfigError: they are none."""
    names = given.split(",") if isinstance(given, str) and given else given or []
    try:
        # A number or a truth value is a mistake: to take it for "nothing named" would do all that the policy asks for.
        if not isinstance(names, list | tuple) or isinstance(given, bool | float | int | dict):
            raise ValueError
        return tuple(MaintenanceStep(str(name).strip()) for name in names)
    except ValueError:
        steps = ", ".join(step.value for step in MaintenanceStep)
        raise errors.ConfigError(f"{names!r} are no steps of upkeep; the steps are {steps}.") from None


class StepOutcome(Value):
    """What became of one step."""

    step: MaintenanceStep
    outcome: Outcome


class TableMaintenance(Value):
    """What was done to one table."""

    kind: Literal["maintenance"] = "maintenance"
    table: str
    steps: tuple[StepOutcome, ...] = ()

    def __repr__(self) -> str:
        return self._line(self.table, self.sentence)

    __str__ = __repr__

    @property
    def sentence(self) -> str:
        """The steps and how each ended."""
        return ", ".join(f"{each.step.value} {each.outcome.kind.value}" for each in self.steps) or "no step was due"

    @property
    def ok(self) -> bool:
        """Nothing failed. A table or step that cannot be worked on yet is no failure."""
        return all(each.outcome.ok or each.outcome.kind is Kind.UNSUPPORTED for each in self.steps)
