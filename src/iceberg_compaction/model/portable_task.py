"""A task and its result as values that need nothing else, for people who run tasks on a scheduler of their own: plan
here, execute anywhere, commit here. Both go to JSON and back."""

from __future__ import annotations

from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult
from iceberg_compaction.model.value import Value


class PortableTask(Value):
    """A task together with all that it needs. Its JSON holds the credentials that files are opened with."""

    plan_id: str
    task: RewriteTask
    context: RewriteContext


class PortableResult(Value):
    """The result of a task, and the input files that it stands for, so that a commit can compare it with the plan."""

    plan_id: str
    file_paths: tuple[str, ...]
    result: TaskResult
