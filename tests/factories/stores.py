"""Run stores for tests: the databases behind them, entries to write, and processes that use one at the same time."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sqlite3
import threading
from concurrent import futures
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pytest
from tests.factories import store_servers

from iceberg_compaction.interfaces import run_stores, wiring
from iceberg_compaction.model import checkpoint, lease, run_record
from iceberg_compaction.model.outcome import Kind, parse
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.record import leases, processes
from iceberg_compaction.record.checkpoint import checkpoints
from iceberg_compaction.record.entries import sqlite
from iceberg_compaction.record.entries.memory import MemoryEntries
from iceberg_compaction.record.store import RunStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.factories.store_servers import StoreServer

    from iceberg_compaction.model.run_record import Attempt, UnfinishedRun
    from iceberg_compaction.record.entries.door import StoreEntries

ATTEMPT = run_record.Attempt(snapshot_id=8, parent_snapshot_id=7, sequence_number=5, at_ms=30)
_CONTEXT = multiprocessing.get_context("forkserver")
# Each child would import all of it for itself, which takes longer than what it does.
_CONTEXT.set_forkserver_preload(["tests.factories.stores"])


class Place(Protocol):
    """Where a run store of a test is."""

    @property
    def outlives_processes(self) -> bool:
        """Whether other processes see it; if so, the object can be sent to them."""
        ...

    def open(self) -> RunStore:
        """A store object of its own."""
        ...

    def entries(self) -> StoreEntries:
        """The same without the store's own checks."""
        ...

    def exists(self) -> bool:
        """Whether anything is there."""
        ...


@pytest.fixture(scope="session")
def store_server() -> Iterator[Callable[[str], StoreServer]]:
    """A server of a kind, started when it is first needed, and shared by all tests of a process."""
    with contextlib.ExitStack() as stack:
        started: dict[str, StoreServer] = {}

        def server(kind: str) -> StoreServer:
            if kind not in started:
                started[kind] = stack.enter_context(store_servers.running(kind))
            return started[kind]

        yield server


@pytest.fixture(
    params=["memory", "sqlite", *(pytest.param(kind, marks=pytest.mark.server) for kind in store_servers.KINDS)]
)
def every_place(
    request: pytest.FixtureRequest, tmp_path: Path, store_server: Callable[[str], StoreServer]
) -> Iterator[Place]:
    """An empty place of each kind."""
    if request.param == "memory":
        yield MemoryPlace()
    elif request.param == "sqlite":
        yield SqliteDatabase(path=tmp_path / "state" / "runs.db")
    else:
        place = ServerPlace(url=store_server(request.param).new_url())
        yield place
        for store in place.opened:
            store.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlace:
    """A store of its own in a server that others use, too."""

    outlives_processes: ClassVar[bool] = True
    url: str
    opened: list[StoreEntries] = field(default_factory=list, repr=False)

    def __reduce__(self) -> Any:
        return _server_place, (self.url,)

    def open(self) -> RunStore:
        return RunStore(self.entries())

    def entries(self) -> StoreEntries:
        self.opened.append(run_stores.open_entries(self.url))
        return self.opened[-1]

    def exists(self) -> bool:
        return bool(self.entries().scan(""))


def _server_place(url: str) -> ServerPlace:
    return ServerPlace(url=url)


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """A store in the memory of this process."""

    outlives_processes: ClassVar[bool] = False
    kept: MemoryEntries = field(default_factory=MemoryEntries)

    def open(self) -> RunStore:
        return RunStore(self.kept)

    def exists(self) -> bool:
        return bool(self.kept.scan(""))

    def entries(self) -> StoreEntries:
        return self.kept


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteDatabase:
    """A store in a SQLite file."""

    outlives_processes: ClassVar[bool] = True
    path: Path

    def open(self) -> RunStore:
        return wiring.run_store(self.path)

    def exists(self) -> bool:
        return self.path.exists()

    def entries(self) -> StoreEntries:
        return sqlite.SqliteEntries(self.path)

    def execute(self, statement: str, **values: Any) -> list[Any]:
        with contextlib.closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement, values).fetchall()


def make_start(run_id: str = "a", **more: Any) -> run_record.RunStart:
    """A run as it is entered into the journal."""
    return run_record.RunStart(
        **{
            "run_id": run_id,
            "table": "db.t",
            "table_uuid": "t",
            "table_location": "file:///t",
            "data_path": "file:///t/data",
            "metadata_path": "file:///t/metadata",
            "branch": "main",
            "process": run_record.Process(host="h", pid=1, started="1"),
            "started_ms": 10,
            **more,
        }
    )


