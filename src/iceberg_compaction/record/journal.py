"""The entry of a run in the journal. It is made before the run writes its first file, and removed once the run has
ended and left no files. It names every snapshot before that is published, so that after a crash another run knows which
commit may still land. A run that cannot be entered goes on with a warning: nobody can take it for dead. Once a run is
entered, it publishes nothing that could not be written down (R49), and nothing without its lease."""

from __future__ import annotations

import contextlib
import logging
import shlex
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import lease, run_record
from iceberg_compaction.record import cancel_requests, leases, processes
from iceberg_compaction.storage import file_names

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from iceberg_compaction.model.run_record import TableHome
    from iceberg_compaction.record.runs import Run
    from iceberg_compaction.record.store import RunStore

CANCEL_S = 1.0  # between two looks for a request to cancel
CONFIRM_WAITS_S = (0.1, 0.4, 1.5)  # a store on a volume may be away for a moment; a busy one is waited for in any case
_MOST_ENDS = 1000  # tries to write down the end of a run, at the pace of heartbeats
_INCOMPLETE = "The journal of this run is not complete"
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Entry:
    """A run's own entry in the journal."""

    run: Run
    store: RunStore
    home: TableHome
    lease: lease.Lease | None = None
    clean: bool = True  # no files are left behind so far
    dead_writers: tuple[str, ...] = ()  # runs whose files this one commits
    _over: threading.Event = field(default_factory=threading.Event)
    _attempt: run_record.Attempt | None = None  # the last one
    _landed: tuple[int, ...] = ()

    def publishing(self, announcement: run_record.Announcement) -> None:
        """Write down a change before it is published. CommitError: it must not be published, because another run took
        this one for dead and may have removed its files, or because that cannot be excluded."""
        self._attempt = run_record.Attempt(**announcement.model_dump(), at_ms=self.run.clock(), landed=self._landed)
        if not self._confirm(self._attempt):
            raise errors.CommitError(
                f"Run {self.run.run_id} had no heartbeat for so long that another run took it for dead, or the run "
                "store was lost; nothing was committed, start again."
            )

    def _confirm(self, attempt: run_record.Attempt) -> bool:
        for wait in (*CONFIRM_WAITS_S, None):
            try:
                return self._has_lease() and self.store.publishing(self.run.run_id, attempt)
            except errors.StoreError as error:
                if wait is None:
                    raise errors.CommitError(
                        f"Run {self.run.run_id} cannot check that no other run took it for dead; nothing was "
                        f"committed, start again. {error}"
                    ) from error
                self._over.wait(wait)
        raise AssertionError("unreachable")

    def _has_lease(self) -> bool:
        return self.lease is None or leases.Leases(entries=self.store.entries).has(self.home.entry, self.lease)

    def committed(self, snapshot_id: int | None) -> None:
        """Write down that a snapshot is part of the table: if it expires there, another catalog entry may still have
        it."""
        if snapshot_id is None or self._attempt is None:
            return
        self._landed = tuple(dict.fromkeys((*self._landed, snapshot_id)))
        self.run.landed = self._landed
        attempt = self._attempt.model_copy(update={"landed": self._landed})
        with self._warning():
            self.store.committed(self.run.run_id, attempt)
            for run_id in self.dead_writers:
                self.store.committed_by_another(run_id, (snapshot_id,))

    def close(self) -> None:
        """Write down that the run has ended. If the store is away, this is tried again while the process lives: nobody
        else could know that the run is over."""
        self._over.set()
        try:
            self._end()
        except errors.StoreError as error:
            self.run.warnings.warn(_INCOMPLETE, error)
            threading.Thread(target=self._end_later, name="end of run", daemon=True).start()

    def _end(self) -> None:
        if self.lease is not None:
            leases.Leases(entries=self.store.entries).give_back(self.home.entry, self.lease, self._landed[-1:])
        self._look_for_cancel()  # a run that went on with another one may have work of its own to do
        cancel_requests.remove(self.store.entries, self.run.run_id)
        if self.clean:
            self.store.finish(self.run.run_id)
        else:
            self.store.end(self.run.run_id, self.run.clock())

    def _end_later(self) -> None:
        never = threading.Event()
        for _ in range(_MOST_ENDS):
            never.wait(self.run.heartbeat_s)
            with contextlib.suppress(errors.StoreError):
                self._end()
                return

    def beat(self) -> None:
        """Write heartbeats until the run ends, and look for a request to cancel it."""
        interval, waited = self.run.heartbeat_s, 0.0
        step = min(CANCEL_S, interval)
        while not self._over.wait(step):
            waited += step
            if waited >= interval:
                waited = 0.0
                with self._warning():
                    self.store.heartbeat(self.run.run_id, self.run.clock())
            with self._warning():
                self._look_for_cancel()

    def _look_for_cancel(self) -> None:
        request = cancel_requests.find(self.store.entries, self.run.run_id)
        if request is not None:
            self.run.cancel.cancel_this(f"Run {self.run.run_id} was cancelled by {request.words}.")

    @contextmanager
    def _warning(self) -> Iterator[None]:
        """Turn an error of the store into a warning: the run goes on without this line of its journal."""
        try:
            yield
        except errors.StoreError as error:
            self.run.warnings.warn(_INCOMPLETE, error)


