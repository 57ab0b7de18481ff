"""The first format of a run store: a SQLite file with the tables `runs` and `journal`. It is read, and brought forward
to entries, for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.record.rules import run_rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

COLUMNS = {
    "runs": frozenset({"run_id", "table_name", "kind", "started_ms", "finished_ms", "record"}),
    "journal": frozenset({"run_id", "table_uuid", "start", "seen_ms", "ended", "attempt", "settled_ms"}),
}
TABLES = COLUMNS.keys()


def take(connection: sqlite3.Connection) -> Iterator[dict[str, str | None]]:
    """The entries of all rows. Their tables are gone afterwards: an earlier version that still runs is refused, and
    cannot go on in tables that nobody reads."""
    tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
    if "runs" in tables:
        for run_id, *values, text in connection.execute(
            "select run_id, table_name, kind, started_ms, finished_ms, record from runs"
        ).fetchall():
            row = run_rows.HistoryRow(**dict(zip(run_rows.HISTORY_FACTS, values, strict=True)), record=text)
            yield dict(run_rows.history_entries(run_id, row))
        connection.execute("drop table runs")
    if "journal" in tables:
        for run_id, start, *values in connection.execute(
            "select run_id, start, table_uuid, seen_ms, ended, attempt, settled_ms from journal"
        ).fetchall():
            state = run_rows.JournalRow(**dict(zip(run_rows.JOURNAL_FACTS, values, strict=True)))
            yield dict(run_rows.journal_entries(run_id, state, start))
        connection.execute("drop table journal")
