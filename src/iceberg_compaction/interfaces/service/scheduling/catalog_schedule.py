"""The tables of one catalog under the scheduler's eyes. A turn finds out which have changed, looks at those, decides
which are due, and puts work into the queue; what it has learnt is saved under the leader's fence. One thread at a time
has a turn; a catalog that hangs holds up nobody else's."""

from __future__ import annotations

import logging
import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.catalog import load_tables, threads
from iceberg_compaction.catalog.changes import table_pointers
from iceberg_compaction.interfaces.service import daemon_threads
from iceberg_compaction.interfaces.service.notices import service_notices
from iceberg_compaction.interfaces.service.scheduling import due_work, ended_work, table_look
from iceberg_compaction.model import table_names
from iceberg_compaction.model.table_due import DueState
from iceberg_compaction.model.table_schedule import TableWatch
from iceberg_compaction.plan.triggers import table_check
from iceberg_compaction.record.health_log import HealthLog
from iceberg_compaction.record.service import schedule_book
from iceberg_compaction.schedule import look_times, suspension

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from iceberg_compaction.interfaces.followed_policy import FollowedPolicy
    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.model.run_figures import HealthEntry
    from iceberg_compaction.model.table_policy import TablePolicy
    from iceberg_compaction.model.table_schedule import SchedulePause
    from iceberg_compaction.model.work import Work, WorkRequest
    from iceberg_compaction.record.rules.work_book import WorkBook

_LIST_MS = 10 * 60_000  # between two lists of tables, where a catalog cannot list changes
_FIRST_REST_S, _LONGEST_REST_S = 10.0, 60.0  # of a catalog that does not answer
_FROM_NOW = ("scheduled_ms", "upkeep_ms", "born_ms")  # what is counted from the first sight of a table
_SIDE_BY_SIDE = 4  # looks at a time
_MOST_UNREACHABLE = 3  # tables in a row, after which the rest waits for the next turn
_log = logging.getLogger(__name__)


