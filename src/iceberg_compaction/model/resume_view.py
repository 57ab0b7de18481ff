"""The checkpoint of a run that did not finish, and how much of it another run can use: the result of `resume
--show`."""

from __future__ import annotations

from iceberg_compaction.model import plurals
from iceberg_compaction.model.value import Value


class StoredGroup(Value):
    """A group of the plan."""

    id: int
    partition: str  # canonical JSON, see model.table.FILES
    completed: tuple[int, ...]  # tasks that need not be done again
    pending: tuple[int, ...]  # tasks that are left
    ready: bool  # nothing is left to do but the commit
    reason: str = ""  # why the group is not gone on with


class ResumeView(Value):
    """The checkpoint of a run, with the table as it is now."""

    run_id: str
    plan_id: str
    table: str
    branch: str
    version: str  # of the product that made the plan
    strategy: str = ""
    writers: tuple[str, ...]  # the runs that have worked on the plan
    saved_ms: int  # when the last of them began
    age_seconds: float
    cores: int  # that the tasks were cut for
    tasks: int
    stored: int  # results of tasks
    bytes: int  # of all input files
    bytes_done: int = 0  # of the tasks that need not be done again
    groups: tuple[StoredGroup, ...] = ()
    reason: str = ""  # why nothing can be used

    @property
    def completed(self) -> int:
        return sum(len(group.completed) for group in self.groups)

    @property
    def pending(self) -> int:
        return sum(len(group.pending) for group in self.groups if not group.reason)

    @property
    def sentence(self) -> str:
        """All in one sentence."""
        if self.reason:
            return f"Nothing of run {self.run_id} can be used: {self.reason}"
        ready = sum(group.ready for group in self.groups)
        lost = sum(bool(group.reason) for group in self.groups)
        left = f"; {plurals.count(lost, 'group does', 'groups do')} not hold any more" if lost else ""
        return (
            f"{self.completed:,} of {plurals.count(self.tasks, 'task')} of run {self.run_id} need not be done again, "
            f"and {ready:,} of {plurals.count(len(self.groups), 'group')} can be committed at once{left}."
        )
