"""One attempt at a piece of work: the claim, its token, and the runs that it makes. The first run of the work has the
id of the work, so that whoever asked for it can watch; later ones have fresh ids. Each is written down before it
begins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iceberg_compaction.interfaces import wiring
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.cancel import CancelToken
    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.interfaces.service.work.engine_shelf import EngineShelf
    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.work import WorkRequest
    from iceberg_compaction.record.rules.work_book import ClaimedWork, WorkBook
    from iceberg_compaction.record.runs import Run

_RUN_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(slots=True, kw_only=True)
class WorkJob:
    """What an attempt needs."""

    house: ServiceHouse
    engines: EngineShelf
    book: WorkBook
    claimed: ClaimedWork
    cancel: CancelToken
    on_event: Callable[[Event], None] | None = None

    @property
    def request(self) -> WorkRequest:
        return self.claimed.work.request

    def catalog(self) -> Any:
        """The catalog of the table; CatalogError: it does not answer."""
        return self.house.catalogs.catalog(self.request.catalog)

    def operating_house(self, loaded: Any = None) -> operate.House:
        """What operations get."""
        engines = self.engines.of_catalog(self.request.catalog)
        return operate.House(catalog=self.catalog(), engines=engines, loaded=loaded)

    def begin(self) -> Run:
        """A run of this work. LostWorkError: another worker has it by now."""
        work_id = self.request.work_id
        first = not self.claimed.work.run_ids and _RUN_ID.fullmatch(work_id) is not None
        run = self._run(work_id if first else None)
        self.claimed = self.book.started(self.claimed, run.run_id, self.house.clock())
        return run

    def probe(self) -> Run:
        """A run that looks, and changes nothing."""
        return self._run(None)

    def _run(self, run_id: str | None) -> Run:
        return wiring.new_run(store=self.house.store, run_id=run_id, cancel=self.cancel.child(), on_event=self.on_event)
