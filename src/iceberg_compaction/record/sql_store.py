"""A run store in a SQL database, by SQLAlchemy Core. The statements are those that SQLite and PostgreSQL share; the
differences are in the database object that the store is made with."""

from __future__ import annotations

import contextlib
import itertools
import logging
from typing import TYPE_CHECKING, Any, TypeVar

import pydantic
import sqlalchemy
from sqlalchemy import exc, select

from iceberg_compaction import errors
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.model.run_record import Attempt, RunRecord, RunStart, UnfinishedRun
from iceberg_compaction.record.run_tables import ENDED, JOURNAL, RUNNING, RUNS, TAKEN_OVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sqlalchemy import ColumnElement, Connection, Delete, Insert, Row, Select, Update

    from iceberg_compaction.record.sqlite_file import SqliteFile

T = TypeVar("T")
_log = logging.getLogger(__name__)

_REMEMBER_RECOVERED_MS = 30 * 24 * 3600 * 1000  # a run that was only asleep may wake up, and must still be refused
_ROWS_AT_A_TIME = 50


class SqlStore:
    """See `record.store.RunStore`. Every change is one transaction on a connection of its own."""

    def __init__(self, database: SqliteFile) -> None:
        self._database = database
        self._reported: set[str] = set()  # run ids of unreadable rows that there was a warning for

    def save(self, record: RunRecord) -> None:
        row = {
            "table_name": record.table,
            "kind": record.outcome.kind.value,
            "started_ms": record.started_ms,
            "finished_ms": record.finished_ms,
            "record": record.model_dump_json(),
        }
        new = self._database.insert(RUNS).values(run_id=record.run_id, **row)
        self._write(new.on_conflict_do_update(index_elements=[RUNS.c.run_id], set_=row))

    def history(self, table: str | None = None, limit: int = 50) -> list[RunRecord]:
        which = sqlalchemy.true() if table is None else RUNS.c.table_name == table
        return self._read(_newest(which), _record, limit=limit)

    def efforts(self, table: str, limit: int = 20) -> tuple[list[Effort], list[Effort]]:
        own, others = (
            self._read(_newest(which & (RUNS.c.kind != Kind.HEALTHY.value)), _effort, _is_work, limit)
            for which in (RUNS.c.table_name == table, RUNS.c.table_name != table)
        )
        return own, others

    def begin(self, start: RunStart) -> bool:
        new = self._database.insert(JOURNAL).values(
            run_id=start.run_id,
            table_uuid=start.table_uuid,
            start=start.model_dump_json(),
            heartbeat_ms=start.started_ms,
        )
        if self._write(new.on_conflict_do_nothing(index_elements=[JOURNAL.c.run_id])):
            # The run is in the journal and has to know that, whatever happens to the entries of others.
            with contextlib.suppress(errors.StoreError):
                self._forget(start.started_ms - _REMEMBER_RECOVERED_MS)
            return True
        may_go_on = JOURNAL.c.recovered_ms.is_(None) & (JOURNAL.c.ended < TAKEN_OVER)
        self._write(_update(start.run_id).where(may_go_on).values(ended=RUNNING, heartbeat_ms=start.started_ms))
        return False

    def heartbeat(self, run_id: str, now_ms: int) -> None:
        self._write(_update(run_id).values(heartbeat_ms=now_ms))

    def publishing(self, run_id: str, attempt: Attempt) -> bool:
        change = _update(run_id).where(JOURNAL.c.ended == RUNNING, JOURNAL.c.recovered_ms.is_(None))
        return self._write(change.values(attempt=attempt.model_dump_json(), heartbeat_ms=attempt.at_ms)) > 0

    def committed(self, run_id: str, attempt: Attempt) -> None:
        self._write(_update(run_id).values(attempt=attempt.model_dump_json()))

    def attempt(self, run_id: str) -> Attempt | None:
        return next((run.attempt for run in self._read(_entries(JOURNAL.c.run_id == run_id), _unfinished)), None)

    def end(self, run_id: str, now_ms: int) -> None:
        ended = sqlalchemy.case((JOURNAL.c.ended == RUNNING, ENDED), else_=JOURNAL.c.ended)
        self._write(_update(run_id).values(ended=ended, heartbeat_ms=now_ms))

    def finish(self, run_id: str) -> None:
        self._write(sqlalchemy.delete(JOURNAL).where(JOURNAL.c.run_id == run_id))

    def unfinished(self, table_uuid: str | None = None) -> list[UnfinishedRun]:
        on_table = sqlalchemy.true() if table_uuid is None else JOURNAL.c.table_uuid == table_uuid
        runs = self._read(_entries(on_table & JOURNAL.c.recovered_ms.is_(None)), _unfinished)
        return sorted(runs, key=lambda run: (run.start.started_ms, run.start.run_id))

    def take_over(self, run: UnfinishedRun) -> UnfinishedRun | None:
        run_id = run.start.run_id
        is_silent = (JOURNAL.c.heartbeat_ms == run.heartbeat_ms) & JOURNAL.c.recovered_ms.is_(None)
        with self._changing() as connection:
            if not connection.execute(_update(run_id).where(is_silent).values(ended=TAKEN_OVER)).rowcount:
                return None
            rows = connection.execute(_entries(JOURNAL.c.run_id == run_id))
            return next(self._readable(rows, _unfinished), None)

    def mark_recovered(self, run_id: str, now_ms: int) -> None:
        self._write(_update(run_id).values(recovered_ms=now_ms))

    def _forget(self, before_ms: int) -> None:
        for run in self._read(_entries(JOURNAL.c.recovered_ms < before_ms), _unfinished):
            self.finish(run.start.run_id)

    def _read(
        self,
        query: Select[Any],
        parse: Callable[[Row[Any]], T],
        is_wanted: Callable[[T], bool] = lambda value: True,
        limit: int | None = None,
    ) -> list[T]:
        """Read rows one by one until there are enough: only parsing shows which ones count."""
        with self._translated("read"):
            if not self._database.exists():
                return []
            with self._database.reader.connect() as connection, _without_tables() as empty:
                rows = connection.execute(query.execution_options(yield_per=_ROWS_AT_A_TIME))
                return list(itertools.islice(filter(is_wanted, self._readable(rows, parse)), limit))
        return empty

    def _write(self, statement: Insert | Update | Delete) -> int:
        """Return the number of rows that were changed."""
        with self._changing() as connection:
            return connection.execute(statement).rowcount

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Connection]:
        with self._translated("written"), self._database.engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def _translated(self, done: str) -> Iterator[None]:
        try:
            yield
        except (OSError, exc.SQLAlchemyError) as error:
            reason = error.orig if isinstance(error, exc.DBAPIError) else error
            raise errors.StoreError(
                f"The run store {self._database} cannot be {done}: {reason}; check it or choose another one."
            ) from error

    def _readable(self, rows: Iterable[Row[Any]], parse: Callable[[Row[Any]], T]) -> Iterator[T]:
        """Parse the rows, and pass over those that this version cannot read."""
        for row in rows:
            try:
                yield parse(row)
            except pydantic.ValidationError:
                if row.run_id not in self._reported:
                    self._reported.add(row.run_id)
                    _log.warning(
                        "Run %s in the run store %s is unreadable and ignored; a newer version may have written it.",
                        row.run_id,
                        self._database,
                    )


