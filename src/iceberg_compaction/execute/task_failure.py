"""A failed task as a plain value, so that it can cross a process border as data and become the same error again on the
other side. Text is cleaned of credentials on the way, because engines show and log it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import plurals
from iceberg_compaction.model.value import Value
from iceberg_compaction.storage import passing_faults, redact

if TYPE_CHECKING:
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask

_LONGEST = 500
_OF_ITS_FILES = (errors.DamagedFileError.__name__, errors.UnsupportedError.__name__)


class Failure(Value):
    """The failure of one task: the class of the error by name, its sentence, and whether a retry could help."""

    task_id: int
    group_id: int
    error: str
    sentence: str
    retryable: bool
    file_path: str | None = None  # the file that caused it, if one did
    left_behind: bool = False  # not all files that were written for the task are surely removed
    expired: bool = False  # storage may have refused credentials that have expired; another try needs fresh ones
    attempts: int = 1  # as in TaskResult

    @property
    def of_its_files(self) -> bool:
        """Whether it is surely for the task's own files that it failed, so that it tells nothing about other tasks."""
        return self.error in _OF_ITS_FILES

    @property
    def refused(self) -> bool:
        """Whether the files are sound, but have something that cannot be rewritten safely yet."""
        return self.error == errors.UnsupportedError.__name__

    def rebuild(self) -> errors.CompactionError:
        """The error as it was raised, or an ExecuteError for a class that is not ours."""
        kind = getattr(errors, self.error, None)
        if not isinstance(kind, type) or not issubclass(kind, errors.CompactionError):
            kind = errors.ExecuteError
        error: errors.CompactionError = kind(self.sentence)
        error.path = self.file_path
        return error


def describe(error: Exception, task: RewriteTask, context: RewriteContext) -> Failure:
    """The failure of a task. Errors that are not ours get a sentence that says which task it was."""
    expired = passing_faults.is_expired(error)
    if isinstance(error, errors.CompactionError):
        return Failure(
            task_id=task.id,
            group_id=task.group_id,
            error=type(error).__name__,
            sentence=clean(str(error), context),
            file_path=error.path,
            left_behind=bool(getattr(error, "left", ())),
            # A plain ExecuteError is a failure that nobody foresaw, such as a store that hung up.
            retryable=(error.retryable or type(error) is errors.ExecuteError) and not expired,
            expired=expired,
        )
    message = clean(" ".join(str(error).split()), context)[:_LONGEST]
    files = plurals.count(len(task.file_paths), "file")
    sentence = (
        f"Rewriting {files} of {context.table} (group {task.group_id}, task {task.id}) "
        f"failed with {type(error).__name__}: {message or 'no message'}"
    )
    return Failure(
        task_id=task.id,
        group_id=task.group_id,
        error="ExecuteError",
        sentence=sentence,
        retryable=not expired,
        expired=expired,
    )


def lost(sentence: str, task: RewriteTask) -> Failure:
    """The failure of a task that took its process with it, so that nobody cleaned up."""
    return Failure(
        task_id=task.id,
        group_id=task.group_id,
        error="ExecuteError",
        sentence=sentence,
        retryable=False,
        left_behind=True,
    )


def of_group(error: errors.CompactionError, group_id: int) -> Failure:
    """The failure of a group whose tasks were all done."""
    return Failure(task_id=-1, group_id=group_id, error=type(error).__name__, sentence=str(error), retryable=False)


def clean(text: str, context: RewriteContext) -> str:
    """The text without any credential that the context carries, or that looks like one."""
    return redact.redact_text(text, redact.secrets_of(context.io_properties))
