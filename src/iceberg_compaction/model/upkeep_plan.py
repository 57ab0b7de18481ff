"""Plans of housekeeping: expired snapshots, orphan files, delete files, old rows, tags, statistics, repairs.
Each operation has a plan class of its own; what all of them show to people is here, so that one screen, one file format
and one `apply` serve all. A plan is made from metadata and listings, and says for everything why it goes or stays."""

from __future__ import annotations

from typing import Literal

from iceberg_compaction.model import lease
from iceberg_compaction.model.value import Count, Value

FORMAT = 1


class UpkeepStep(Value):
    """One line of a plan: so many things of one kind, and why they go or stay."""

    name: str  # such as `snapshots`, `data files`, or a partition
    count: Count
    bytes: Count | None = None  # None: not known, or no matter of bytes
    sentence: str


class UpkeepPlan(Value):
    """What an operation of housekeeping would do to a table, and why."""

    format: Literal[1] = 1
    operation: str  # the verb; each subclass has its own
    id: str
    table: str
    table_uuid: str
    branch: str = "main"
    created_ms: Count
    sentence: str  # the plan in one sentence, empty or not
    steps: tuple[UpkeepStep, ...] = ()  # what would be done; empty: nothing
    kept: tuple[UpkeepStep, ...] = ()  # what stays, and why
    notes: tuple[str, ...] = ()  # what else a person should know, such as what can still be undone, and until when

    def __repr__(self) -> str:
        return self._line(self.table, self.sentence)

    __str__ = __repr__

    @property
    def empty(self) -> bool:
        return not self.steps

    @property
    def sick(self) -> bool:
        """Whether the plan is about damage, which a dry run tells by its exit code."""
        return False

    @property
    def resources(self) -> tuple[str, ...]:
        """A run that performs the plan needs a lease of these; see `model.lease`."""
        return (lease.EVERYTHING,)
