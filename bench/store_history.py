"""The time of `history` with every kind of filter in a store of 100,000 runs and 1,000,000 events. A store object of
its own for each call, as a command has it."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.factories import store_servers, stores

from iceberg_compaction.interfaces import run_stores
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.record import past_runs
from iceberg_compaction.record.entries import keys
from iceberg_compaction.record.rules import run_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS, EVENTS_OF_RUN, TABLES = 100_000, 10, 200
REACH_S = 0.2
ROUNDS = 5
STEP_MS = 60_000  # between two runs
_AT_ONCE = 5_000  # keys; more than a change of a store may have
KINDS = (Kind.COMPACTED, Kind.HEALTHY, Kind.COMPACTED, Kind.CONFLICT)
RARE = 20_000  # each of so many runs failed


def bars(quick: bool) -> list[dict[str, Any]]:
    """A bar for each place: the slowest filter, the best of some rounds."""
    runs = RUNS // 10 if quick else RUNS
    results: list[dict[str, Any]] = []
    for kind in ("sqlite",) if quick else ("sqlite", "postgresql", "redis"):
        with _place(kind) as url:
            began = time.perf_counter()
            fill(url, runs)
            print(f"  {kind}: filled in {time.perf_counter() - began:.0f} s")
            seconds = {name: _best(url, how) for name, how in _filters(runs).items()}
        for name, value in seconds.items():
            print(f"  {kind}, history {name:40} {1000 * value:.1f} ms")
        slowest = round(max(seconds.values()), 4)
        name = f"history of {runs:,} runs and {runs * EVENTS_OF_RUN:,} events, {kind}, slowest filter, s"
        results.append({"name": name, "value": slowest, "reach": f"<= {REACH_S}", "ok": slowest <= REACH_S})
    return results


def fill(url: str, runs: int) -> None:
    """Write the runs and their events."""
    entries = run_stores.open_entries(url)
    everything = itertools.chain.from_iterable(_entries(number) for number in range(runs))
    while part := dict(itertools.islice(everything, _AT_ONCE)):
        entries.change(part)
    entries.close()


def _entries(number: int) -> Iterator[tuple[str, str]]:
    chance = random.Random(number)
    kind = Kind.FAILED if number % RARE == 7 else KINDS[number % len(KINDS)]
    effort = Effort(copied_bytes=chance.randrange(1 << 30), copy_seconds=2.5) if kind is Kind.COMPACTED else None
    run_id = f"{chance.getrandbits(128):032x}"
    record = stores.make_record(run_id, _table(number), number * STEP_MS, effort=effort, kind=kind)
    yield from run_rows.history_entries(run_id, run_rows.history_row(record)).items()
    for at in range(EVENTS_OF_RUN):
        event = {"number": at, "at_ms": number * STEP_MS + at, "event": {"kind": "group-committed", "table": "db.t"}}
        yield keys.key("event", run_id, at), json.dumps(event)


def _table(number: int) -> str:
    return "db.busy" if number % 2 else f"db.t{number % TABLES}"


def _filters(runs: int) -> dict[str, dict[str, Any]]:
    middle = runs * STEP_MS // 2
    return {
        "of all": {},
        "of the busiest table": {"table": "db.busy"},
        "of one table": {"table": "db.t4"},
        "of no table": {"table": "db.none"},
        "of a rare kind": {"kind": Kind.FAILED},
        "of a table and a rare kind": {"table": "db.busy", "kind": Kind.FAILED},
        "until the middle": {"until_ms": middle},
        "since the middle, a rare kind": {"since_ms": middle, "kind": Kind.FAILED},
        "of a pattern for all tables": {"tables": "db.*"},
        "of a pattern for half the tables, a rare kind": {"tables": "db.t*", "kind": Kind.FAILED},
        "of a pattern for a tenth of the tables": {"tables": "db.t1?"},
        "of a pattern for no table": {"tables": "none.*"},
        "a day in the middle of one table": {"table": "db.t4", "since_ms": middle, "until_ms": middle + 86_400_000},
    }


def _filter(
    tables: str | None = None, table: str | None = None, kind: Kind | None = None, **times: int
) -> past_runs.HistoryFilter:
    name = tables or table
    return past_runs.HistoryFilter(
        tables=() if name is None else (name,), kinds=frozenset() if kind is None else frozenset({kind}), **times
    )


def _best(url: str, how: dict[str, Any]) -> float:
    return min(_seconds(url, how) for _ in range(ROUNDS))


def _seconds(url: str, how: dict[str, Any]) -> float:
    began = time.perf_counter()
    store = run_stores.open_store(url, {})
    past_runs.select(store, _filter(**how))
    seconds = time.perf_counter() - began
    store.entries.close()
    return seconds


@contextlib.contextmanager
def _place(kind: str) -> Iterator[str]:
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="bench-store-") as folder:
            yield str(Path(folder, "runs.db"))
    else:
        with store_servers.running(kind) as server:
            yield server.new_url()
