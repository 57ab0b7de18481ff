"""The history of runs, as entries of a store: a record for each run, and its place in every order that runs are
searched in, so that the newest runs of a table or of a kind are found among a hundred thousand without reading them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.model.run_record import RunRecord
from iceberg_compaction.record.entries import keys
from iceberg_compaction.record.rules import readable, run_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterator

    from iceberg_compaction.model.outcome import Kind
    from iceberg_compaction.record.entries.door import StoreEntries, StoreEntry
    from iceberg_compaction.record.rules.run_rows import HistoryRow

_AT_ONCE = 50  # runs
_MOST_AT_ONCE = 1000  # keys
_SEARCHED_AT_ONCE = 20_000  # keys, where most do not count
_FEW_TABLES = 20
_MOST_EFFORTS = 1000  # runs that are looked at for those on other tables


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsPage:
    """One page of the list of all runs. `fits`: whether runs of a table count."""

    table: str | None = None
    kind: str | None = None
    since_ms: int | None = None  # both ends included
    until_ms: int | None = None
    after: str = ""
    limit: int = 50
    fits: Callable[[str], bool] = lambda table: True


class RunHistory:
    """See `record.store.RunStore`."""

    entries: StoreEntries
    readable: readable.Readable

    def save(self, record: RunRecord) -> None:
        """Add a run to the history. A record of the same run id is replaced."""
        key = keys.key("run", record.run_id)
        new = run_rows.history_entries(record.run_id, run_rows.history_row(record))
        while True:
            entry = self.entries.get([key]).get(key)
            row = None if entry is None else self._history_row(entry)
            before = {} if row is None else dict.fromkeys(run_rows.history_keys(record.run_id, row))
            if self.entries.change(before | new, {key: None if entry is None else entry.version}):
                return

    def history(
        self,
        table: str | None = None,
        kind: Kind | str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        limit: int = 50,
    ) -> list[RunRecord]:
        """Return the newest runs of one table or of all, of one kind or of all, that began in this time, both ends
        included; the newest first. Unreadable rows do not count."""
        prefix = run_rows.order_prefix(table, None if kind is None else getattr(kind, "value", str(kind)))
        run_ids = self._listed(prefix, since_ms, until_ms, at_once=min(max(limit, 1), _MOST_AT_ONCE))
        return list(itertools.islice(self._records(run_ids), limit))

    def history_of(
        self,
        tables: Collection[str],
        kind: Kind | str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        limit: int = 50,
    ) -> list[RunRecord]:
        """The same for many tables: few are looked up one by one, and among many the newest runs of all are
        searched."""
        if len(tables) <= _FEW_TABLES:
            each = [self.history(table, kind, since_ms, until_ms, limit) for table in tables]
            return sorted(itertools.chain(*each), key=lambda record: record.started_ms, reverse=True)[:limit]
        prefix = run_rows.order_prefix(None, None if kind is None else getattr(kind, "value", str(kind)))
        run_ids = self._listed(prefix, since_ms, until_ms, at_once=_SEARCHED_AT_ONCE, tables=frozenset(tables))
        return list(itertools.islice(self._records(run_ids), limit))

    def history_but(self, read: Container[str], since_ms: int, limit: int) -> list[RunRecord]:
        """The newest runs that began since then, of at most `limit`, but for those with these ids."""
        prefix = run_rows.order_prefix(None, None)
        run_ids = itertools.islice(self._listed(prefix, since_ms, None, at_once=_MOST_AT_ONCE), limit)
        return list(self._records(run_id for run_id in run_ids if run_id not in read))

    def page(self, wanted: RunsPage) -> tuple[list[RunRecord], str | None]:
        """The next runs of a list, the newest first, and the `after` of those behind them; None: there are no more. A
        page may have fewer than `limit` while there are more, where most runs are of tables that do not count."""
        prefix = run_rows.order_prefix(wanted.table, wanted.kind)
        after = "" if wanted.until_ms is None else f"{prefix}{keys.key(keys.newest_first(wanted.until_ms))}"
        after = max(after, f"{prefix}{wanted.after}" if wanted.after else "")
        last = None if wanted.since_ms is None else keys.newest_first(wanted.since_ms)
        run_ids: list[str] = []
        read, at_once = 0, wanted.limit + 1
        while read < _SEARCHED_AT_ONCE:
            listed = self.entries.scan(prefix, after=after, limit=at_once)
            for entry in listed:
                *_, when, run_id = keys.words(entry.key)
                if last is not None and int(when) > last:
                    return list(self._records(iter(run_ids))), None
                if len(run_ids) == wanted.limit:
                    return list(self._records(iter(run_ids))), after.removeprefix(prefix)
                after = entry.key
                if wanted.fits(wanted.table or entry.value):
                    run_ids.append(run_id)
            if len(listed) < at_once:
                return list(self._records(iter(run_ids))), None
            read, at_once = read + len(listed), min(4 * at_once, _MOST_AT_ONCE)
        return list(self._records(iter(run_ids))), after.removeprefix(prefix)

    def tables(self) -> list[str]:
        """Return the tables that have, or had, runs in the history."""
        return [keys.words(entry.key)[-1] for entry in self.entries.scan(keys.prefix("tables"))]

    def run(self, run_id: str) -> RunRecord | None:
        """Return one run of the history."""
        return next(self._records(iter([run_id])), None)

    def run_ids(self, beginning: str, limit: int = 10) -> list[str]:
        """Return the ids that begin so, of the history and of the journal."""
        run_ids = {
            keys.words(entry.key)[-1]
            for word in ("run", "journal")
            for entry in self.entries.scan(keys.key(word, beginning), limit=limit)
        }
        return sorted(run_ids)[:limit]

    def efforts(self, table: str, limit: int = 20) -> tuple[list[Effort], list[Effort]]:
        """Return the bytes and seconds of the newest runs that copied or encoded anything, the newest first: those on
        the table, and those on other tables, as far as they are among the newest thousand."""
        own = self.entries.scan(keys.prefix("efforts-by-table", table), limit=limit)
        others: list[StoreEntry] = []
        read, after, at_once = 0, "", 2 * limit
        while len(others) < limit and read < _MOST_EFFORTS:
            listed = self.entries.scan(keys.prefix("efforts"), after=after, limit=at_once)
            others += [entry for entry in listed if keys.words(entry.key)[-1] != table]
            if len(listed) < at_once:
                break
            read, after = read + len(listed), listed[-1].key
        return self._efforts(own, run_id_at=3), self._efforts(others[:limit], run_id_at=2)

    def _efforts(self, listed: list[StoreEntry], *, run_id_at: int) -> list[Effort]:
        efforts = (
            self.readable.parse(
                keys.words(entry.key)[run_id_at],
                lambda entry=entry: Effort.model_validate_json(entry.value),  # type: ignore[misc]
            )
            for entry in listed
        )
        return [effort for effort in efforts if effort is not None]

    def _listed(
        self,
        prefix: str,
        since_ms: int | None,
        until_ms: int | None,
        at_once: int,
        tables: frozenset[str] | None = None,
    ) -> Iterator[str]:
        """The ids of runs in the order of the prefix, read in parts as they are needed. `tables`: only runs of these,
        where the order lists them."""
        after = "" if until_ms is None else f"{prefix}{keys.key(keys.newest_first(until_ms))}"
        last = None if since_ms is None else keys.newest_first(since_ms)
        while True:
            listed = self.entries.scan(prefix, after=after, limit=at_once)
            for entry in listed:
                if tables is not None and entry.value not in tables:
                    continue
                *_, when, run_id = keys.words(entry.key)
                if last is not None and int(when) > last:
                    return
                yield run_id
            if last is not None and listed and int(keys.words(listed[-1].key)[-2]) > last:
                return
            if len(listed) < at_once:
                return
            after = listed[-1].key

    def _records(self, run_ids: Iterator[str]) -> Iterator[RunRecord]:
        while part := list(itertools.islice(run_ids, _AT_ONCE)):
            entries = self.entries.get([keys.key("run", run_id) for run_id in part])
            for run_id in part:
                if (entry := entries.get(keys.key("run", run_id))) is not None:
                    record = self.readable.parse(run_id, lambda entry=entry: _record(entry))  # type: ignore[misc]
                    if record is not None:
                        yield record

    def _history_row(self, entry: StoreEntry) -> HistoryRow | None:
        return self.readable.parse(
            keys.words(entry.key)[-1], lambda: run_rows.HistoryRow.model_validate_json(entry.value)
        )


def _record(entry: StoreEntry) -> RunRecord:
    row = run_rows.HistoryRow.model_validate_json(entry.value)
    return RunRecord.model_validate_json(run_rows.unpack(row.record))
