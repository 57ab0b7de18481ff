"""A worker: one thread gives signs of life, looks what became of claims, and claims more while there is room; each
piece of work has a thread of its own. It ends in order: no new work, then a while for runs to end by themselves, then
a cancel, after which finished groups are committed and the rest goes back to the queue."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import cancel, errors, version
from iceberg_compaction.interfaces.service.loop_trouble import StoreTrouble
from iceberg_compaction.interfaces.service.work import considerate, perform_work, work_ends
from iceberg_compaction.interfaces.service.work.engine_shelf import EngineShelf
from iceberg_compaction.interfaces.service.work.work_job import WorkJob
from iceberg_compaction.interfaces.service.work.work_limits import LimitKeeper
from iceberg_compaction.model.service_member import ServiceMember
from iceberg_compaction.model.work import WorkState
from iceberg_compaction.record import cancel_requests, processes
from iceberg_compaction.record.rules.work_book import ClaimState, WorkBook
from iceberg_compaction.record.service.service_members import ServiceMembers, SilenceWatch
from iceberg_compaction.record.service.table_blockers import TableBlockers

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.interfaces.service.work.work_ends import WorkVerdict
    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.work import Work
    from iceberg_compaction.record.rules.work_book import ClaimedWork

POLL_S = 1.0  # between two looks at the queue
_BLOCKED_MS = 1000  # until work is looked at again whose table was blocked while it was claimed
_WRITE_AGAIN_S = 2.0  # after the end of work could not be written down
_FINISH_SHARE = 0.5  # of the grace period in which runs may end by themselves
_BEATS = 4  # signs of life in the time after which a worker counts as dead
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _AtWork:
    """A piece of work and its thread."""

    job: WorkJob
    thread: threading.Thread | None = None

    @property
    def claimed(self) -> ClaimedWork:
        return self.job.claimed


@dataclass(slots=True, kw_only=True)
class WorkerLoop:
    """The worker of one process. `member`: a name that no other process ever had. `perform`: what does the work."""

    house: ServiceHouse
    member: str
    on_event: Callable[[Event], None] | None = None
    on_end: Callable[[Work], None] | None = None  # after work has ended
    perform: Callable[[WorkJob], WorkVerdict] = perform_work.perform
    monotonic: Callable[[], float] = time.monotonic
    poll_s: float = POLL_S
    book: WorkBook = field(init=False)
    members: ServiceMembers = field(init=False)
    engines: EngineShelf = field(init=False)
    limits: LimitKeeper = field(init=False)
    leads: bool = field(default=False, init=False)  # whether this process looks after schedules; the beat tells it
    _watch: SilenceWatch = field(init=False)
    _at_work: dict[str, _AtWork] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _wake: threading.Event = field(default_factory=threading.Event, init=False)
    _ending: bool = field(default=False, init=False)
    _over: bool = field(default=False, init=False)
    _loop: threading.Thread | None = field(default=None, init=False)
    _since_ms: int = field(default=0, init=False)
    _beat_at: float = field(default=0.0, init=False)
    _dead_at: float = field(default=0.0, init=False)
    _dead: frozenset[str] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        entries, settings = self.house.store.entries, self.house.settings
        self.book = WorkBook(entries, most_queued=settings.limits.queued_runs)
        self.members = ServiceMembers(entries)
        self.engines = EngineShelf(self.house.catalogs)
        self.limits = LimitKeeper(house=self.house, monotonic=self.monotonic)
        self._watch = SilenceWatch(monotonic=self.monotonic, silent_s=settings.takeover)

    def start(self) -> None:
        """Begin to work, in threads. StoreError: the store cannot be used."""
        self._since_ms = self.house.clock()
        self._beat()
        self._loop = threading.Thread(target=self._run, name="worker", daemon=True)
        self._loop.start()

    def wake(self) -> None:
        """There may be work: look now."""
        self._wake.set()

    def stop(self, grace_s: float) -> bool:
        """End within so many seconds. True: nothing was left at work. What was is anybody's from now on, and its last
        run is gone on with or recovered."""
        end = self.monotonic() + grace_s
        self._ending = True
        self.wake()
        self._join(self.monotonic() + grace_s * _FINISH_SHARE)
        for each in self._now_at_work():
            each.job.cancel.cancel_this(work_ends.STOPPING)
        is_idle = self._join(end)
        self._over = True
        self.wake()
        if self._loop is not None:
            self._loop.join(timeout=max(1.0, self.poll_s))
        try:
            self.members.leave(self.member)
        except errors.StoreError as error:
            _log.warning("This worker could not say that it goes: %s", error)
        if is_idle:
            self.engines.close()
        return is_idle

    def doing(self) -> tuple[str, ...]:
        """The ids of the work that it has."""
        return tuple(each.claimed.work_id for each in self._now_at_work())

    def step(self) -> None:
        """One turn: a sign of life if it is time, a look at claims, and new claims. StoreError: the store is away."""
        now = self.monotonic()
        if now >= self._beat_at:
            self._beat()
            self._beat_at = now + self.house.settings.takeover / _BEATS
        self._look()
        while not self._ending and len(self._at_work) < self.house.settings.max_runs:
            claimed = self.book.claim(self.member, self.house.clock(), self.limits.now(), self._dead_workers())
            if claimed is None:
                break
            if self._is_blocked(claimed):
                now_ms, words = self.house.clock(), "A writer asks for peace on the table."
                self.book.release(claimed, now_ms, due_ms=now_ms + _BLOCKED_MS, sentence=words)
            else:
                self._begin(claimed)

    def _is_blocked(self, claimed: ClaimedWork) -> bool:
        """Whether a blocker came since the limits were read. From the claim on whoever asks for peace sees the work."""
        request = claimed.work.request
        now_ms = self.house.clock()
        return bool(TableBlockers(self.house.store.entries).list(now_ms, request.catalog, request.table))

    # The loop

    def _run(self) -> None:
        trouble = StoreTrouble(who="The worker", monotonic=self.monotonic)
        while not self._over:
            try:
                self.step()
                trouble.over()
            except errors.StoreError as error:
                trouble.note(error)
            except Exception:  # noqa: BLE001 a defect must not stop the worker
                _log.exception("The worker failed, and goes on")
            self._wake.wait(self.poll_s)
            self._wake.clear()

    def _beat(self) -> None:
        self.members.beat(
            ServiceMember(
                member=self.member,
                role=self.house.settings.role.value,
                process=processes.this_process(),
                version=version.__version__,
                since_ms=self._since_ms,
                beat_ms=self.house.clock(),
                slots=self.house.settings.max_runs,
                doing=self.doing(),
                leads=self.leads,
                ending=self._ending,
            )
        )

    def _dead_workers(self) -> frozenset[str]:
        """Workers that have claims and are dead. Looked for a few times in the time that a worker may be silent."""
        now = self.monotonic()
        if now < self._dead_at:
            return self._dead
        self._dead_at = now + min(5.0, self.house.settings.takeover / _BEATS)
        self.book.forsake(self.member, self.doing(), self.house.clock())
        others = {claim.worker for claim in self.book.claims()} - {self.member}
        self._dead = self._watch.dead(self.members.seen(), others) if others else frozenset()
        return self._dead

    def _look(self) -> None:
        at_work = self._now_at_work()
        if not at_work:
            return
        states = self.book.look([each.claimed for each in at_work])
        for each in at_work:
            if states.get(each.claimed.work_id) is ClaimState.CANCELLED:
                each.job.cancel.cancel_this(f"The work {each.claimed.work_id} was cancelled.")

    # One piece of work

    def _begin(self, claimed: ClaimedWork) -> None:
        job = WorkJob(
            house=self.house,
            engines=self.engines,
            book=self.book,
            claimed=claimed,
            cancel=cancel.CancelToken(),
            on_event=self.on_event,
        )
        each = _AtWork(job=job)
        each.thread = threading.Thread(target=self._work, args=(each,), name=f"work {claimed.work_id}", daemon=True)
        with self._lock:
            self._at_work[claimed.work_id] = each
        each.thread.start()

    def _work(self, each: _AtWork) -> None:
        try:
            considerate.bind_thread(self.house.settings.cpu_share)
            verdict = self.perform(each.job)
            if verdict.catalog_away:
                self.limits.set_away(each.job.request.catalog)
            self._write_end(each.job, verdict)
        except errors.LostWorkError as error:
            _log.warning("%s", error)
        except Exception:  # noqa: BLE001 a defect must not stop the worker
            _log.exception("The end of the work %s could not be written down", each.claimed.work_id)
        finally:
            with self._lock:
                self._at_work.pop(each.claimed.work_id, None)
            self.wake()

    def _write_end(self, job: WorkJob, verdict: WorkVerdict) -> None:
        """Tried until it is done: nobody takes over the work of a worker that lives."""
        while True:
            try:
                work = self._end(job, verdict)
                break
            except errors.StoreError as error:
                _log.warning("The end of the work %s waits for the run store: %s", job.request.work_id, error)
                if self._over:
                    return
                threading.Event().wait(_WRITE_AGAIN_S)
        if not work.state.is_open and self.on_end is not None:
            self.on_end(work)

    def _end(self, job: WorkJob, verdict: WorkVerdict) -> Work:
        now_ms, claimed = self.house.clock(), job.claimed
        for run_id in claimed.work.run_ids[-1:]:
            cancel_requests.remove(self.house.store.entries, run_id)
        if verdict.end.state is WorkState.CANCELLED and work_ends.STOPPING in verdict.sentence:
            return self.book.hand_over(claimed, now_ms, work_ends.STOPPING)
        if verdict.wait_s is not None:
            due_ms = now_ms + round(1000 * verdict.wait_s)
            return self.book.release(claimed, now_ms, due_ms=due_ms, sentence=verdict.sentence)
        if verdict.may_pass:
            return self.book.fail(claimed, verdict.end, now_ms)
        return self.book.done(claimed, verdict.end, now_ms)

    def _now_at_work(self) -> list[_AtWork]:
        with self._lock:
            return list(self._at_work.values())

    def _join(self, until: float) -> bool:
        """Wait for all work until then. True: there is none any more."""
        while self._now_at_work() and self.monotonic() < until:
            threading.Event().wait(0.05)
        return not self._now_at_work()