@contextlib.contextmanager
def _without_tables() -> Iterator[list[Any]]:
    """No rows, where whoever created the file has not created its tables yet."""
    try:
        yield []
    except exc.OperationalError as error:
        if "no such table" not in str(error.orig):
            raise


def _update(run_id: str) -> Update:
    return sqlalchemy.update(JOURNAL).where(JOURNAL.c.run_id == run_id)


def _newest(which: ColumnElement[bool]) -> Select[Any]:
    return select(RUNS.c.run_id, RUNS.c.record).where(which).order_by(RUNS.c.started_ms.desc(), RUNS.c.run_id)


def _entries(which: ColumnElement[bool]) -> Select[Any]:
    columns = JOURNAL.c
    return select(columns.run_id, columns.start, columns.heartbeat_ms, columns.ended, columns.attempt).where(which)


def _unfinished(row: Row[Any]) -> UnfinishedRun:
    return UnfinishedRun(
        start=RunStart.model_validate_json(row.start),
        heartbeat_ms=row.heartbeat_ms,
        ended=row.ended != RUNNING,
        taken_over=row.ended == TAKEN_OVER,
        attempt=None if row.attempt is None else Attempt.model_validate_json(row.attempt),
    )


def _record(row: Row[Any]) -> RunRecord:
    return RunRecord.model_validate_json(row.record)


class _OutcomeWithEffort(pydantic.BaseModel):
    effort: Effort = Effort()


class _RecordWithEffort(pydantic.BaseModel):
    """The part of a RunRecord that plans need. A record may list a thousand groups, which take long to validate."""

    outcome: _OutcomeWithEffort


def _effort(row: Row[Any]) -> Effort:
    return _RecordWithEffort.model_validate_json(row.record).outcome.effort


def _is_work(effort: Effort) -> bool:
    return effort.bytes > 0
