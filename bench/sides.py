"""Two compactors side by side, each in a warm process of its own: this product on embedded Spark, and Iceberg Java on
Spark. A step is a function by name; its wall clock, its CPU seconds and the memory of its Python workers come back."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from multiprocessing.connection import Connection

Steps = dict[str, "Callable[..., Any]"]
MB = 2**20


@dataclass(frozen=True, slots=True)
class Measured:
    """A step that was performed."""

    value: Any
    seconds: float
    cpu_seconds: float  # user and system, of the process and all its children
    worker_mb: float  # the most that a Python worker of its JVM held; 0: there is none


class Side:
    """A process with a Spark session, until `close`. `open_steps` runs in it and returns its steps."""

    def __init__(self, open_steps: Callable[..., Steps], *arguments: Any, environ: Mapping[str, str] | None = None):
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, dict(environ or {}), open_steps, arguments))
        self._process.start()
        other.close()

    def do(self, step: str, *arguments: Any) -> Measured:
        """Perform a step and wait for its end."""
        for worker in self._workers():
            _forget_peak(worker.pid)
        before = self._cpu_seconds()
        self._pipe.send((step, arguments))
        value, seconds, error = self._pipe.recv()
        if error:
            raise RuntimeError(f"{step}{arguments} failed:\n{error}")
        spent = self._cpu_seconds() - before
        return Measured(value, seconds, spent, max((_peak_mb(worker.pid) for worker in self._workers()), default=0.0))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._pipe.send(("", ()))
        self._process.join(60)
        if self._process.is_alive():
            self._process.terminate()

    def _tree(self) -> list[psutil.Process]:
        parent = psutil.Process(self._process.pid)
        return [parent, *parent.children(recursive=True)]

    def _cpu_seconds(self) -> float:
        """Of processes that have ended, too: their parents keep the count."""
        total = 0.0
        for process in self._tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def _workers(self) -> list[psutil.Process]:
        """Python processes below a JVM. Short-lived ones, such as shells of a JVM, may end while they are listed."""
        workers: list[psutil.Process] = []
        for process in self._tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                below = process.children(recursive=True) if process.name() == "java" else []
                workers += [child for child in below if _is_python(child)]
        return workers


def _is_python(process: psutil.Process) -> bool:
    try:
        return "python" in process.name()
    except psutil.NoSuchProcess:
        return False


def _forget_peak(pid: int) -> None:
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def _peak_mb(pid: int) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _serve(
    pipe: Connection, environ: dict[str, str], open_steps: Callable[..., Steps], arguments: tuple[Any, ...]
) -> None:
    os.environ.update(environ)
    steps = open_steps(*arguments)
    while True:
        step, given = pipe.recv()
        if not step:
            return
        started = time.perf_counter()
        value, error = None, ""
        try:
            value = steps[step](*given)
        except Exception:  # noqa: BLE001 - goes to the other side
            error = traceback.format_exc()
        pipe.send((value, time.perf_counter() - started, error))


def open_ours(root: Path, cores: int) -> Steps:
    """This product through its library, at its default level of proof, with one session for all runs."""
    from bench import rewrite
    from iceberg_compaction import Compactor

    opened = contextlib.ExitStack()
    compactors: dict[tuple[int | None, str], Compactor] = {}

    def compact(table: str, target: int | None, mode: str) -> dict[str, Any]:
        if (target, mode) not in compactors:
            options = {"rewrite-all": True, "copy-row-groups": mode}
            made = Compactor(
                rewrite.connect(root),
                target_file_size=target,
                options=options,
                conf={"spark.master": f"local[{cores}]"},
            )
            compactors[target, mode] = opened.enter_context(made)
        outcome = compactors[target, mode].compact_table(table)
        assert outcome.kind.value == "compacted", outcome.sentence
        return {"effort": outcome.effort.sentence, "snapshots": outcome.snapshot_ids}

    return {"compact": compact}


def open_java(root: Path, cores: int) -> Steps:
    """Iceberg's own procedure, and an independent eye on tables."""
    from tests.factories import java

    from bench import scans, shape_tables

    spark = java.session(root, cores)

    def compact(table: str, target: int | None) -> None:
        options = "'rewrite-all', 'true'" + (f", 'target-file-size-bytes', '{target}'" if target else "")
        spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table}', options => map({options}))").collect()

    return {
        "compact": compact,
        "make": lambda shape, share: shape_tables.make(spark, root, shape, share),
        "checksum": lambda table: scans.checksum(spark, table),
        "query": lambda query: tuple(map(str, spark.sql(query).collect()[0])),
        "schema": lambda table: spark.table(f"lake.{table}").schema,
    }