def make_record(
    run_id: str, table: str = "db.t", started_ms: int = 10, *, effort: Effort | None = None, kind: Kind = Kind.COMPACTED
) -> run_record.RunRecord:
    """A run as it is in the history."""
    fields = {"kind": kind, "table": table, "sentence": "Done.", "run_id": run_id, "effort": effort or Effort()}
    outcome = parse(fields | ({"snapshot_id": 8} if kind is Kind.COMPACTED else {}))
    return run_record.RunRecord(
        run_id=run_id, table=table, version="1", started_ms=started_ms, finished_ms=started_ms + 1, outcome=outcome
    )


def at_once(place: Place, run_ids: Sequence[str], *calls: Callable[[RunStore, str], Any]) -> list[Any]:
    """Each call in a process of its own, or in a thread where others do not see the place: for one run after the other,
    all call at the same moment. The answers of each, by run."""
    if not place.outlives_processes:
        _set_barrier(threading.Barrier(len(calls)))
        with futures.ThreadPoolExecutor(len(calls)) as threads:
            return [future.result() for future in [threads.submit(_call_each, place, run_ids, call) for call in calls]]
    barrier = _CONTEXT.Barrier(len(calls))
    with futures.ProcessPoolExecutor(
        len(calls), mp_context=_CONTEXT, initializer=_set_barrier, initargs=(barrier,)
    ) as pool:
        return [future.result() for future in [pool.submit(_call_each, place, run_ids, call) for call in calls]]


def begin_again(store: RunStore, run_id: str) -> bool:
    return store.begin(make_start(run_id))


def publish_at_heartbeat(store: RunStore, run_id: str) -> bool:
    """Publish at the very time of the last heartbeat, so that only the order of calls decides."""
    return store.publishing(run_id, ATTEMPT.model_copy(update={"at_ms": 10}))


def take_over_as_begun(store: RunStore, run_id: str) -> UnfinishedRun | None:
    begun = run_record.UnfinishedRun(start=make_start(run_id), heartbeat_ms=10, ended=False, attempt=None)
    return store.take_over(begun)


def take_lease(store: RunStore, table: str) -> int | None:
    """The token of a lease that this process gets."""
    entry = run_record.CatalogEntry(catalog="c", table=table, table_uuid="t")
    wanted = lease.Lease(
        run_id=f"{os.getpid()}-{threading.get_ident()}",
        token=0,
        branch="main",
        holds=(lease.EVERYTHING,),
        process=processes.this_process(),
        since_ms=0,
    )
    given = leases.Leases(entries=store.entries).give(entry, wanted, [])
    return None if given is None else given.token


def publish_and_die(place: Place, attempt: Attempt) -> None:
    """Another process enters run `a` with an attempt, and is killed."""
    child = _CONTEXT.Process(target=_publish_and_die, args=(place, attempt))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL


_barrier: Any


def _set_barrier(barrier: Any) -> None:
    global _barrier
    _barrier = barrier


def _call_each(place: Place, run_ids: Sequence[str], call: Callable[[RunStore, str], Any]) -> list[Any]:
    store, answers = place.open(), []
    try:
        for run_id in run_ids:
            _barrier.wait()
            answers.append(call(store, run_id))
    except BaseException:
        _barrier.abort()  # the others would wait for ever
        raise
    return answers


def _publish_and_die(place: Place, attempt: Attempt) -> None:
    store = place.open()
    store.begin(make_start())
    store.publishing("a", attempt)
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class StoredPlan:
    """A plan as far as a checkpoint looks at it."""

    text: str = '{"id": "p"}'

    def model_dump_json(self) -> str:
        return self.text


def make_head(run_id: str = "d", **more: Any) -> checkpoint.CheckpointHead:
    """The head of a checkpoint that a run has begun."""
    entry = run_record.CatalogEntry(catalog="c", table="db.t", table_uuid="t")
    facts: dict[str, Any] = {"number": 0, "owner": run_id, "writers": (run_id,), "entry": entry, "branch": "main"}
    facts |= {"plan_id": "p", "version": "1", "cores": 1, "tasks": 1, "groups": 1, "bytes": 2, "saved_ms": 5}
    return checkpoint.CheckpointHead(run_id=run_id, **(facts | more))


def begin_with_checkpoint(store: RunStore, start: run_record.RunStart) -> None:
    """Enter a run that has begun to perform a plan."""
    store.begin(start)
    entry = run_record.CatalogEntry(catalog=start.catalog, table=start.table, table_uuid=start.table_uuid)
    head = make_head(start.run_id, entry=entry, saved_ms=start.started_ms)
    checkpoints.Checkpoints(store.entries).create(head, StoredPlan())  # type: ignore[arg-type]
