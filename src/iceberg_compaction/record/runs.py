"""One run: its id, clock, chance, cancel token, listener and store. All of them are given from outside, so that the
work itself is reproducible."""

from __future__ import annotations

import copy
import itertools
import logging
import random
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import cancel, errors, settings, version
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.model import events, run_record
from iceberg_compaction.model.run_figures import HealthEntry
from iceberg_compaction.record import event_log, health_log, journal, outbox, run_story, silence, store_warnings

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.rewrite_task import Effort
    from iceberg_compaction.record.store import RunStore

_RUNS = 20  # of the history that a run reads
_KEPT_FIGURES = ("forecast", "before", "after")  # of events; they are in the record of the run
_log = logging.getLogger(__name__)


def _ignore(event: Event) -> None:
    """Nobody listens."""


def _event_words(event: Event) -> str:
    """The step and its figures."""
    figures = event.model_dump(exclude={"kind", "table", "run_id", "outcome", "sentence", *_KEPT_FIGURES})
    sentence = (
        [f"({event.sentence})"] if isinstance(event, events.Planned | events.GroupFailed | events.EngineChosen) else []
    )
    return " ".join(
        [event.kind, *(f"{name}={value}" for name, value in figures.items() if value is not None), *sentence]
    )


@dataclass(slots=True, kw_only=True)
class Run:
    """The surroundings of every step of a run."""

    run_id: str
    clock: Callable[[], int]  # milliseconds since the epoch
    on_event: Callable[[Event], None] = _ignore
    store: RunStore | None = None
    cache: arrow_cache.ArrowCache = arrow_cache.NO_CACHE  # of parsed manifests
    cancel: cancel.CancelToken = field(default_factory=cancel.CancelToken)
    pause: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    heartbeat_s: float = settings.HEARTBEAT_SECONDS  # between two heartbeats
    entry: journal.Entry | None = None  # in the journal, while it is at work
    landed: tuple[int, ...] = ()  # snapshots that it has committed
    leased: bool = False  # it ended because another run has what it needs, and may be tried again
    warnings: store_warnings.StoreWarnings = field(default_factory=store_warnings.StoreWarnings)
    catalog: str = ""  # the identity of the table's catalog, once the table is loaded
    outbox: outbox.Outbox | None = field(default=None, init=False)  # to the store; None: there is none
    started_ms: int = field(init=False)
    watch: silence.Watch = field(init=False)  # over other runs
    _events: event_log.EventWriter | None = field(default=None, init=False)
    _story: run_story.RunStory = field(default_factory=run_story.RunStory, init=False)
    _plans: Iterator[int] = field(default_factory=itertools.count, init=False)
    _history: list[run_record.RunRecord] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.started_ms = self.clock()
        self.watch = silence.Watch(clock=self.clock, pause=self.pause)
        if self.store is not None:
            self.outbox = outbox.Outbox(entries=self.store.entries, warnings=self.warnings)
            self._events = event_log.EventWriter(outbox=self.outbox, run_id=self.run_id)

    @property
    def has_listener(self) -> bool:
        """Whether events go anywhere: to a listener, or to a store, where other processes may watch."""
        return self.on_event is not _ignore or self._events is not None

    def emit(self, event: Event) -> None:
        """Inform the listener and the store. It does not steer the run."""
        level = logging.DEBUG if event.kind in ("rewriting", "comparing", "task-ended") else logging.INFO
        if _log.isEnabledFor(level):
            _log.log(level, "%s: %s", event.table, _event_words(event))
        at_ms = self.clock()
        self._story.take(event, at_ms)
        if self._events is not None:
            self._events.put(event, at_ms)
        self.on_event(event)

    def next_plan(self) -> int:
        """The number of a plan that the run begins to perform."""
        return next(self._plans)

    def finishing(self) -> Run:
        """The same run for the commit of finished work, which a cancel does not stop at once."""
        finishing = copy.copy(self)
        finishing.cancel = self.cancel.finishing()
        return finishing

    @contextmanager
    def at_work(
        self,
        home: run_record.TableHome,
        *,
        branch: str,
        command: str,
        resources: tuple[str, ...],
        seen: Container[int] | None = None,
    ) -> Iterator[None]:
        """Keep the run's entry in the journal while it changes the table, and a lease of the resources, and write its
        events to the store. LeasedError: another run has them, or had and made a snapshot that is not among `seen`, on
        which the plan was made."""
        with (
            nullcontext() if self.store is None else self.store.entries.stay_open(),
            self.outbox or nullcontext(),
            journal.keep(home, self, branch=branch, command=command, resources=resources, seen=seen),
        ):
            yield

    def publishing(self, announcement: run_record.Announcement) -> None:
        """Write down that a change is about to be published. Raises CommitError if it must not be (R49)."""
        if self.entry is not None:
            self.entry.publishing(announcement)

    def committed(self, snapshot_id: int | None) -> None:
        """Write down that the change is part of the table."""
        if self.entry is not None:
            self.entry.committed(snapshot_id)

    def left_behind(self, paths: Sequence[str]) -> None:
        """Write down that there are files for the next run to remove."""
        if paths:
            self.may_leave_files()

    def may_leave_files(self) -> None:
        """Write down that there may be files for the next run to remove."""
        if self.entry is not None:
            self.entry.clean = False

    def efforts(self, table: str) -> tuple[list[Effort], list[Effort]]:
        """The bytes and seconds of earlier runs, on the table and on others. A store that cannot be read must not stop
        planning."""
        if self.store is None:
            return [], []
        try:
            return self.store.efforts(table)
        except errors.StoreError as error:
            _log.warning("The efforts of earlier runs are not used: %s", error)
            return [], []

    def history(self, table: str) -> list[run_record.RunRecord]:
        """The last runs on the run's table, the newest first; read once."""
        if self._history is None and self.store is not None:
            try:
                self._history = self.store.history(table, limit=_RUNS)
            except errors.StoreError as error:
                _log.warning("The outcomes of earlier runs are not used: %s", error)
                self._history = []
        return self._history or []

    def remember(self, outcome: Outcome) -> Outcome:
        """Keep the outcome, with the time that it took. A store that cannot be written must not turn a commit into a
        failure."""
        finished_ms = self.clock()
        outcome = outcome.model_copy(update={"seconds": (finished_ms - self.started_ms) / 1000})
        is_saved = self.store is not None and self._save(self.store, outcome, finished_ms)
        try:
            self.emit(events.Finished(table=outcome.table, run_id=self.run_id, outcome=outcome))
        finally:
            if is_saved and self.outbox is not None:
                self._put_health(outcome.table, finished_ms, self.outbox.put)
                self.outbox.try_flush()
        return outcome

    def _save(self, store: RunStore, outcome: Outcome, finished_ms: int) -> bool:
        record = run_record.RunRecord(
            run_id=self.run_id,
            table=outcome.table,
            version=version.__version__,
            started_ms=self.started_ms,
            finished_ms=finished_ms,
            outcome=outcome.brief(),
            catalog=self.catalog,
            stages=self._story.stages(finished_ms),
            forecast=self._story.forecast,
            before=self._story.before,
            after=self._story.after,
        )
        try:
            store.save(record)
        except errors.StoreError as error:
            _log.warning("This run is not in the history: %s", error)
            return False
        return True

    def _put_health(self, table: str, finished_ms: int, put: Callable[[str, str], None]) -> None:
        """The table before and after the run, as far as the run has measured it."""
        looks = ((self._story.before_ms, self._story.before), (finished_ms, self._story.after))
        for at_ms, figures in looks:
            if figures is not None:
                entry = HealthEntry(at_ms=at_ms, catalog=self.catalog, table=table, run_id=self.run_id, figures=figures)
                for key, text in health_log.rows(entry).items():
                    put(key, text)
