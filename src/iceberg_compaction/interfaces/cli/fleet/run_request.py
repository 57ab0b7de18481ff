"""The past run that a verb is about, and its table. The run store knows both; without it, the table given by name has
the ids of its runs in its history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.catalog import load_tables
from iceberg_compaction.interfaces.cli import run_names
from iceberg_compaction.model import plurals
from iceberg_compaction.operations.past_runs import run_commits

if TYPE_CHECKING:
    from iceberg_compaction.record.store import RunStore

_MOST_RUNS = 1000  # that are looked at for the last one that committed


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run and its table. `remembered`: its snapshots, as the store has them."""

    run_id: str
    table: str
    remembered: tuple[int, ...] = ()


def find(catalog: Any, store: RunStore | None, name: str, table: str | None, namespace: str | None) -> PastRun:
    """The run of this name; `latest` is the last one that committed something. ConfigError: neither the store nor the
    table has it, or several are meant."""
    full = None if table is None else load_tables.full_name(catalog, table, namespace)
    try:
        named = run_names.find(
            store, _latest(store, full) if name.strip().lower() == run_names.LATEST else name, table=full
        )
    except (errors.ConfigError, errors.StoreError):
        if full is None:
            raise
        return _from_table(catalog, full, name, store)
    remembered = () if named.record is None else named.record.outcome.snapshot_ids
    return PastRun(run_id=named.run_id, table=full or named.table, remembered=remembered)


def _latest(store: RunStore | None, table: str | None) -> str:
    """The id of the last run that committed something."""
    records = [] if store is None else store.history(table, limit=_MOST_RUNS)
    for record in records:
        if record.outcome.snapshot_ids:
            return record.run_id
    of_table = "" if table is None else f" of {table}"
    raise errors.ConfigError(f"No run{of_table} in the run store has committed anything; name the table with --table.")


def _from_table(catalog: Any, table: str, name: str, store: RunStore | None) -> PastRun:
    """The run by the history of its table."""
    wanted = name.strip().lower()
    is_latest = wanted == run_names.LATEST
    run_ids = run_commits.full_id(load_tables.load_table(catalog, table).metadata, "" if is_latest else wanted)
    if not run_ids:
        if (other := _of_another_table(store, name)) is not None:
            raise errors.ConfigError(
                f"Run {other.run_id} is one of {other.table}, and not of {table}; leave out --table."
            )
        raise errors.ConfigError(
            f"Neither the run store nor the history of {table} has the run {name!r}; its snapshots may have expired."
        )
    if len(run_ids) > 1 and not is_latest:
        raise errors.ConfigError(f"Several runs begin with {name!r}: {plurals.listed(run_ids[:5])}; give more of it.")
    return PastRun(run_id=run_ids[0], table=table)


def _of_another_table(store: RunStore | None, name: str) -> run_names.NamedRun | None:
    """The run of this name, whatever its table; None: the store has none, or several."""
    try:
        return None if name.strip().lower() == run_names.LATEST else run_names.find(store, name)
    except (errors.ConfigError, errors.StoreError):
        return None
