"""Compactions in processes of their own, to be killed as `kill -9` or a lost machine would. `python -m
tests.factories.nursery` is a nursery: it imports all once and then, for each job that comes in as a line of JSON, forks
a child that does it, and answers how the child ended. A job names the moment at a port (see tests.factories.ports) at
which the child kills itself, or the time after which the nursery kills it. A child may also be suspended at the moment,
and go on later."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tests.factories import ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iceberg_compaction import CatalogSettings, Outcome
    from iceberg_compaction.record.runs import Run

ROOT = Path(__file__).resolve().parents[2]
_PRELOADED = (
    "datafusion",
    "pyarrow.parquet",
    "pyiceberg.catalog.rest",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "iceberg_compaction.interfaces.wiring",
    "iceberg_compaction.execute.engines.inline_engine",
    "iceberg_compaction.execute.worker.execute_task",
    "tests.factories.ports",
    "tests.factories.work",
    "tests.lab.meddle",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One compaction, rewrite of manifests, exchange of delete files, undo or expiry."""

    settings: str  # CatalogSettings as JSON
    table: str
    state: str  # the file of the run store
    options: dict[str, Any]
    run_id: str = ""  # empty: one of its own
    manifests: bool = False  # not data files, but manifests are rewritten
    deletes: bool = False  # not data files, but delete files are replaced
    goes_on: str = ""  # no run of its own: this one is resumed
    undoes: str = ""  # nothing is rewritten: this run is undone
    expires: bool = False  # nothing is rewritten: all snapshots expire that may
    counts: bool = False  # nothing is rewritten: statistics are made
    weather: int = 0  # a seed: storage and catalog fail now and then, and only a good end is one, see tests.lab
    call: str = ""  # the call at a port at which the child is killed, and the other fields of that Moment
    when: str = ports.BEFORE
    nth: int = 1
    since: str = ""
    meddle: str = ""  # the act of another writer before the first commit is sent, see tests.lab.meddle
    lists_calls: bool = False  # the answer has the calls at ports
    seconds: float = 0.0  # after which the nursery kills the child, if no call is named
    stops: bool = False  # at the point the child is not killed but suspended
    host: str = ""  # the machine that it takes itself to be on; empty: this one
    late_ms: int = 0  # what that machine's clock is ahead
    resumes: int = 0  # no new child: the one with this number goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a child ended."""

    killed: bool
    status: int  # of its exit, if it was not killed
    seconds: float
    stopped: int = 0  # its number, if it was suspended and did not end
    calls: dict[str, int] = field(default_factory=dict)  # at ports, if they were asked for and it was not killed


class Nursery:
    """A running nursery."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, job: Job) -> End:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the nursery is gone"
        return End(**json.loads(answer))

    def resume(self, stopped: int) -> End:
        """A child that was suspended goes on."""
        return self.run(Job(settings="", table="", state="", options={}, resumes=stopped))


@contextmanager
def nursery(environment: dict[str, str] | None = None) -> Iterator[Nursery]:
    """Start one and stop it in the end."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.factories.nursery"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
    )
    with process:
        yield Nursery(process)
        assert process.stdin is not None
        process.stdin.close()


def main() -> None:
    for module in _PRELOADED:
        importlib.import_module(module)
    for line in sys.stdin:
        end = _raise(Job(**json.loads(line)))
        sys.stdout.write(json.dumps(asdict(end)) + "\n")
        sys.stdout.flush()


def _raise(job: Job) -> End:
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as calls:
        if job.resumes:
            pid = job.resumes
            os.kill(pid, signal.SIGCONT)
        elif not (pid := os.fork()):
            _live(job, calls)
        if job.seconds:
            timer = threading.Timer(job.seconds, os.kill, (pid, signal.SIGKILL))
            timer.start()
        _, status = os.waitpid(pid, os.WUNTRACED)
        if job.seconds:
            timer.cancel()
            timer.join()
        seconds = time.monotonic() - started
        if os.WIFSTOPPED(status):
            return End(killed=False, status=status, seconds=seconds, stopped=pid)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        calls.seek(0)
        return End(killed=killed, status=status, seconds=seconds, calls=json.loads(calls.read() or "{}"))


