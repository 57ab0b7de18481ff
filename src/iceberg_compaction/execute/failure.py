"""A failed task as a plain value, so that it can cross a process border as data and become the same error again on the
other side. Text is cleaned of credentials on the way, because engines show and log it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model.value import Value

if TYPE_CHECKING:
    from iceberg_compaction.model.task import RewriteContext, RewriteTask

_SECRET_KEY = re.compile(r"secret|password|token|key|credential|sas|signature|connection-string", re.IGNORECASE)
_SHORTEST_SECRET = 4  # shorter values (`1`, `on`) would only riddle the sentence
_LONGEST = 500


class Failure(Value):
    """What went wrong in one task: the class of the error by name, its sentence, and whether a retry could help."""

    task_id: int
    error: str
    sentence: str
    retryable: bool

    def rebuild(self) -> errors.CompactionError:
        """The error as it was raised, or an ExecuteError for a class that is not ours."""
        found = getattr(errors, self.error, None)
        if isinstance(found, type) and issubclass(found, errors.CompactionError):
            return found(self.sentence)
        return errors.ExecuteError(self.sentence)


def describe(error: Exception, task: RewriteTask, context: RewriteContext) -> Failure:
    """The failure of a task. Errors that are not ours get a sentence that says which task it was."""
    if isinstance(error, errors.CompactionError):
        sentence = redact(str(error), context)
        return Failure(task_id=task.id, error=type(error).__name__, sentence=sentence, retryable=error.retryable)
    told = redact(" ".join(str(error).split()), context)[:_LONGEST]
    sentence = (
        f"Rewriting {len(task.file_paths)} files of {context.table} (group {task.group_id}, task {task.id}) "
        f"failed with {type(error).__name__}: {told or 'no message'}"
    )
    return Failure(task_id=task.id, error="ExecuteError", sentence=sentence, retryable=True)


def redact(text: str, context: RewriteContext) -> str:
    """The text without any credential that the context carries."""
    for key, value in context.io_properties.items():
        if _SECRET_KEY.search(key) and len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, "***")
    return text