@contextmanager
def keep(
    home: TableHome,
    run: Run,
    *,
    branch: str,
    command: str,
    resources: tuple[str, ...],
    seen: Container[int] | None = None,
) -> Iterator[None]:
    """Keep the entry of a run on the table while it works, and its lease. `command`: the command line that does such
    work; `resources`: what the lease is of. Without a store there is neither. LeasedError: another run has them, or had
    and made a snapshot that is not among `seen`."""
    entry = _begin(home, run, branch)
    if entry is None:
        yield
        return
    run.entry = entry
    try:
        threading.Thread(target=entry.beat, name="heartbeat", daemon=True).start()
        entry.lease = _acquire(entry, branch, resources, seen)
        yield
    except errors.StateUnknownError as error:
        entry.clean = False
        raise errors.StateUnknownError(
            f"{error} Run {command} later: it checks whether the change landed, removes its files if it cannot land "
            "any more, and does the remaining work."
        ) from error
    except errors.CompactionError:
        raise  # its files are removed, or those that are left were reported to `left_behind`
    except BaseException:
        entry.clean = False
        raise
    finally:
        run.entry = None
        entry.close()


def _acquire(entry: Entry, branch: str, resources: tuple[str, ...], seen: Container[int] | None) -> lease.Lease | None:
    """The lease of a run in the journal. None: the store has failed, and commits of others are conflicts as ever."""
    run = entry.run
    wanted = lease.Lease(
        run_id=run.run_id,
        token=0,
        branch=branch,
        holds=resources,
        process=processes.this_process(),
        since_ms=run.clock(),
    )
    try:
        return leases.acquire(entry.home.entry, wanted, run, entry.store, seen)
    except errors.StoreError as error:
        _log.warning("Other runs may do the work of this one at the same time: %s", error)
        return None


def _begin(home: TableHome, run: Run, branch: str) -> Entry | None:
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
        catalog=home.entry.catalog,
        heartbeat_s=run.heartbeat_s,
    )
    try:
        clean = run.store.begin(start, run.landed)
    except errors.StoreError as error:
        _log.warning("If this run is killed, no other run will remove its files: %s", error)
        return None
    last = None if clean else run.store.attempt(run.run_id)
    landed = run.landed if last is None else last.may_have_landed  # too many of them is safe
    return Entry(run=run, store=run.store, home=home, clean=clean, _landed=landed)


def command_line(verb: str, table: str, branch: str) -> str:
    """The command line of a verb for a table's branch."""
    flag = "" if branch == "main" else f" --branch {shlex.quote(branch)}"
    return f"`iceberg-compact {verb} --table {shlex.quote(table)}{flag}`"
