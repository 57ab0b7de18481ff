"""The result of `verify`: for each commit of a run and each partition in it, whether the files that the run wrote still
hold the rows that it read."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from iceberg_compaction.model.value import Value


class CheckVerdict(str, Enum):
    """The result of one check. Closed set."""

    PROVED = "proved"
    DIFFERS = "differs"
    UNCHECKED = "unchecked"  # it could not be checked, and the reason is given


class PartitionCheck(Value):
    """The files of one partition, or of all partitions of a commit where rows moved between them."""

    partition: str | None  # canonical JSON, see model.table_view.FILES; None: all partitions of the commit
    verdict: CheckVerdict
    sentence: str
    files_read: int  # files that the run replaced
    files_written: int
    rows_read: int | None = None  # that live in the replaced files; None: not read now
    rows_written: int | None = None  # None: a file could not be read
    file_paths: tuple[str, ...] = ()  # files that are damaged or gone


class CommitCheck(Value):
    """One commit of the run."""

    snapshot_id: int
    verdict: CheckVerdict
    sentence: str
    rows_recorded: int | None = None  # by the snapshot's own summary
    rows_written: int | None = None  # as the files hold them now
    checksum_recorded: str = ""
    checksum: str = ""  # of the rows as the files hold them now
    with_inputs: bool = False  # the replaced files were read as well
    partitions: tuple[PartitionCheck, ...] = ()


class Verification(Value):
    """All commits of a run."""

    kind: Literal["verification"] = "verification"
    run_id: str
    table: str
    verdict: CheckVerdict
    sentence: str
    commits: tuple[CommitCheck, ...] = ()
    seconds: float = 0.0

    def __repr__(self) -> str:
        return self._line(self.table, self.sentence)

    __str__ = __repr__


def worst(verdicts: list[CheckVerdict]) -> CheckVerdict:
    """The verdict over several checks: one that differs counts most, then one that could not be made."""
    for verdict in (CheckVerdict.DIFFERS, CheckVerdict.UNCHECKED):
        if verdict in verdicts:
            return verdict
    return CheckVerdict.PROVED if verdicts else CheckVerdict.UNCHECKED
