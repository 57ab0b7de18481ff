"""The run that a person means by RUN: a run id, its beginning, or `latest`. Past runs and unfinished ones count."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import plurals, table_names
from iceberg_compaction.record import past_runs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iceberg_compaction.model.run_record import RunRecord, UnfinishedRun
    from iceberg_compaction.record.store import RunStore

LATEST = "latest"
SHORTEST = 4  # characters of the beginning of an id
_MOST_NAMED = 5
_MOST_READ = 100  # runs


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRun:
    """A run that the store has: in the history, in the journal, or in both if it ended and may have left files."""

    run_id: str
    record: RunRecord | None  # None: it has not ended, or its end was not written down
    unfinished: UnfinishedRun | None  # None: it has ended and left no files

    @property
    def table(self) -> str:
        if self.record is not None:
            return self.record.table
        return "" if self.unfinished is None else self.unfinished.start.table

    @property
    def started_ms(self) -> int:
        if self.record is not None:
            return self.record.started_ms
        return 0 if self.unfinished is None else self.unfinished.start.started_ms

    @property
    def words(self) -> str:
        """The run in a list of runs."""
        end = "unfinished" if self.record is None else self.record.outcome.kind.value
        moment = datetime.fromtimestamp(self.started_ms / 1000, timezone.utc)
        return f"{self.run_id} ({self.table}, {moment:%Y-%m-%d %H:%M} UTC, {end})"


def find(store: RunStore | None, name: str, *, table: str | None = None) -> NamedRun:
    """The run of this name. ConfigError: there is none, or there are several. `table`: a name or pattern that its table
    must have."""
    wanted = name.strip()
    if store is None:
        raise errors.ConfigError("There is no run store; name one with --store.")
    if wanted.lower() == LATEST:
        return _latest(store, table)
    if (exact := _run(store, wanted)) is not None and _fits(exact, table):
        return exact
    if len(wanted) < SHORTEST:
        raise errors.ConfigError(
            f"{name!r} is too short for the beginning of a run id; give {SHORTEST} characters or more, or `latest`."
        )
    ids = store.run_ids(wanted.lower(), limit=_MOST_READ)
    runs = [run for run_id in ids if (run := _run(store, run_id)) is not None and _fits(run, table)]
    if len(runs) == 1:
        return runs[0]
    if runs:
        more = "or more " if len(ids) == _MOST_READ else ""
        raise errors.ConfigError(f"{len(runs)} {more}runs begin with {name!r}: {_listed(runs)}; give more characters.")
    raise errors.ConfigError(_unknown(store, name, table))


def _run(store: RunStore, run_id: str) -> NamedRun | None:
    record = store.run(run_id)
    journal = next((run for run in store.unfinished() if run.start.run_id == run_id), None)
    if record is None and journal is None:
        return None
    return NamedRun(run_id=run_id, record=record, unfinished=journal)


def _fits(run: NamedRun, table: str | None) -> bool:
    return table is None or table_names.matches(run.table, table)


def _latest(store: RunStore, table: str | None) -> NamedRun:
    runs = _newest(store, table, limit=1)
    if not runs:
        raise errors.ConfigError(f"There is no run{_of(table)} in the run store.")
    return runs[0]


def _newest(store: RunStore, table: str | None, limit: int) -> list[NamedRun]:
    """The newest runs, with and without an end."""
    wanted = past_runs.HistoryFilter(tables=() if table is None else (table,), limit=limit)
    journal = {run.start.run_id: run for run in store.unfinished() if wanted.has_table(run.start.table)}
    records = {record.run_id: record for record in past_runs.select(store, wanted)}
    runs = [
        NamedRun(run_id=run_id, record=records.get(run_id) or store.run(run_id), unfinished=journal.get(run_id))
        for run_id in {**journal, **records}
    ]
    return sorted(runs, key=lambda run: run.started_ms, reverse=True)[:limit]


def _unknown(store: RunStore, name: str, table: str | None) -> str:
    runs = _newest(store, table, limit=_MOST_READ)
    if not runs:
        return f"There is no run {name!r}: the run store has no run{_of(table)}."
    near = difflib.get_close_matches(name.lower(), [run.run_id for run in runs], n=1, cutoff=0.8)
    if near:
        return f"There is no run {name!r}{_of(table)}; {near[0]} is near, and `iceberg-compact history` lists all."
    return f"There is no run {name!r}{_of(table)}; the last ones are {_listed(runs[:_MOST_NAMED])}."


def _of(table: str | None) -> str:
    return "" if table is None else f" of {table}"


def _listed(runs: Iterable[NamedRun]) -> str:
    names = [run.words for run in runs]
    more = len(names) - _MOST_NAMED
    return plurals.listed([*names[:_MOST_NAMED], *([f"{more:,} more"] if more > 0 else [])])
