"""Compactions in processes of their own, to be killed. `python -m tests.lab.child` is a nursery: it imports all once
and then, for each job that comes in as a line of JSON, forks a child that does it, and tells how the child ended.
A job names the point where the child kills itself (a function by its dotted name, before or after its n-th call) or the
time after which the nursery kills it. A child may also be suspended at the point, and go on later. Nothing in the
product knows of this."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
_PRELOADED = (
    "datafusion",
    "pyarrow.parquet",
    "pyiceberg.catalog.rest",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "iceberg_compaction.interfaces.library",
    "iceberg_compaction.execute.engines.inline_engine",
    "iceberg_compaction.execute.worker.execute_task",
    "tests.lab.meddle",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One compaction, or one rewrite of manifests."""

    settings: str  # CatalogSettings as JSON
    table: str
    state: str  # the file of the run store
    options: dict[str, Any]
    strategy: str = "small-files"
    manifests: bool = False  # not data files, but manifests are rewritten
    target: str = ""  # the function that kills, by its dotted name
    when: str = "before"  # its n-th call, or after
    nth: int = 1
    meddle: str = ""  # what another writer does meanwhile, see tests.lab.meddle
    seconds: float = 0.0  # after which the nursery kills the child, if no function is named
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


class Nursery:
    """A running nursery."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, job: Job) -> End:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        told = self._process.stdout.readline()
        assert told, "the nursery is gone"
        return End(**json.loads(told))

    def resume(self, stopped: int) -> End:
        """A child that was suspended goes on."""
        return self.run(Job(settings="", table="", state="", options={}, resumes=stopped))


@contextmanager
def nursery(environment: dict[str, str] | None = None) -> Iterator[Nursery]:
    """Start one and stop it in the end."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.lab.child"]
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
        told = _raise(Job(**json.loads(line)))
        sys.stdout.write(json.dumps(asdict(told)) + "\n")
        sys.stdout.flush()


def _raise(job: Job) -> End:
    started = time.monotonic()
    if job.resumes:
        pid = job.resumes
        os.kill(pid, signal.SIGCONT)
    elif not (pid := os.fork()):
        _live(job)
    if job.seconds:
        timer = threading.Timer(job.seconds, os.kill, (pid, signal.SIGKILL))
        timer.start()
    _, status = os.waitpid(pid, os.WUNTRACED)
    if job.seconds:
        timer.cancel()
        timer.join()
    if os.WIFSTOPPED(status):
        return End(killed=False, status=status, seconds=time.monotonic() - started, stopped=pid)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return End(killed=killed, status=status, seconds=time.monotonic() - started)


def _live(job: Job) -> None:
    """The whole life of a child. Its output is the nursery's standard error."""
    os.dup2(2, 1)
    status = 1
    try:
        _compact(job)
        status = 0
    except BaseException:  # noqa: BLE001 - nothing may get back into the nursery's own loop
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _compact(job: Job) -> None:
    from tests.lab import meddle

    from iceberg_compaction import CatalogSettings, Compactor

    settings = CatalogSettings.model_validate_json(job.settings)
    if job.host:
        _move(job.host, job.late_ms)
    if job.target:
        kill_at(job.target, job.when, job.nth, signal.SIGSTOP if job.stops else signal.SIGKILL)
    if job.meddle:
        meddle.prepare(job.meddle, settings, job.table)
    compactor = Compactor(settings, job.strategy, options=job.options, engine="inline", state=job.state)
    (compactor.rewrite_manifests if job.manifests else compactor.compact_table)(job.table)


def _move(host: str, late_ms: int) -> None:
    """To another machine, with a clock of its own."""

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def new_run(**given: Any) -> Any:
            run = real(**given)
            return replace(run, clock=lambda: run.clock() + late_ms)

        return new_run

    replace_function("iceberg_compaction.interfaces.wiring.new_run", wrap)
    replace_function("iceberg_compaction.record.processes._host", lambda real: lambda: host)


def kill_at(target: str, when: str, nth: int, how: int = signal.SIGKILL) -> None:
    """Have this process killed, or suspended, before or after the n-th call of a function or method."""

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        calls = 0
        lock = threading.Lock()

        def deadly(*given: Any, **more: Any) -> Any:
            nonlocal calls
            with lock:
                calls += 1
                mine = calls == nth
            if mine and when == "before":
                os.kill(os.getpid(), how)
            result = real(*given, **more)
            if mine and when == "after":
                os.kill(os.getpid(), how)
            return result

        return deadly

    replace_function(target, wrap)


def replace_function(target: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put a wrapped function in place of one that is named by module, class and name."""
    owner, name = _owner(target)
    original = vars(owner)[name]
    wrapped = wrap(getattr(original, "__func__", original))
    setattr(owner, name, staticmethod(wrapped) if isinstance(original, staticmethod) else wrapped)


def _owner(target: str) -> tuple[Any, str]:
    path, _, name = target.rpartition(".")
    try:
        return importlib.import_module(path), name
    except ModuleNotFoundError:
        module, _, kind = path.rpartition(".")
        return getattr(importlib.import_module(module), kind), name


if __name__ == "__main__":
    main()
