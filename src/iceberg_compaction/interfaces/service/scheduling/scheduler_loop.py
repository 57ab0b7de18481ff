"""The scheduler of a service: every process has one, and only the leader's does anything. At each tick the tables of
all catalogs get a turn, side by side, so that a catalog that hangs delays its own tables only."""

from __future__ import annotations

import functools
import logging
import threading
import time
from concurrent import futures
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.interfaces.service import daemon_threads
from iceberg_compaction.interfaces.service.loop_trouble import StoreTrouble
from iceberg_compaction.interfaces.service.scheduling.catalog_schedule import (
    CatalogSchedule,
    LostLeadError,
    TurnReport,
)
from iceberg_compaction.record import processes
from iceberg_compaction.record.rules.work_book import WorkBook
from iceberg_compaction.record.service import schedule_book
from iceberg_compaction.record.service.leadership import Leadership
from iceberg_compaction.record.service.service_members import ServiceMembers, SilenceWatch
from iceberg_compaction.record.service.table_blockers import TableBlockers

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse

_PATIENCE_S = 5.0  # for the turns of catalogs; those that take longer go on beside the next tick
_SOON_S = 1.0  # until the next tick, while tables wait for a look
_TIDY_S = 600.0
_SILENT_S = 3600.0  # after which a dead process is not listed any more
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TickReport:
    """What a tick did. `turns`: of the catalogs whose turn has ended."""

    leads: bool
    turns: dict[str, TurnReport] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return sum(turn.left for turn in self.turns.values())


@dataclass(slots=True, kw_only=True)
class SchedulerLoop:
    """The scheduler of one process. `member`: its name, as the worker of the same process has it. `on_asked`: called
    when work was put into the queue."""

    house: ServiceHouse
    member: str
    on_asked: Callable[[], None] | None = None
    on_lead: Callable[[bool], None] | None = None
    monotonic: Callable[[], float] = time.monotonic
    patience_s: float = _PATIENCE_S
    leads: bool = field(default=False, init=False)
    _leadership: Leadership = field(init=False)
    _watch: SilenceWatch = field(init=False)
    _book: WorkBook = field(init=False)
    _catalogs: dict[str, CatalogSchedule] = field(default_factory=dict, init=False)
    _turns: dict[str, futures.Future[TurnReport]] = field(default_factory=dict, init=False)
    _term: int = field(default=0, init=False)
    _fence: dict[str, int] = field(default_factory=dict, init=False)
    _number: int = field(default=0, init=False)  # of the last work that ended
    _tidy_at: float = field(default=0.0, init=False)
    _over: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        entries, settings = self.house.store.entries, self.house.settings
        self._watch = SilenceWatch(monotonic=self.monotonic, silent_s=settings.takeover)
        self._leadership = Leadership(
            entries=entries, member=self.member, process=processes.this_process(), watch=self._watch
        )
        self._book = WorkBook(entries, most_queued=settings.limits.queued_runs)

    def start(self) -> None:
        """Tick in a thread."""
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, and let another process lead at once."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=self.patience_s + 5)
        if self.leads:
            self._lead(False)
            try:
                self._leadership.resign()
            except errors.StoreError as error:
                _log.warning("Another process leads only after a while: %s", error)

    def tick(self, now_ms: int) -> TickReport:
        """Look after all tables once, if this process leads. StoreError: the store is away."""
        held = self._leadership.hold()
        if held is None:
            self._lead(False)
            return TickReport(leads=False)
        term, self._fence = held
        if term != self._term or not self.leads:
            self._take_over(term, now_ms)
        self._hear_of_ends()
        pauses = tuple(schedule_book.ScheduleBook(self.house.store.entries).pauses())
        for name, schedule in self._catalogs.items():
            running = self._turns.get(name)
            if running is None or running.done():
                self._turns[name] = daemon_threads.begin(f"schedule {name}", schedule.turn, now_ms, pauses)
        futures.wait(self._turns.values(), timeout=self.patience_s)
        turns = {name: report for name in list(self._turns) if (report := self._report(name)) is not None}
        if any(turn.requested for turn in turns.values()) and self.on_asked is not None:
            self.on_asked()
        self._tidy(now_ms)
        return TickReport(leads=self.leads, turns=turns)

    def _run(self) -> None:
        wait_s, trouble = 0.0, StoreTrouble(who="The scheduler", monotonic=self.monotonic)
        while not self._over.wait(wait_s):
            wait_s = self.house.settings.scheduler.tick
            try:
                if self.tick(self.house.clock()).left:
                    wait_s = min(wait_s, _SOON_S)
                trouble.over()
            except errors.StoreError as error:
                trouble.note(error)
            except Exception:  # noqa: BLE001 a defect must not stop the scheduler
                _log.exception("The scheduler failed, and goes on")

    def _take_over(self, term: int, now_ms: int) -> None:
        """Begin to lead, with what the store knows."""
        self._term, self._number = term, self._book.last_ended()
        self._turns = {}
        self._catalogs = {}
        for name in self.house.settings.catalogs:
            schedule = CatalogSchedule(
                name=name,
                house=self.house,
                book=self._book,
                fence=functools.partial(self._fence_of, term),
                monotonic=self.monotonic,
            )
            schedule.load(now_ms)
            self._catalogs[name] = schedule
        self._lead(True)

    def _fence_of(self, term: int) -> dict[str, int]:
        """What changes of a term expect. LostLeadError: it is over."""
        if term != self._term:
            raise LostLeadError
        return self._fence

    def _lead(self, leads: bool) -> None:
        if leads != self.leads:
            _log.info("This process %s schedules.", "looks after" if leads else "does not look after")
            self.leads = leads
            if self.on_lead is not None:
                self.on_lead(leads)

    def _hear_of_ends(self) -> None:
        while page := self._book.ended_after(self._number):
            for number, work in page:
                self._number = max(self._number, number)
                if (schedule := self._catalogs.get(work.request.catalog)) is not None:
                    schedule.ended.append(work)

    def _report(self, name: str) -> TurnReport | None:
        """The report of a turn that has ended."""
        turn = self._turns[name]
        if not turn.done():
            _log.warning("The catalog %s takes long; its tables wait.", name)
            return None
        del self._turns[name]
        try:
            report = turn.result()
        except LostLeadError:
            self._lead(False)
            return None
        except errors.StoreError as error:
            return TurnReport(error=str(error))
        if report.error is not None and not report.rests:
            _log.warning("Tables of the catalog %s are not looked after now: %s", name, report.error)
        return report

    def _tidy(self, now_ms: int) -> None:
        """Now and then, what nobody needs any more leaves the store."""
        if self.monotonic() < self._tidy_at:
            return
        self._tidy_at = self.monotonic() + _TIDY_S
        entries = self.house.store.entries
        self._book.prune(now_ms - self.house.store.periods.history_ms)
        TableBlockers(entries).remove_old(now_ms)
        members = ServiceMembers(entries)
        at_work = {claim.worker for claim in self._book.claims()}
        for member, number in members.seen():
            is_dead = self._watch.is_dead(member.member, number, member.process)
            if is_dead and member.member not in at_work and self._is_long_ago(member.member, number):
                members.leave(member.member)

    def _is_long_ago(self, name: str, number: int) -> bool:
        return self._watch.silence(name, number) >= _SILENT_S