class LostLeadError(Exception):
    """Another process leads by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReport:
    """What a turn did."""

    tables: int = 0
    changed: int = 0
    looks: int = 0
    left: int = 0  # tables that are due for a look and got none
    requested: int = 0  # pieces of work
    error: str | None = None  # why the catalog could not be used
    rests: bool = False  # it was not asked: it did not answer a moment ago


@dataclass(slots=True, kw_only=True)
class CatalogSchedule:
    """One catalog. `fence`: what changes of the leader expect now. `look_s`: how long the looks of a turn may take."""

    name: str
    house: ServiceHouse
    book: WorkBook
    fence: Callable[[], Mapping[str, int]]
    monotonic: Callable[[], float]
    look_s: float = 1.0
    watches: dict[str, TableWatch] = field(default_factory=dict)
    ended: deque[Work] = field(default_factory=deque)  # work to learn from; other threads add to it
    budget: look_times.LookBudget = field(init=False)
    _rules: due_work.DueRules = field(init=False)
    _schedules: schedule_book.ScheduleBook = field(init=False)
    _edited: set[str] = field(default_factory=set)
    _gone: set[str] = field(default_factory=set)
    _due_at: dict[str, int] = field(default_factory=dict)  # when to think of a table
    _followed: FollowedPolicy | None = None
    _paused: tuple[SchedulePause, ...] = ()
    _listed_ms: int | None = None
    _rests: int = 0  # turns in a row in which the catalog did not answer
    _rests_until: float = -math.inf
    _trouble: str = ""
    _changed: int = 0

    def __post_init__(self) -> None:
        settings = self.house.settings.scheduler
        self.budget = look_times.LookBudget(settings.loads_per_minute)
        self._schedules = schedule_book.ScheduleBook(self.house.store.entries)
        self._rules = due_work.DueRules(
            catalog=self.name,
            jitter_ms=round(settings.jitter * 1000),
            tenant_of=self.house.tenant_of,
            health_of=self._health,
        )

    def load(self, now_ms: int) -> None:
        """Begin with what the store knows. Work whose end nobody saw is looked up."""
        self._followed = self.house.policies.followed()
        self.watches = self._schedules.watches(self.name)
        self._think_of_all(now_ms)
        for watch in self.watches.values():
            if watch.work_id:
                work = self.book.get(watch.work_id)
                if work is None:
                    self._set(watch.model_copy(update={"work_id": ""}))
                elif not work.state.is_open:
                    self.ended.append(work)

    def turn(self, now_ms: int, pauses: tuple[SchedulePause, ...]) -> TurnReport:
        """One turn. LostLeadError: another process leads; StoreError: the store is away."""
        self._changed = 0
        followed = self.house.policies.followed()
        if pauses != self._paused or followed is not self._followed:
            self._paused, self._followed = pauses, followed
            self._think_of_all(now_ms)
        self._learn(now_ms)
        if self.monotonic() < self._rests_until:
            self._save()
            return TurnReport(tables=len(self.watches), error=self._trouble, rests=True)
        try:
            catalog = self.house.catalogs.catalog(self.name)
            listed = self._find_changes(catalog, now_ms)
            self._take_notices(now_ms)
            looks, left = self._look(catalog, now_ms, by_change=listed)
        except errors.CatalogError as error:
            self._save()
            self._rest(str(error))
            return TurnReport(tables=len(self.watches), error=self._trouble)
        self._rests = 0
        self._save()  # a request follows from what is saved
        requested = self._ask(now_ms)
        self._save()
        return TurnReport(tables=len(self.watches), changed=self._changed, looks=looks, left=left, requested=requested)

    def _rest(self, trouble: str) -> None:
        """Leave a catalog that does not answer alone for a while, a longer one each time."""
        self._trouble, self._rests = trouble, self._rests + 1
        self._rests_until = self.monotonic() + min(_LONGEST_REST_S, _FIRST_REST_S * 2 ** min(self._rests - 1, 10))

    # What has changed

    def _learn(self, now_ms: int) -> None:
        suspend_after = self.house.settings.scheduler.suspend_after
        while self.ended:
            work = self.ended.popleft()
            watch = self.watches.get(work.request.table)
            if watch is None:
                continue
            learnt = ended_work.learn(watch, work, suspend_after, now_ms)
            if learnt.failures > watch.failures and suspension.is_suspended(learnt.failures, suspend_after):
                words = ended_work.words(learnt, suspend_after)
                self.house.notices.suspended(self.name, learnt.table, learnt.failures, words)
            if learnt is not watch:
                self._set(self._with_time_trigger(learnt, now_ms))

    def _with_time_trigger(self, watch: TableWatch, now_ms: int) -> TableWatch:
        """After a run, time alone may make the table due one day."""
        if watch.trigger_ms or watch.failures or watch.work_id:
            return watch
        entry = self._health(watch)
        policy = self._policy(watch)
        due = None if entry is None or policy is None else table_check.check(entry, policy.rewrite, now_ms)
        is_quiet = due is not None and due.state is DueState.QUIET
        return watch.model_copy(update={"trigger_ms": due.next_ms or 0}) if due is not None and is_quiet else watch

    def _find_changes(self, catalog: Any, now_ms: int) -> bool:
        """Learn which tables there are. True: the catalog also said which have changed."""
        pointers = table_pointers.pointers(catalog)
        if pointers is not None:
            self._compare(pointers, now_ms)
            return True
        if self._listed_ms is None or not 0 <= now_ms - self._listed_ms < _LIST_MS:
            names = [name for name in load_tables.list_tables(catalog) if self._is_served(name)]
            self._listed_ms = now_ms  # only now: a list that failed is asked for again in the next turn
            for name in names:
                if name not in self.watches:
                    self._add(name, "", now_ms)
            self._drop(set(self.watches) - set(names))
        return False

    def _compare(self, pointers: Mapping[str, str], now_ms: int) -> None:
        watches = self.watches
        for name, pointer in pointers.items():
            watch = watches.get(name)
            if watch is None:
                if self._is_served(name):
                    self._add(name, pointer, now_ms)
            elif watch.pointer != pointer:
                self._changed += 1
                self._set(watch.model_copy(update={"pointer": pointer, "changed": True, "updated_ms": now_ms}))
        if len(pointers) != len(watches):
            self._drop(watches.keys() - pointers.keys())

    def _is_served(self, name: str) -> bool:
        patterns = self.house.catalogs.entry(self.name).tables
        return patterns == ("*",) or any(table_names.matches(name, pattern) for pattern in patterns)

    def _add(self, name: str, pointer: str, now_ms: int) -> None:
        self._changed += 1
        self._set(
            TableWatch(table=name, pointer=pointer, changed=True, look_ms=now_ms, **dict.fromkeys(_FROM_NOW, now_ms))
        )

    def _drop(self, names: set[str]) -> None:
        for name in names:
            self.watches.pop(name, None)
            self._due_at.pop(name, None)
            self._edited.discard(name)
            self._gone.add(name)

    def _take_notices(self, now_ms: int) -> None:
        for name in self._schedules.take_notices(self.name):
            watch = self.watches.get(name)
            if watch is None:
                self._listed_ms = None  # a new table, perhaps
            else:
                self._set(watch.model_copy(update={"changed": True, "look_ms": now_ms, "etag": ""}))

    # Looks

    def _look(self, catalog: Any, now_ms: int, *, by_change: bool) -> tuple[int, int]:
        """Look at tables that are due for it, as long as time and budget last. Returns how many, and how many wait."""
        waiting = [
            look_times.WaitingTable(each.table, each.look_ms, each.look_ms - each.seen_ms if each.seen_ms else 0)
            for each in self.watches.values()
            if (each.changed or not by_change) and each.look_ms <= now_ms
        ]
        names = look_times.in_order(waiting, now_ms)
        looks, unreachable, end = 0, 0, self.monotonic() + self.look_s
        healths: list[HealthEntry] = []
        at_once = _SIDE_BY_SIDE if threads.may_share(catalog) else 1
        while looks < len(names) and self.monotonic() < end and unreachable < _MOST_UNREACHABLE:
            most = at_once if by_change else min(at_once, self.budget.left(now_ms))
            part = [self.watches[name] for name in names[looks : looks + most]]
            if not part:
                break
            looks += len(part)
            begun = [daemon_threads.begin("look", self._see, catalog, watch, now_ms) for watch in part]
            for watch, seen in zip(part, [each.result() for each in begun], strict=True):
                if not by_change:
                    self.budget.spend(now_ms)
                unreachable = unreachable + 1 if isinstance(seen, errors.UnreachableError) else 0
                self._note(watch, seen, now_ms, healths, by_change=by_change)
        if healths:
            HealthLog(entries=self.house.store.entries).save(healths)
        for entry in healths:
            self._set_trigger(self.watches[entry.table], entry, now_ms)
            self._compare_scores(entry)
        return looks, len(names) - looks

    def _see(
        self, catalog: Any, watch: TableWatch, now_ms: int
    ) -> table_look.WatchedLook | errors.CompactionError | None:
        """A look, or why there is none; several threads have one at the same time."""
        try:
            return table_look.look(catalog, watch, self._rewrite_policy, now_ms)
        except errors.CompactionError as error:
            return error
        except Exception as error:  # noqa: BLE001 a defect in one table must not stop the others
            _log.exception("%s cannot be looked at", watch.table)
            return errors.MetadataError(f"Unexpected {type(error).__name__}: {error} (this is a defect).")

    def _note(
        self,
        watch: TableWatch,
        seen: table_look.WatchedLook | errors.CompactionError | None,
        now_ms: int,
        healths: list[HealthEntry],
        *,
        by_change: bool,
    ) -> None:
        if isinstance(seen, errors.NoSuchTableError):
            self._drop({watch.table})
            return
        if isinstance(seen, errors.CompactionError):
            self._cannot_read(watch, seen, now_ms)
            return
        changes: dict[str, object] = {"seen_ms": now_ms, "changed": False}
        if seen is not None:
            changes |= {"pointer": seen.pointer, "etag": seen.etag, "properties": seen.properties}
            # It changed after the look before, whatever the clock of its writer says.
            least = watch.seen_ms if watch.seen_ms and seen.pointer != watch.pointer else 0
            changes["updated_ms"] = min(max(seen.updated_ms, least), now_ms)
            if seen.health is not None:
                changes["identity"] = seen.health.catalog
                healths.append(seen.health)
        watch = watch.model_copy(update=changes)
        self._set(watch.model_copy(update={"look_ms": self._next_look(watch, now_ms, by_change=by_change)}))

    def _compare_scores(self, entry: HealthEntry) -> None:
        """A table whose score only falls is worth a notice. Nobody reads older looks if nobody wants one."""
        if self.house.settings.webhooks and entry.figures.score is not None:
            log = HealthLog(entries=self.house.store.entries)
            looks = log.of_table(entry.catalog, entry.table, limit=service_notices.WORSE_LOOKS)
            self.house.notices.seen(self.name, looks)

    def _next_look(self, watch: TableWatch, now_ms: int, *, by_change: bool) -> int:
        """Where a catalog says which tables have changed, only busy ones have to wait."""
        settings = self.house.settings.scheduler
        bounds = look_times.LookBounds(round(settings.least_look * 1000), round(settings.most_look * 1000))
        if by_change:
            return now_ms + look_times.interval_ms(bounds, now_ms, now_ms, watch.idle_runs)
        return look_times.next_look_ms(bounds, now_ms, watch.updated_ms, watch.idle_runs, watch.table)

    def _cannot_read(self, watch: TableWatch, error: errors.CompactionError, now_ms: int) -> None:
        _log.info("%s cannot be looked at: %s", watch.table, error)
        wait_ms = round(self.house.settings.scheduler.least_look * 1000) * 10
        self._set(
            watch.model_copy(update={"seen_ms": now_ms, "look_ms": now_ms + wait_ms, "sentence": str(error)[:500]})
        )

    def _set_trigger(self, watch: TableWatch, entry: HealthEntry, now_ms: int) -> None:
        policy = self._policy(watch)
        if policy is None:
            return
        due = table_check.check(entry, policy.rewrite, now_ms)
        moment = due.next_ms or 0 if due.state is DueState.QUIET else now_ms
        self._set(watch.model_copy(update={"trigger_ms": moment}))

    # Decisions

    def _ask(self, now_ms: int) -> int:
        requests: list[tuple[WorkRequest, TableWatch]] = []
        for name in [name for name, at_ms in self._due_at.items() if at_ms <= now_ms]:
            decision = self._decide(self.watches[name], now_ms)
            if decision.request is not None and decision.watch is not None:
                requests.append((decision.request, decision.watch))
                continue
            if decision.watch is not None and decision.watch is not self.watches[name]:
                self._set(decision.watch)
            self._due_at[name] = decision.next_ms
        return sum(1 for _ in self._put(requests, now_ms))

    def _decide(self, watch: TableWatch, now_ms: int) -> due_work.ScheduleDecision:
        policy = self._policy(watch)
        if policy is None:
            return due_work.ScheduleDecision(next_ms=due_work.NEVER_MS)
        paused = schedule_book.paused_by(self._paused, self.name, watch.table) is not None
        try:
            return self._rules.decide(watch, policy, now_ms, paused=paused)
        except errors.CompactionError as error:
            _log.warning("%s is not scheduled: %s", watch.table, error)
            return due_work.ScheduleDecision(next_ms=due_work.NEVER_MS)

    def _put(self, requests: list[tuple[WorkRequest, TableWatch]], now_ms: int) -> Iterator[Work]:
        """Put work into the queue; what does not fit in waits for a later turn."""
        try:
            works = self.book.put_all([request for request, _ in requests])
        except errors.QueueFullError:
            works = []
            for request, _ in requests:
                try:
                    works.append(self.book.put(request))
                except errors.QueueFullError as error:
                    _log.info("%s waits: %s", request.table, error)
        by_id = {work.request.work_id: work for work in works}
        for request, watch in requests:
            work = by_id.get(request.work_id)
            if work is None:
                self._due_at[request.table] = now_ms
                continue
            self._set(watch)
            self._due_at[watch.table] = due_work.NEVER_MS
            if not work.state.is_open:
                self.ended.append(work)
            yield work

    def _think_of_all(self, now_ms: int) -> None:
        self._due_at = dict.fromkeys(self.watches, now_ms)

    def _policy(self, watch: TableWatch) -> TablePolicy | None:
        """None: it cannot be used; whoever asks for the table's policy is told why."""
        assert self._followed is not None  # since it was loaded
        try:
            return self._followed.effective(watch.table, watch.properties).policy
        except errors.CompactionError as error:
            _log.warning("The policy of %s cannot be used: %s", watch.table, error)
            return None

    def _rewrite_policy(self, table: str, properties: dict[str, str]) -> Any:
        assert self._followed is not None  # since it was loaded
        return self._followed.effective(table, properties).policy.rewrite

    def _health(self, watch: TableWatch) -> HealthEntry | None:
        if not watch.identity:
            return None
        return HealthLog(entries=self.house.store.entries).latest_of(watch.identity, watch.table)

    # The store

    def _set(self, watch: TableWatch) -> None:
        self.watches[watch.table] = watch
        self._edited.add(watch.table)
        self._due_at[watch.table] = 0

    def _save(self) -> None:
        if not self._edited and not self._gone:
            return
        edited = [self.watches[name] for name in self._edited if name in self.watches]
        for _ in range(3):
            if self._schedules.save(self.name, edited, self._gone, self.fence()):
                self._edited, self._gone = set(), set()
                return
        raise LostLeadError
