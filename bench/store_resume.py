"""What checkpoints cost, and what they save. The CPU seconds of a run of 1,000 tasks with a run store (journal, lease,
checkpoints, events) and without one, in interleaved pairs; and of a run that is killed after 90 % of its tasks, the
share of the bytes that are read again when it is resumed."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType
from tests.factories import lake as lakes
from tests.factories import store_servers

from iceberg_compaction import Compactor, RunMetrics
from iceberg_compaction.execute.engines.inline_engine import InlineEngine
from iceberg_compaction.execute.worker import execute_task
from iceberg_compaction.model.events import TaskEnded
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.model.events import Event

TASKS, ROWS, FILES = 1_000, 8_000, 2  # rows of a file, files of a task
REACH, AGAIN = 0.03, 0.12
ROUNDS = 4
_KILLED = 9
OPTIONS = {"min-input-files": 2, "partial-progress": False}
_SCHEMA = Schema(
    NestedField(1, "part", LongType()),
    NestedField(2, "id", LongType()),
    NestedField(3, "name", StringType()),
    NestedField(4, "value", DoubleType()),
)
_SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "part"), spec_id=0)


def bars(quick: bool) -> list[dict[str, Any]]:
    """The overhead in each place, and the share that is read again."""
    tasks = TASKS // 10 if quick else TASKS
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder), tasks)
        results = [_overhead(ground, kind, 1 if quick else ROUNDS) for kind in ("sqlite", "postgresql")]
        return [*results, _read_again(ground)]


class Ground:
    """A lake that is put back before each run, since paths in metadata are absolute."""

    def __init__(self, folder: Path, tasks: int) -> None:
        self.folder, self.tasks = folder, tasks
        self.lake = lakes.file_lake(folder / "lake")
        table = lakes.make_table(self.lake.catalog, "db.t", _SCHEMA, spec=_SPEC)
        for number in range(FILES):
            table.append(_rows(tasks, number))
        self.lake.catalog.close()
        shutil.copytree(folder / "lake", folder / "copy")

    def compact(self, state: str | None, **more: Any) -> Any:
        """One run on the table as it was made."""
        self.put_back()
        compactor = Compactor(self.lake.settings, options=OPTIONS, state=state, engine="inline", **more)
        return compactor.compact_table("db.t")

    def put_back(self) -> None:
        shutil.rmtree(self.folder / "lake")
        shutil.copytree(self.folder / "copy", self.folder / "lake")


def _rows(tasks: int, number: int) -> pa.Table:
    random = np.random.default_rng(number)
    count = tasks * ROWS
    return pa.table(
        {
            "part": pa.array(np.repeat(np.arange(tasks), ROWS)),
            "id": pa.array(random.integers(0, 10**9, count)),
            "name": pa.array(random.integers(0, 5000, count)).cast(pa.string()),
            "value": pa.array(random.random(count)),
        }
    )


def _overhead(ground: Ground, kind: str, rounds: int) -> dict[str, Any]:
    shares = []
    ground.compact(None)  # to be warm
    for number in range(rounds):
        with _place(kind, ground.folder / f"{kind}-{number}.db") as url:
            # The second run of a pair finds the system busy with files of the first, so each side is second in turn.
            order = (None, url) if number % 2 else (url, None)
            seconds = {place: _cpu_seconds(ground, place) for place in order}
            without, with_store = seconds[None], seconds[url]
        print(f"  {kind}: {without:.2f} s without a store, {with_store:.2f} s with one")
        shares.append(with_store / without - 1)
    share = round(statistics.median(shares), 4)
    name = f"overhead of store, checkpoints and metrics, {ground.tasks:,} tasks, {kind}, CPU"
    return {"name": name, "value": share, "reach": f"<= {REACH}", "ok": share <= REACH}


def _cpu_seconds(ground: Ground, url: str | None) -> float:
    """With a store there are metrics as well, in a file."""
    ground.put_back()
    began = time.process_time()
    with RunMetrics(file=str(ground.folder / "bench.prom")) if url else contextlib.nullcontext() as metrics:
        on_event = None if metrics is None else metrics.on_event
        compactor = Compactor(ground.lake.settings, options=OPTIONS, state=url, engine="inline", on_event=on_event)
        outcome = compactor.compact_table("db.t")
    spent = time.process_time() - began
    assert outcome.kind.value == "compacted", outcome.sentence
    assert outcome.groups == ground.tasks
    compactor.catalog.close()
    return spent


def _read_again(ground: Ground) -> dict[str, Any]:
    """The run is killed in a process of its own."""
    state = str(ground.folder / "killed.db")
    everything = sum(event.bytes_read for event in _events(ground, None, resumes=False))
    ground.put_back()
    settings = ground.lake.settings.model_dump_json()
    child = multiprocessing.get_context("spawn").Process(target=_die, args=(settings, state, ground.tasks * 9 // 10))
    child.start()
    child.join()
    assert child.exitcode == _KILLED
    again = sum(event.bytes_read for event in _events(ground, state, resumes=True))
    share = round(again / everything, 4)
    name = f"bytes read again by resume, killed at 90 % of {ground.tasks:,} tasks"
    return {"name": name, "value": share, "reach": f"<= {AGAIN}", "ok": share <= AGAIN}


def _events(ground: Ground, state: str | None, *, resumes: bool) -> list[TaskEnded]:
    ended: list[TaskEnded] = []

    def on_event(event: Event) -> None:
        if isinstance(event, TaskEnded):
            ended.append(event)

    if not resumes:
        ground.compact(state, on_event=on_event)
        return ended
    compactor = Compactor(ground.lake.settings, options=OPTIONS, state=state, engine="inline", on_event=on_event)
    outcome = compactor.compact_table("db.t")
    assert outcome.kind.value == "compacted", outcome.sentence
    return ended


def _die(settings: str, state: str, after: int) -> None:
    """A run that ends at once when so many tasks are done."""
    done = 0

    def rewrite(*given: Any) -> Any:
        nonlocal done
        if done == after:
            os._exit(_KILLED)
        done += 1
        return execute_task.rewrite(*given)

    catalog = CatalogSettings.model_validate_json(settings)
    Compactor(catalog, options=OPTIONS, state=state, engine=InlineEngine(rewrite=rewrite)).compact_table("db.t")


@contextlib.contextmanager
def _place(kind: str, path: Path) -> Iterator[str]:
    """The address of an empty store."""
    if kind == "sqlite":
        yield str(path)
        return
    with store_servers.running(kind) as server:
        yield server.new_url()
