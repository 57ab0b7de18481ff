"""The plan of `undo`: which way leads back to the files that a run replaced, or the reason why none does."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from iceberg_compaction.model import lease
from iceberg_compaction.model.value import Value


class UndoWay(str, Enum):
    """How a run is undone. Closed set."""

    ROLLBACK = "rollback"  # the branch goes back to the snapshot before the run, because nothing followed
    REPLACE = "replace"  # a new snapshot replaces the files of the run by those that it had replaced
    REFUSED = "refused"


class UndoPlan(Value):
    """The way back, from metadata alone. Rows are compared before anything is committed."""

    kind: Literal["undo-plan"] = "undo-plan"
    table: str
    branch: str
    undone_run_id: str
    way: UndoWay
    sentence: str
    snapshot_ids: tuple[int, ...] = ()  # of the run
    target_snapshot_id: int | None = None  # that the branch goes back to; only of a rollback
    files_removed: int = 0  # data files of the run that leave the table
    bytes_removed: int = 0
    files_added: int = 0  # data files that come back
    bytes_added: int = 0
    delete_files_added: int = 0  # delete files that come back
    partitions: tuple[tuple[int, str], ...] = ()  # spec id and canonical JSON of each

    def __repr__(self) -> str:
        return self._line(self.table, self.sentence)

    __str__ = __repr__

    @property
    def empty(self) -> bool:
        """Whether nothing can be done."""
        return self.way is UndoWay.REFUSED

    @property
    def resources(self) -> tuple[str, ...]:
        """A run that performs the plan needs a lease of these: nobody else may be at work on the branch."""
        return (lease.EVERYTHING,)
