"""The run that a person means by RUN: a run id, its beginning, or `latest`. Past runs and unfinished ones count."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import plurals, table_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iceberg_compaction.model.run_record import RunRecord, UnfinishedRun
    from iceberg_compaction.record.store import RunStore

LATEST = "latest"
SHORTEST = 4  # characters of the beginning of an id
_MOST_NAMED = 5
_MOST_READ = 100_000


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
        raise errors.ConfigError("There is no run store; name one with --state FILE.")
    runs = [run for run in _runs(store) if table is None or table_names.matches(run.table, table)]
    if wanted.lower() == LATEST:
        return _latest(runs, table)
    exact = [run for run in runs if run.run_id == wanted]
    if exact:
        return exact[0]
    if len(wanted) < SHORTEST:
        raise errors.ConfigError(
            f"{name!r} is too short for the beginning of a run id; give {SHORTEST} characters or more, or `latest`."
        )
    beginning = [run for run in runs if run.run_id.startswith(wanted.lower())]
    if len(beginning) == 1:
        return beginning[0]
    if beginning:
        raise errors.ConfigError(
            f"{plurals.count(len(beginning), 'run')} begin with {name!r}: {_listed(beginning)}; give more characters."
        )
    raise errors.ConfigError(_unknown(name, runs, table))


def _latest(runs: list[NamedRun], table: str | None) -> NamedRun:
    if not runs:
        raise errors.ConfigError(f"There is no run{_of(table)} in the run store.")
    return runs[0]


def _runs(store: RunStore) -> list[NamedRun]:
    """All runs, the newest first."""
    records = {record.run_id: record for record in store.history(limit=_MOST_READ)}
    journal = {run.start.run_id: run for run in store.unfinished()}
    runs = (
        NamedRun(run_id=run_id, record=records.get(run_id), unfinished=journal.get(run_id))
        for run_id in {**journal, **records}
    )
    return sorted(runs, key=lambda run: run.started_ms, reverse=True)


def _unknown(name: str, runs: list[NamedRun], table: str | None) -> str:
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
