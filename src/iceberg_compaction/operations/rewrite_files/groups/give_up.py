"""When a run goes on after a group has failed, and when it gives up. What is wrong with the group's own files costs the
group alone, however many there are. What may be wrong with storage, workers or settings is given some chances, since
ten thousand groups would each fail the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors

if TYPE_CHECKING:
    from iceberg_compaction.execute.task_failure import Failure

IN_A_ROW = 10  # groups, with no task done in between
_AT_ONCE = (errors.ProofError, errors.ConfigError)


class FailureLimit:
    """Hears how tasks end."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def done(self) -> None:
        """A task was done."""
        self._in_a_row = 0

    def after(self, failed: Failure) -> errors.CompactionError | None:
        """Why the run must stop now that one more group has failed; None: it goes on. A proof that does not hold is a
        defect, of which nobody knows what else it does."""
        error = failed.rebuild()
        if isinstance(error, _AT_ONCE):
            return error
        self._in_a_row += not failed.of_its_files
        if self._in_a_row < IN_A_ROW:
            return None
        return errors.ExecuteError(
            f"{IN_A_ROW} groups failed in a row, so that the run was given up. {failed.sentence}"
        )
