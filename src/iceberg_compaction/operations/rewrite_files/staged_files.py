"""The safety rule of the product: a staged file is deleted only if its commit surely did not land. Everything that was
staged goes on every exit, except for files that were handed to a commit; those go on the commit's own word only. Files
that a checkpoint names leave it first, since another run may have taken them up (R63)."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from iceberg_compaction.storage import remove

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from pyiceberg.io import FileIO

    from iceberg_compaction.model.rewrite_task import StagedFile
    from iceberg_compaction.operations.rewrite_files.task_rounds import Rounds
    from iceberg_compaction.record.checkpoint.open_checkpoint import OpenCheckpoint
    from iceberg_compaction.record.runs import Run

_log = logging.getLogger(__name__)


class StagedFiles:
    """Which staged files may be removed."""

    def __init__(
        self, io: FileIO, run: Run, *, checkpoint: OpenCheckpoint | None = None, kept: Collection[str] = ()
    ) -> None:
        self._io = io
        self._run = run
        self._checkpoint = checkpoint
        self._kept = kept  # files of other runs: recovery removes them if no snapshot has them
        self._held: set[str] = set()  # by a commit: they may be the table's
        self._removed: set[str] = set()

    def hold(self, files: Iterable[StagedFile]) -> None:
        """A commit of these files begins: from now on they may be part of the table."""
        self._held.update(file.file_path for file in files)

    def release(self, files: Iterable[StagedFile]) -> None:
        """The commit of these files surely did not land: they are removed."""
        files = list(files)
        self._held.difference_update(file.file_path for file in files)
        self.remove(files)

    def remove(self, files: Iterable[StagedFile]) -> None:
        """Remove files that nobody needs, unless a commit holds them."""
        paths = [file.file_path for file in files]
        paths = [path for path in paths if path not in self._held | self._removed and path not in self._kept]
        if not paths:
            return
        if self._checkpoint is not None:
            removable = self._checkpoint.give_up(paths)
            self._run.left_behind([path for path in paths if path not in removable])
            paths = removable
        left = remove.remove_files(self._io, paths, remove.RemovalProof.NOT_COMMITTED)
        self._removed.update(set(paths) - set(left))  # not before: who is interrupted here tries once more at the end
        self._run.left_behind(left)
        if left:
            _log.warning("%d staged files could not be removed, the first is %s", len(left), left[0])


@contextmanager
def removing(staged: StagedFiles, work: Rounds, run: Run) -> Iterator[StagedFiles]:
    """To be entered before the work, so that at its end all that the work has staged is known."""
    try:
        yield staged
    finally:
        staged.remove(file for result in work.staged for file in result.staged)
        if work.left_behind:
            run.may_leave_files()
