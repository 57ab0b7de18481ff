"""One run's identity and surroundings: who it is, what time it is, who listens, who remembers. All of it is given from
outside, so that the work itself is reproducible."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import cancel, errors, version
from iceberg_compaction.model import run_record
from iceberg_compaction.model.copy_plan import Rates
from iceberg_compaction.plan import rates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.operations.journal import Entry
    from iceberg_compaction.record.store import RunStore

_log = logging.getLogger(__name__)


def _ignore(event: Event) -> None:
    """Nobody listens."""


@dataclass(slots=True, kw_only=True)
class Run:
    """What every step of a run may need to know besides its work."""

    run_id: str
    clock: Callable[[], int]  # milliseconds since the epoch
    branch: str = "main"
    on_event: Callable[[Event], None] = _ignore
    store: RunStore | None = None
    cancel: cancel.CancelToken = field(default_factory=cancel.CancelToken)
    pause: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    entry: Entry | None = None  # its line in the journal, while it is at work

    def publishing(self, snapshot: Snapshot | None, metadata: str | None) -> None:
        """Write down that a change is about to be published. Raises CommitError if it must not be (R49)."""
        if self.entry is not None:
            self.entry.publishing(snapshot, metadata)

    def committed(self, snapshot: Snapshot | None) -> None:
        """Write down that the change is part of the table."""
        if self.entry is not None:
            self.entry.committed(snapshot)

    def left_behind(self, paths: Sequence[str]) -> None:
        """Remember that there are files for the next run to remove."""
        if paths and self.entry is not None:
            self.entry.clean = False

    def rates(self, table: str) -> Rates:
        """How fast copying and encoding were in earlier runs. A store that cannot be read must not stop planning."""
        if self.store is None:
            return Rates()
        try:
            return rates.learn(*self.store.efforts(table))
        except errors.StoreError as error:
            _log.warning("Nothing is known of earlier runs: %s", error)
            return Rates()

    def remember(self, outcome: Outcome, started_ms: int) -> None:
        """Keep the outcome. A store that cannot be written must not turn a landed commit into a failure."""
        if self.store is None:
            return
        entry = run_record.RunRecord(
            run_id=self.run_id,
            table=outcome.table,
            version=version.__version__,
            started_ms=started_ms,
            finished_ms=self.clock(),
            outcome=outcome.brief(),
        )
        try:
            self.store.save(entry)
        except errors.StoreError as error:
            _log.warning("This run is not in the history: %s", error)
