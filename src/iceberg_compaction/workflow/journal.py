"""A run in the journal: noted before it writes its first file, struck out once it has ended and left nothing behind. In
between the journal hears of every snapshot before it is published, so that after a crash anybody can tell what may
still land. A journal that cannot be written is a warning, never a failure."""

from __future__ import annotations

import logging
import shlex
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH

from iceberg_compaction import errors
from iceberg_compaction.catalog import names, run_names, watch
from iceberg_compaction.metadata import folders
from iceberg_compaction.model import record
from iceberg_compaction.record import process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.execute.engine import Engine, OnEnd, TaskEnd
    from iceberg_compaction.model.task import RewriteContext, RewriteTask, TaskResult
    from iceberg_compaction.record.sqlite import RunStore
    from iceberg_compaction.workflow.run import Run

HEARTBEAT_S = 30.0
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Entry:
    """A run's own line in the journal."""

    run: Run
    store: RunStore
    clean: bool = True  # as far as is known, nothing will be left behind
    _over: threading.Event = field(default_factory=threading.Event)

    def publishing(self, snapshot: Snapshot) -> None:
        """Note a snapshot before it is published. CommitError: others took this run for dead and removed its files."""
        attempt = record.Attempt(
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            at_ms=self.run.clock(),
        )
        if not self._try(lambda: self.store.publishing(self.run.run_id, attempt), default=True):
            raise errors.CommitError(
                f"Run {self.run.run_id} gave no sign of life for so long that another run removed its files; nothing "
                "was committed, start again."
            )

    def left(self, path: str) -> None:
        """Remember that there is a file for the next run to remove."""
        self.clean = False

    def watched(self, engine: Engine) -> Engine:
        """The same engine, except that the journal hears when it may have left files of unfinished tasks."""
        return _WatchedEngine(engine=engine, entry=self)

    def close(self) -> None:
        """The run has ended."""
        self._over.set()
        run_id = self.run.run_id
        if self.clean:
            self._try(lambda: self.store.finish(run_id))
        else:
            self._try(lambda: self.store.end(run_id, self.run.clock()))

    def beat(self) -> None:
        """Give signs of life until the run ends."""
        while not self._over.wait(HEARTBEAT_S):
            self._try(lambda: self.store.heartbeat(self.run.run_id, self.run.clock()))

    def _try(self, work: Callable[[], bool | None], *, default: bool = False) -> bool:
        try:
            return bool(work())
        except errors.ConfigError as error:
            _log.warning("The journal of this run is not complete: %s", error)
            return default


@contextmanager
def kept(
    table: Table, run: Run, *, branch: str, job: str, claims: tuple[tuple[int, str], ...] = ()
) -> Iterator[Entry | None]:
    """Keep the journal of a run on the table while it works; `job` is the command that does such work, `claims` are the
    partitions that it works on. None: there is no journal."""
    entry = _begin(table, run, branch, claims)
    if entry is None:
        yield None
        return
    threading.Thread(target=entry.beat, name="heartbeat", daemon=True).start()
    with watch.watching(run.run_id, entry):
        try:
            yield entry
        except errors.StateUnknownError as error:
            entry.clean = False
            raise errors.StateUnknownError(
                f"{error} Run {job} later: it finds out what became of the snapshot, removes its files if it cannot "
                "land any more, and does what is left to do."
            ) from error
        except errors.CompactionError:
            raise  # whoever raises one has swept, or has told what is left
        except BaseException:
            entry.clean = False
            raise
        finally:
            entry.close()


def _begin(table: Table, run: Run, branch: str, claims: tuple[tuple[int, str], ...]) -> Entry | None:
    if run.store is None or not run_names.is_distinct(run.run_id):
        return None
    data_path, metadata_path = folders.folders(table)
    start = record.RunStart(
        run_id=run.run_id,
        table=names.text(table.name()),
        table_uuid=str(table.metadata.table_uuid),
        table_location=table.location(),
        data_path=data_path,
        metadata_path=metadata_path,
        branch=branch,
        process=process.this_process(),
        started_ms=run.clock(),
        claims=claims,
    )
    try:
        clean = run.store.begin(start)
    except errors.ConfigError as error:
        _log.warning("If this run is killed, no other will remove what it leaves behind: %s", error)
        return None
    return Entry(run=run, store=run.store, clean=clean)


def command(verb: str, table: str, branch: str) -> str:
    """The command line that does the work of a verb on a table's branch."""
    which = "" if branch == MAIN_BRANCH else f" --branch {branch}"
    return f"`iceberg-compact {verb} --table {shlex.quote(table)}{which}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class _WatchedEngine:
    engine: Engine
    entry: Entry

    def cores(self) -> int:
        return self.engine.cores()

    def cancel(self) -> None:
        self.engine.cancel()

    def run(self, tasks: Sequence[RewriteTask], context: RewriteContext, on_end: OnEnd) -> list[TaskResult]:
        def look(end: TaskEnd) -> None:
            if end.left_behind:
                self.entry.clean = False
            on_end(end)

        try:
            return self.engine.run(tasks, context, look)
        except BaseException:
            self.entry.clean = False  # a worker that is killed removes nothing
            raise
