"""Two plans of one table, compared: what became more or less, which groups are new, gone or changed, and why."""

from __future__ import annotations

from enum import Enum

from iceberg_compaction.model.value import Count, Value


class GroupChange(str, Enum):
    """What became of a group. Closed set."""

    NEW = "new"
    GONE = "gone"
    CHANGED = "changed"


class FigureChange(Value):
    """One figure of both plans."""

    name: str  # files, bytes, groups, outputs, core-seconds; cost and saving in dollars
    old: int | float
    new: int | float

    @property
    def change(self) -> float:
        return self.new - self.old


class OptionChange(Value):
    """An option that the two policies do not agree on, as text."""

    name: str
    old: str
    new: str


class ChangedGroup(Value):
    """A group that only one plan has, or that both have with other files."""

    change: GroupChange
    spec_id: Count
    partition: str  # canonical JSON; {} where a group has several partitions
    old_id: int | None  # ids of the group; None: the plan does not have it
    new_id: int | None
    old_files: Count
    new_files: Count
    shared_files: Count
    old_bytes: Count
    new_bytes: Count
    sentence: str


class PlanDifference(Value):
    """The difference between an older plan and a newer one of the same table."""

    table: str
    old_plan: str
    new_plan: str
    old_snapshot_id: int | None
    new_snapshot_id: int | None
    figures: tuple[FigureChange, ...]
    options: tuple[OptionChange, ...]
    same_groups: Count  # groups with the same files in both plans
    groups: tuple[ChangedGroup, ...]
    cause: str  # why the plans differ, as far as they tell
    left_out: tuple[str, ...]  # what the new plan leaves alone, and why: among it the files of groups that are gone
    sentence: str
