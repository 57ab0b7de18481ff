"""The work of a service in the run store: requests wait here, workers claim them, and each is done once (R80). A claim
changes the row of the work and the board of all work in one step, so that of two workers one gets it, and limits and
turns hold over all replicas. A claim is worth as much as its worker lives: whoever takes over a dead worker's work gets
a higher token, and the old one is refused from then on."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.model.work import Work, WorkState
from iceberg_compaction.model.work_board import BoardClaim
from iceberg_compaction.record.entries import keys
from iceberg_compaction.record.rules import work_rows
from iceberg_compaction.record.rules.work_rows import WorkRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from iceberg_compaction.model.outcome import Kind
    from iceberg_compaction.model.work import WorkRequest
    from iceberg_compaction.model.work_board import WorkBoard, WorkLimits
    from iceberg_compaction.record.entries.door import StoreEntries
    from iceberg_compaction.record.rules.work_rows import QueuedWork

_ATTEMPTS = 1000  # to change the board: each that fails is one of somebody else that did not
_PUT_AT_ONCE = 20  # requests, with four entries each
_PAGE = 100
_MOST_DEATHS = 3  # of workers with one piece of work; it may be what kills them
MOST_FAILURES = 5
_FIRST_WAIT_MS, _LONGEST_WAIT_MS = 5_000, 15 * 60_000  # after a failure; each is twice the one before
_LONGEST_IDLE_MS = 3_000  # until the queue is looked through again though nothing has changed


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedWork:
    """Work that a worker has. `inherited`: a worker died with it, and its last run may be in any state."""

    work: Work
    token: int
    inherited: bool = False

    @property
    def work_id(self) -> str:
        return self.work.request.work_id


class ClaimState(str, Enum):
    """What became of a claim. Closed set."""

    HELD = "held"
    CANCELLED = "cancelled"  # held, but somebody wants it to end
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkEnd:
    """How work ended."""

    state: WorkState = WorkState.DONE
    outcome: Kind | None = None
    sentence: str = ""
    result: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCounts:
    """How much there is."""

    queued: int
    running: int
    queued_by_tenant: Mapping[str, int]
    running_by_tenant: Mapping[str, int]
    running_by_catalog: Mapping[str, int]
    oldest_ms: int | None  # when the oldest of those that wait first was requested


@dataclass(slots=True)
class WorkBook:
    """All work of a service. `most_queued`: of one tenant. StoreError: the store is away; LostWorkError: another worker
    has the work by now."""

    entries: StoreEntries
    most_queued: int = 1000
    _idle: tuple[int | None, int, object] = field(default=(-1, 0, None), init=False, repr=False)

    def put(self, request: WorkRequest, due_ms: int | None = None) -> Work:
        """Add work. If there is some of the same id, nothing is added, and that is returned. QueueFullError: its tenant
        has too much waiting work."""
        return self.put_all([request], due_ms)[0]

    def put_all(self, requests: Sequence[WorkRequest], due_ms: int | None = None) -> list[Work]:
        """The same for many, some at a time. If the queue is full, those before are in it."""
        parts = [requests[at : at + _PUT_AT_ONCE] for at in range(0, len(requests), _PUT_AT_ONCE)]
        return [work for part in parts for work in self._put(part, due_ms)]

    def get(self, work_id: str) -> Work | None:
        """One piece of work; None: there is none, or this version cannot read it."""
        row = self._row(work_id)[0]
        return None if row is None else row.work

    def list(
        self,
        state: WorkState | None = None,
        *,
        tenants: Collection[str] | None = None,
        table: str | None = None,
        after: str = "",
        limit: int = 50,
    ) -> list[Work]:
        """The newest work first. `tenants`: of these only, an empty name means work of no tenant. `after`: the position
        (`work_rows.cursor`) of the last one of the page before."""
        if tenants is not None:
            each = [self._listed(keys.prefix(work_rows.OF_TENANT, name), state, table, after) for name in set(tenants)]
            listed = _merged([list(itertools.islice(one, limit)) for one in each])
        else:
            listed = self._listed(f"{work_rows.LISTED}/", state, table, after)
        return [*self._works(itertools.islice(listed, limit))]

    def counts(self) -> WorkCounts:
        """How much waits and is at work."""
        board, _ = self._board()
        tenants, catalogs = ([getattr(claim, name) for claim in board.claims] for name in ("tenant", "catalog"))
        first = [self.entries.scan(keys.prefix(work_rows.QUEUED, name), limit=1) for name in board.tenants]
        return WorkCounts(
            queued=board.queued,
            running=len(board.claims),
            queued_by_tenant={name: turn.queued for name, turn in board.tenants.items() if turn.queued},
            running_by_tenant={name: tenants.count(name) for name in set(tenants)},
            running_by_catalog={name: catalogs.count(name) for name in set(catalogs)},
            oldest_ms=min((work_rows.parse_queued(one[0]).requested_ms for one in first if one), default=None),
        )

    def claims(self) -> tuple[BoardClaim, ...]:
        """All that is at work."""
        return self._board()[0].claims

    def cancel(self, work_id: str, *, by: str = "somebody", now_ms: int) -> Work | None:
        """End work that waits, and ask for the end of work that runs. None: there is no such work, or it has ended.
        Whoever asks for the end of a run also asks the run itself, by its id (`cancel_requests`)."""
        for board, version in self._boards():
            row, row_version = self._row(work_id)
            if row is None or not row.work.state.is_open:
                return None
            if row.work.state is WorkState.RUNNING:
                changes = {"sentence": f"{by} has asked for its end.", "changed_ms": now_ms}
                new = row.model_copy(update={"cancelled_by": by, "work": row.work.model_copy(update=changes)})
                if self._change(work_rows.changed(row, new), {work_rows.key(work_id): row_version}):
                    return new.work
                continue
            end = WorkEnd(state=WorkState.CANCELLED, sentence=f"{by} has cancelled it before it began.")
            board = board.with_queued(row.tenant, -1).model_copy(update={"ended": board.ended + 1})
            new = _ended(row, end, board.ended, now_ms)
            if self._write(row, new, row_version, board, version):
                return new.work
        return None

    def claim(self, worker: str, now_ms: int, limits: WorkLimits, dead: Collection[str] = ()) -> ClaimedWork | None:
        """Take work: that of a dead worker first, else the first that is due of the tenant whose turn it is. None:
        there is none that may begin now. While nothing changes, that costs one look at the board. Work whose row a
        newer version has written is left to workers of that."""
        foreign: set[str] = set()
        for board, version in self._boards():
            left = [claim for claim in board.claims if claim.worker in dead and claim.work_id not in foreign]
            if not left and self._is_idle(version, now_ms, limits):
                return None
            if left:
                claimed = self._inherit(left[0], worker, now_ms, board, version)
                tried = left[0].work_id
            else:
                queued, next_ms = self._first(board, now_ms, limits, foreign)
                if queued is None:
                    self._idle = (version, min(now_ms + _LONGEST_IDLE_MS, next_ms), limits)
                    return None
                claimed = self._begin(queued, worker, now_ms, board, version)
                tried = queued.work_id
            if claimed is not None:
                return claimed
            foreign |= {tried} if _is_foreign(*self._row(tried)) else set()
        return None

    def look(self, claimed: Iterable[ClaimedWork]) -> dict[str, ClaimState]:
        """What became of claims, by the id of the work."""
        tokens = {each.work_id: each.token for each in claimed}
        rows = {row.work_id: row for row in self._rows(list(tokens))}
        return {work_id: _claim_state(rows.get(work_id), token) for work_id, token in tokens.items()}

    def started(self, claimed: ClaimedWork, run_id: str, now_ms: int) -> ClaimedWork:
        """Note the id of a run before it begins."""

        def note(row: WorkRow) -> Work:
            run_ids = tuple(dict.fromkeys((*row.work.run_ids, run_id)))
            return row.work.model_copy(update={"run_ids": run_ids, "changed_ms": now_ms})

        while True:
            row, version = self._held(claimed)
            new = row.model_copy(update={"work": note(row), "orphaned": False})
            if self._change(work_rows.changed(row, new), {work_rows.key(row.work_id): version}):
                return ClaimedWork(work=new.work, token=claimed.token, inherited=claimed.inherited)

    def done(self, claimed: ClaimedWork, end: WorkEnd, now_ms: int) -> Work:
        """It has ended."""
        return self._leave(claimed, now_ms, lambda row, ended: _ended(row, end, ended, now_ms))

    def fail(self, claimed: ClaimedWork, end: WorkEnd, now_ms: int) -> Work:
        """It failed, and may be tried again later, unless it has failed as often as it may."""

        def failed(row: WorkRow, ended: int) -> WorkRow:
            failures = row.failures + 1
            row = row.model_copy(update={"failures": failures})
            if failures >= MOST_FAILURES or row.cancelled_by is not None:
                return _ended(row, end, ended, now_ms)
            wait_ms = min(_FIRST_WAIT_MS * 2 ** (failures - 1), _LONGEST_WAIT_MS)
            return _waiting(row, now_ms + wait_ms, now_ms, end.sentence)

        return self._leave(claimed, now_ms, failed)

    def release(self, claimed: ClaimedWork, now_ms: int, *, due_ms: int | None = None, sentence: str = "") -> Work:
        """Give it back: somebody else does it, now or later. That is no failure. Work that was cancelled meanwhile has
        ended."""
        return self._leave(claimed, now_ms, _released(now_ms, now_ms if due_ms is None else due_ms, sentence))

    def hand_over(self, claimed: ClaimedWork, now_ms: int, sentence: str) -> Work:
        """Give it back in the middle of a run, which whoever gets it goes on with."""
        released = _released(now_ms, now_ms, sentence)
        return self._leave(
            claimed, now_ms, lambda row, ended: released(row.model_copy(update={"orphaned": True}), ended)
        )

    def forsake(self, worker: str, holds: Collection[str], now_ms: int) -> None:
        """Let go of claims of a worker that does not know of them: the answer of the store was lost, or the end of the
        work could not be written down. That counts as a failure, so that it does not go on for ever."""
        for claim in self.claims():
            work = self.get(claim.work_id) if claim.worker == worker and claim.work_id not in holds else None
            if work is not None:
                lost = ClaimedWork(work=work, token=claim.token)
                end = WorkEnd(state=WorkState.FAILED, sentence="Its worker could not begin it, or note its end.")
                with contextlib.suppress(errors.LostWorkError):
                    self.fail(lost, end, now_ms)

    def ended_after(self, number: int, limit: int = _PAGE) -> Sequence[tuple[int, Work]]:
        """Work that has ended, in the order of its end, each with its number; `number`: the last one before. Also work
        that was being written while others were read has a higher number than they."""
        listed = self.entries.scan(
            keys.prefix(work_rows.ENDED), after=keys.key(work_rows.ENDED, number) + "/~" if number else "", limit=limit
        )
        numbers = {keys.words(entry.key)[2]: int(keys.words(entry.key)[1]) for entry in listed}
        return [(numbers[row.work_id], row.work) for row in self._rows(list(numbers))]

    def last_ended(self) -> int:
        """The number of the last work that ended."""
        return self._board()[0].ended

    def prune(self, before_ms: int, limit: int = _PAGE) -> int:
        """Forget some work that ended before. Returns how much."""
        pruned = 0
        for entry in self.entries.scan(keys.prefix(work_rows.ENDED), limit=limit):
            row, version = self._row(keys.words(entry.key)[2])
            if row is not None and row.work.changed_ms >= before_ms:
                break
            gone = [entry.key] if row is None else work_rows.all_keys(row)
            expected = {} if row is None else {work_rows.key(row.work_id): version}
            pruned += self._change(dict.fromkeys(gone), expected)
        return pruned

    # Claims

    def _is_idle(self, version: int | None, now_ms: int, limits: WorkLimits) -> bool:
        seen, until_ms, seen_limits = self._idle
        return version == seen and now_ms < until_ms <= now_ms + _LONGEST_IDLE_MS and limits == seen_limits

    def _first(
        self, board: WorkBoard, now_ms: int, limits: WorkLimits, foreign: Collection[str]
    ) -> tuple[QueuedWork | None, int]:
        """The work whose turn it is, and when more is due if there is none."""
        next_ms = now_ms + _LONGEST_IDLE_MS
        for tenant in board.turns(limits):
            for queued in self._queued(tenant):
                if queued.due_ms > now_ms:
                    next_ms = min(next_ms, queued.due_ms)
                elif queued.work_id not in foreign and board.has_room(queued.catalog, queued.table, limits):
                    return queued, now_ms
        return None, next_ms

    def _queued(self, tenant: str) -> Iterator[QueuedWork]:
        prefix = keys.prefix(work_rows.QUEUED, tenant)
        after = ""
        while page := self.entries.scan(prefix, after=after, limit=_PAGE):
            yield from map(work_rows.parse_queued, page)
            after = page[-1].key

    def _begin(
        self, queued: QueuedWork, worker: str, now_ms: int, board: WorkBoard, version: int | None
    ) -> ClaimedWork | None:
        row, row_version = self._row(queued.work_id)
        if row is None:
            if not _is_foreign(row, row_version):
                self._set_aside(queued, board, version)
            return None
        if row.work.state is not WorkState.QUEUED:
            return None  # somebody has just taken it
        claim = _claim(row, worker, board.token + 1, now_ms)
        new = _running(row, worker, claim.token, now_ms)
        if not self._write(row, new, row_version, board.with_claim(claim), version):
            return None
        return ClaimedWork(work=new.work, token=claim.token, inherited=new.orphaned)

    def _set_aside(self, queued: QueuedWork, board: WorkBoard, version: int | None) -> None:
        """Take work out of the queue that has no row."""
        tenant = keys.words(queued.key)[1]
        values = {queued.key: None, work_rows.BOARD: board.with_queued(tenant, -1).model_dump_json()}
        self._change(values, {work_rows.BOARD: version})

    def _inherit(
        self, claim: BoardClaim, worker: str, now_ms: int, board: WorkBoard, version: int | None
    ) -> ClaimedWork | None:
        row, row_version = self._row(claim.work_id)
        if _is_foreign(row, row_version):
            return None
        if row is None:
            freed = board.without_claim(claim.work_id, now_ms, again=False)
            self._change({work_rows.BOARD: freed.model_dump_json()}, {work_rows.BOARD: version})
            return None
        row = row.model_copy(update={"deaths": row.deaths + 1, "orphaned": True})
        if row.deaths >= _MOST_DEATHS or row.cancelled_by is not None:
            words = f"{row.deaths} workers died with it." if row.cancelled_by is None else "It was cancelled."
            state = WorkState.FAILED if row.cancelled_by is None else WorkState.CANCELLED
            freed = board.without_claim(claim.work_id, now_ms, again=False)
            new = _ended(row, WorkEnd(state=state, sentence=words), freed.ended, now_ms)
            self._write(row, new, row_version, freed, version)
            return None
        heir = _claim(row, worker, board.token + 1, now_ms)
        new = _running(row, worker, heir.token, now_ms)
        if not self._write(row, new, row_version, board.with_heir(heir), version):
            return None
        return ClaimedWork(work=new.work, token=heir.token, inherited=True)

    def _leave(self, claimed: ClaimedWork, now_ms: int, change: Callable[[WorkRow, int], WorkRow]) -> Work:
        for board, version in self._boards():
            row, row_version = self._held(claimed)
            new = change(row, board.ended + 1)
            again = new.work.state is WorkState.QUEUED
            if self._write(row, new, row_version, board.without_claim(row.work_id, now_ms, again=again), version):
                return new.work
        raise AssertionError("unreachable")

    def _held(self, claimed: ClaimedWork) -> tuple[WorkRow, int | None]:
        row, version = self._row(claimed.work_id)
        if row is None or _claim_state(row, claimed.token) is ClaimState.LOST:
            raise errors.LostWorkError(f"Another worker has the work {claimed.work_id} by now.")
        return row, version

    # Entries

    def _put(self, requests: Sequence[WorkRequest], due_ms: int | None) -> Iterable[Work]:
        for board, version in self._boards():
            present = {row.work_id: row.work for row in self._rows([each.work_id for each in requests])}
            new = {each.work_id: _new(each, due_ms) for each in requests if each.work_id not in present}
            values: dict[str, str | None] = {}
            for row in new.values():
                if board.queued_of(row.tenant) >= self.most_queued:
                    whose = f" of {row.tenant}" if row.tenant else ""
                    raise errors.QueueFullError(
                        f"There are {self.most_queued} requests{whose} in the queue already; try again later."
                    )
                board = board.with_queued(row.tenant, 1)
                values |= work_rows.entries(row)
            expected: dict[str, int | None] = {work_rows.BOARD: version}
            expected |= {work_rows.key(work_id): None for work_id in new}
            values[work_rows.BOARD] = board.model_dump_json()
            if not new or self._change(values, expected):
                return [
                    present[each.work_id] if each.work_id in present else new[each.work_id].work for each in requests
                ]
        raise AssertionError("unreachable")

    def _listed(self, prefix: str, state: WorkState | None, table: str | None, after: str) -> Iterator[Any]:
        last = prefix + after if after else ""
        while page := self.entries.scan(prefix, after=last, limit=_PAGE):
            for each in map(work_rows.parse_listed, page):
                if (state is None or each.state == state.value) and (table is None or each.table == table):
                    yield each
            last = page[-1].key

    def _works(self, listed: Iterable[Any]) -> Sequence[Work]:
        return [row.work for row in self._rows([each.work_id for each in listed])]

    def _rows(self, work_ids: Sequence[str]) -> Sequence[WorkRow]:
        rows = []
        for at in range(0, len(work_ids), _PAGE):
            names = [work_rows.key(work_id) for work_id in work_ids[at : at + _PAGE]]
            entries = self.entries.get(names)
            rows += [row for name in names if (row := work_rows.parse_row(entries.get(name))) is not None]
        return rows

    def _row(self, work_id: str) -> tuple[WorkRow | None, int | None]:
        key = work_rows.key(work_id)
        entry = self.entries.get([key]).get(key)
        return work_rows.parse_row(entry), None if entry is None else entry.version

    def _board(self) -> tuple[WorkBoard, int | None]:
        entry = self.entries.get([work_rows.BOARD]).get(work_rows.BOARD)
        board = work_rows.parse_board(entry)
        if board is None:
            raise errors.StoreError("The board of all work is unreadable; a newer version may have written it.")
        return board, None if entry is None else entry.version

    def _boards(self) -> Iterator[tuple[WorkBoard, int | None]]:
        """The board as often as others change it."""
        for _ in range(_ATTEMPTS):
            yield self._board()
        raise errors.StoreError("The board of all work changes all the time; nothing could be changed.")

    def _write(
        self, before: WorkRow, after: WorkRow, row_version: int | None, board: WorkBoard, version: int | None
    ) -> bool:
        values = work_rows.changed(before, after) | {work_rows.BOARD: board.model_dump_json()}
        return self._change(values, {work_rows.key(before.work_id): row_version, work_rows.BOARD: version})

    def _change(self, values: Mapping[str, str | None], expected: Mapping[str, int | None]) -> bool:
        return self.entries.change(values, expected)


def _new(request: WorkRequest, due_ms: int | None) -> WorkRow:
    work = Work(request=request, changed_ms=request.requested_ms)
    return WorkRow(work=work, due_ms=request.requested_ms if due_ms is None else due_ms)


def _claim(row: WorkRow, worker: str, token: int, now_ms: int) -> BoardClaim:
    request = row.work.request
    facts = {"tenant": row.tenant, "catalog": request.catalog, "table": request.table}
    return BoardClaim(work_id=row.work_id, worker=worker, token=token, since_ms=now_ms, **facts)


def _running(row: WorkRow, worker: str, token: int, now_ms: int) -> WorkRow:
    changes = {
        "state": WorkState.RUNNING,
        "worker": worker,
        "attempts": row.work.attempts + 1,
        "changed_ms": now_ms,
        "sentence": "",
    }
    return row.model_copy(update={"token": token, "work": row.work.model_copy(update=changes)})


def _waiting(row: WorkRow, due_ms: int, now_ms: int, sentence: str) -> WorkRow:
    changes = {"state": WorkState.QUEUED, "worker": "", "changed_ms": now_ms, "sentence": sentence}
    return row.model_copy(update={"due_ms": due_ms, "work": row.work.model_copy(update=changes)})


def _released(now_ms: int, due_ms: int, sentence: str) -> Callable[[WorkRow, int], WorkRow]:
    def released(row: WorkRow, ended: int) -> WorkRow:
        if row.cancelled_by is None:
            return _waiting(row, due_ms, now_ms, sentence)
        end = WorkEnd(state=WorkState.CANCELLED, sentence=f"{row.cancelled_by} has cancelled it.")
        return _ended(row, end, ended, now_ms)

    return released


def _ended(row: WorkRow, end: WorkEnd, number: int, now_ms: int) -> WorkRow:
    changes = {
        "state": end.state,
        "worker": "",
        "changed_ms": now_ms,
        "outcome": end.outcome,
        "sentence": end.sentence,
        "result": None if end.result is None else dict(end.result),
    }
    return row.model_copy(update={"ended": number, "work": row.work.model_copy(update=changes)})


def _is_foreign(row: WorkRow | None, version: int | None) -> bool:
    """Whether there is a row that this version cannot read."""
    return row is None and version is not None


def _claim_state(row: WorkRow | None, token: int) -> ClaimState:
    if row is None or row.token != token or row.work.state is not WorkState.RUNNING:
        return ClaimState.LOST
    return ClaimState.HELD if row.cancelled_by is None else ClaimState.CANCELLED


def _merged(lists: Sequence[Sequence[Any]]) -> Iterator[Any]:
    """Lists of several tenants as one, the newest first. The position is at the end of a key."""
    return iter(sorted(itertools.chain(*lists), key=lambda each: each.key.split("/")[2:]))
