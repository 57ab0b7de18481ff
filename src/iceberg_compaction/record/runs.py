"""One run: its id, clock, chance, cancel token, listener and store. All of them are given from outside, so that the
work itself is reproducible."""

from __future__ import annotations

import copy
import logging
import random
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import cancel, errors, settings, version
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.model import events, run_record
from iceberg_compaction.record import journal, silence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
    sentence = [f"({event.sentence})"] if isinstance(event, events.Planned | events.GroupFailed) else []
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
    seen_token: int | None = None  # of the last lease of the table, when the plan was made
    started_ms: int = field(init=False)
    watch: silence.Watch = field(init=False)  # over other runs
    _history: list[run_record.RunRecord] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.started_ms = self.clock()
        self.watch = silence.Watch(clock=self.clock, pause=self.pause)

    @property
    def has_listener(self) -> bool:
        """Whether events go anywhere."""
        return self.on_event is not _ignore

    def emit(self, event: Event) -> None:
        """Inform the listener. It does not steer the run."""
        level = logging.DEBUG if event.kind in ("rewriting", "task-ended") else logging.INFO
        if _log.isEnabledFor(level):
            _log.log(level, "%s: %s", event.table, _event_words(event))
        self.on_event(event)

    def finishing(self) -> Run:
        """The same run for the commit of finished work, which a cancel does not stop at once."""
        finishing = copy.copy(self)
        finishing.cancel = self.cancel.finishing()
        return finishing

    @contextmanager
    def at_work(
        self, home: run_record.TableHome, *, branch: str, command: str, resources: tuple[str, ...]
    ) -> Iterator[None]:
        """Keep the run's entry in the journal while it changes the table, and a lease of the resources. LeasedError:
        another run has them, or had since the plan was made."""
        with journal.keep(home, self, branch=branch, command=command, resources=resources):
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
        if self.store is not None:
            record = run_record.RunRecord(
                run_id=self.run_id,
                table=outcome.table,
                version=version.__version__,
                started_ms=self.started_ms,
                finished_ms=finished_ms,
                outcome=outcome.brief(),
            )
            try:
                self.store.save(record)
            except errors.StoreError as error:
                _log.warning("This run is not in the history: %s", error)
        self.emit(events.Finished(table=outcome.table, run_id=self.run_id, outcome=outcome))
        return outcome