def _live(job: Job, calls: IO[str]) -> None:
    """The whole life of a child. Its output is the nursery's standard error."""
    os.dup2(2, 1)
    status = 1
    try:
        _work(job)
        if job.lists_calls:
            json.dump(ports.watch.calls, calls)
            calls.flush()
        status = 0
    except BaseException:  # noqa: BLE001 - nothing may get back into the nursery's own loop
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _work(job: Job) -> None:
    """All ports of the run are handed in, watched."""
    from iceberg_compaction import CatalogSettings
    from iceberg_compaction.catalog import connect
    from iceberg_compaction.interfaces import wiring

    settings = CatalogSettings.model_validate_json(job.settings)
    watch = ports.watch
    watch.acts += _acts(job, settings)
    watched_io = {**settings.properties, "py-io-impl": ports.FILE_IO}
    if job.weather:
        from tests.lab import bad_weather

        bad_weather.begin(job.weather)
        watched_io["py-io-impl"] = bad_weather.FILE_IO
    catalog = watch.catalog(connect.connect(settings.model_copy(update={"properties": watched_io})))
    if job.weather:
        catalog = bad_weather.catalog(catalog)
    run = wiring.new_run(store=watch.store(wiring.run_store(job.state)), on_event=watch.on_event)
    clock, run_id = run.clock, job.run_id or run.run_id
    run = replace(run, run_id=run_id, clock=lambda: clock() + job.late_ms, cache=watch.cache(run.cache))
    if job.host:
        _move(job.host)
    _write_at_once()
    outcome = _outcome(job, catalog, run)
    if job.weather and outcome.kind.value not in ("compacted", "healthy"):
        raise RuntimeError(outcome.sentence)


def _outcome(job: Job, catalog: Any, run: Run) -> Outcome:
    from tests.factories import work

    from iceberg_compaction import Policy

    engines = ports.watch.engines()
    if job.manifests:
        return work.rewrite_manifests(catalog, job.table, run)
    if job.deletes:
        return work.clean_deletes(catalog, job.table, engines, run)
    if job.undoes:
        return work.undo(catalog, job.table, job.undoes, engines, run)
    if job.expires:
        return work.expire(catalog, job.table, run)
    if job.counts:
        return work.refresh_statistics(catalog, job.table, engines, run)
    if job.goes_on:
        return work.resume(catalog, job.goes_on, engines, run)
    return work.compact_table(catalog, job.table, Policy.model_validate(job.options), engines, run)


def _acts(job: Job, settings: CatalogSettings) -> Iterator[tuple[ports.Moment, Callable[[], None]]]:
    if job.meddle:
        from tests.lab import meddle

        yield meddle.MOMENT, lambda: meddle.meddle(job.meddle, settings, job.table)
    if job.call:
        how = signal.SIGSTOP if job.stops else signal.SIGKILL
        moment = ports.Moment(call=job.call, when=job.when, nth=job.nth, since=job.since)
        yield moment, lambda: os.kill(os.getpid(), how)


def _write_at_once() -> None:
    """Entries for the run store do not wait for a second, so that every kill finds the same ones there."""
    from iceberg_compaction.record import outbox

    for name in ("put", "put_later"):
        setattr(outbox.Outbox, name, _flushing(getattr(outbox.Outbox, name)))


def _flushing(put: Callable[..., None]) -> Callable[..., None]:
    def at_once(box: Any, *given: Any) -> None:
        put(box, *given)
        box.try_flush()

    return at_once


def _move(host: str) -> None:
    """To another machine. No run is given the name of its machine, so it is replaced where it is read."""
    from iceberg_compaction.record import processes

    processes._host = lambda: host


if __name__ == "__main__":
    main()
