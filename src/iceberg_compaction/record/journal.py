"""A run in the journal: noted before it writes its first file, struck out once it has ended and left nothing behind. In
between the journal hears of every snapshot before it is published, so that after a crash anybody can tell what may
still land. A journal that cannot be begun is a warning: nobody knows the run, so that nobody takes it for dead. Once it
is begun, nothing is published that could not be written down (R49)."""

from __future__ import annotations

import logging
import shlex
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import run_record
from iceberg_compaction.record import processes
from iceberg_compaction.storage import file_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iceberg_compaction.model.run_record import TableHome
    from iceberg_compaction.record.runs import Run
    from iceberg_compaction.record.store import RunStore

HEARTBEAT_S = 30.0
CONFIRM_WAITS_S = (0.1, 0.4, 1.5)  # a store on a volume may be away for a moment; a busy one is waited for in any case
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Entry:
    """A run's own line in the journal."""

    run: Run
    store: RunStore
    clean: bool = True  # as far as is known, nothing will be left behind
    _over: threading.Event = field(default_factory=threading.Event)
    _attempt: run_record.Attempt | None = None  # the last one
    _landed: tuple[int, ...] = ()

    def publishing(self, announcement: run_record.Announcement) -> None:
        """Note a change before it is published. CommitError: it must not be, because others took this run for dead and
        may have removed its files, or because nobody can tell whether they did."""
        self._attempt = run_record.Attempt(**announcement.model_dump(), at_ms=self.run.clock(), landed=self._landed)
        if not self._confirm(self._attempt):
            raise errors.CommitError(
                f"Run {self.run.run_id} had no heartbeat for so long that another run removed its files, or the "
                "run store was lost; nothing was committed, start again."
            )

    def _confirm(self, attempt: run_record.Attempt) -> bool:
        for wait in (*CONFIRM_WAITS_S, None):
            try:
                return self.store.publishing(self.run.run_id, attempt)
            except errors.StoreError as error:
                if wait is None:
                    raise errors.CommitError(
                        f"Run {self.run.run_id} cannot make sure that no other run took it for dead and removed its "
                        f"files; nothing was committed, start again. {error}"
                    ) from error
                self._over.wait(wait)
        raise AssertionError("unreachable")

    def committed(self, snapshot_id: int | None) -> None:
        """Remember that a snapshot is part of the table: should it leave the table, others may have it still."""
        if snapshot_id is None or self._attempt is None:
            return
        self._landed = tuple(dict.fromkeys((*self._landed, snapshot_id)))
        attempt = self._attempt.model_copy(update={"landed": self._landed})
        self._try(lambda: self.store.committed(self.run.run_id, attempt))

    def close(self) -> None:
        """The run has ended."""
        self._over.set()
        run_id = self.run.run_id
        if self.clean:
            self._try(lambda: self.store.finish(run_id))
        else:
            self._try(lambda: self.store.end(run_id, self.run.clock()))

    def beat(self) -> None:
        """Write heartbeats until the run ends."""
        while not self._over.wait(HEARTBEAT_S):
            self._try(lambda: self.store.heartbeat(self.run.run_id, self.run.clock()))

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except errors.StoreError as error:
            _log.warning("The journal of this run is not complete: %s", error)


@contextmanager
def kept(
    home: TableHome, run: Run, *, branch: str, command: str, claims: tuple[tuple[int, str], ...] = ()
) -> Iterator[None]:
    """Keep the journal of a run on the table while it works; `command` is the command line that does such work,
    `claims` are the partitions that it works on. Without a store there is no journal."""
    entry = _begin(home, run, branch, claims)
    if entry is None:
        yield
        return
    threading.Thread(target=entry.beat, name="heartbeat", daemon=True).start()
    run.entry = entry
    try:
        yield
    except errors.StateUnknownError as error:
        entry.clean = False
        raise errors.StateUnknownError(
            f"{error} Run {command} later: it finds out what became of the snapshot, removes its files if it cannot "
            "land any more, and does what is left to do."
        ) from error
    except errors.CompactionError:
        raise  # whoever raises one has removed its files, or has said which are left
    except BaseException:
        entry.clean = False
        raise
    finally:
        run.entry = None
        entry.close()


def _begin(home: TableHome, run: Run, branch: str, claims: tuple[tuple[int, str], ...]) -> Entry | None:
    if run.store is None or not file_names.is_distinct(run.run_id):
        return None
    start = run_record.RunStart(
        run_id=run.run_id,
        table=home.entry.table,
        table_uuid=home.entry.table_uuid,
        table_location=home.location,
        data_path=home.data_path,
        metadata_path=home.metadata_path,
        branch=branch,
        process=processes.this_process(),
        started_ms=run.clock(),
        claims=claims,
        catalog=home.entry.catalog,
    )
    try:
        clean = run.store.begin(start)
    except errors.StoreError as error:
        _log.warning("If this run is killed, no other will remove what it leaves behind: %s", error)
        return None
    before = None if clean else run.store.attempt(run.run_id)
    landed = () if before is None else before.may_have_landed  # or it will be missed, which is safe
    return Entry(run=run, store=run.store, clean=clean, _landed=landed)


def command_line(verb: str, table: str, branch: str) -> str:
    """The command line that does the work of a verb on a table's branch."""
    which = "" if branch == "main" else f" --branch {shlex.quote(branch)}"
    return f"`iceberg-compact {verb} --table {shlex.quote(table)}{which}`"
