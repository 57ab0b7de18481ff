"""Pieces of work as entries of a store: a row for each, its position in the queue of its tenant while it waits, and its
positions in the lists that people read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pydantic

from iceberg_compaction.model.value import Count, Value
from iceberg_compaction.model.work import Work, WorkState
from iceberg_compaction.model.work_board import WorkBoard
from iceberg_compaction.record.entries import keys

if TYPE_CHECKING:
    from iceberg_compaction.record.entries.door import StoreEntry

WORK, QUEUED, LISTED, OF_TENANT, ENDED = "work", "work-queued", "work-list", "work-tenant", "work-ended"
BOARD = "work-board/all"
AGEING_MS = 10 * 60_000  # work that has waited for so long counts as one priority higher
HIGHEST_PRIORITY = 9


class WorkRow(Value):
    """A piece of work, and what only the work book knows of it."""

    work: Work
    due_ms: Count  # not before
    token: Count = 0  # of the last claim
    failures: Count = 0
    deaths: Count = 0  # workers that died with it
    orphaned: bool = False  # a worker died with it, and no run has begun since
    ended: Count = 0  # its number among all that have ended; 0: it has not
    cancelled_by: str | None = None

    @property
    def work_id(self) -> str:
        return self.work.request.work_id

    @property
    def tenant(self) -> str:
        return self.work.request.tenant or ""


class QueuedWork(NamedTuple):
    """What the queue has of a waiting piece of work."""

    key: str
    work_id: str
    due_ms: int
    requested_ms: int
    catalog: str
    table: str


class ListedWork(NamedTuple):
    """What a list has of a piece of work."""

    key: str
    work_id: str
    state: str
    tenant: str
    catalog: str
    table: str


def key(work_id: str) -> str:
    return keys.key(WORK, work_id)


def queue_key(row: WorkRow) -> str:
    """Priority and age make one order that never changes: each priority is worth some minutes of waiting."""
    request = row.work.request
    rank = max(row.due_ms, request.requested_ms) + (HIGHEST_PRIORITY - request.priority) * AGEING_MS
    return keys.key(QUEUED, row.tenant, rank, row.work_id)


def cursor(work: Work) -> str:
    """The position of a piece of work in lists: the newest come first."""
    return keys.key(keys.newest_first(work.request.requested_ms), work.request.work_id)


def entries(row: WorkRow) -> dict[str, str | None]:
    """All entries of a row, as they are to be."""
    request = row.work.request
    facts = json.dumps([row.work.state.value, row.tenant, request.catalog, request.table])
    at = cursor(row.work)
    values: dict[str, str | None] = {
        key(row.work_id): row.model_dump_json(exclude_defaults=True),
        f"{LISTED}/{at}": facts,
        f"{keys.prefix(OF_TENANT, row.tenant)}{at}": facts,
    }
    if row.work.state is WorkState.QUEUED:
        waiting = [row.due_ms, request.requested_ms, request.catalog, request.table]
        values[queue_key(row)] = json.dumps(waiting)
    if row.ended:
        values[keys.key(ENDED, row.ended, row.work_id)] = ""
    return values


def changed(before: WorkRow, after: WorkRow) -> dict[str, str | None]:
    """What is written where a row changes."""
    left = {queue_key(before): None} if before.work.state is WorkState.QUEUED else {}
    return {**left, **entries(after)}


def all_keys(row: WorkRow) -> list[str]:
    """The keys of a row that is forgotten."""
    return [*entries(row)]


def parse_row(entry: StoreEntry | None) -> WorkRow | None:
    """None: there is none, or this version cannot read it."""
    try:
        return None if entry is None else WorkRow.model_validate_json(entry.value)
    except pydantic.ValidationError:
        return None


def parse_board(entry: StoreEntry | None) -> WorkBoard | None:
    """The board; one that this version cannot read is None."""
    if entry is None:
        return WorkBoard()
    try:
        return WorkBoard.model_validate_json(entry.value)
    except pydantic.ValidationError:
        return None


def parse_queued(entry: StoreEntry) -> QueuedWork:
    due_ms, requested_ms, catalog, table = json.loads(entry.value)
    return QueuedWork(entry.key, keys.words(entry.key)[-1], due_ms, requested_ms, catalog, table)


def parse_listed(entry: StoreEntry) -> ListedWork:
    state, tenant, catalog, table = json.loads(entry.value)
    return ListedWork(entry.key, keys.words(entry.key)[-1], state, tenant, catalog, table)
