"""One warm engine for each catalog, shared by all runs of a worker. It starts when the first run needs it, and is
opened anew if it broke."""

from __future__ import annotations

import logging
import threading
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction.execute.engines import shared_engine
from iceberg_compaction.interfaces import wiring

if TYPE_CHECKING:
    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.interfaces.service.catalog_shelf import CatalogShelf
    from iceberg_compaction.operations.operation import EngineFactory

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _OpenEngine:
    """The engine of one catalog."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    engine: Engine | None = None
    open: ExitStack = field(default_factory=ExitStack)


@dataclass(slots=True)
class EngineShelf:
    """Engines by the names of catalogs."""

    catalogs: CatalogShelf
    _opened: dict[str, _OpenEngine] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._opened = {name: _OpenEngine() for name in self.catalogs.settings}

    def of_catalog(self, name: str) -> EngineFactory:
        """How runs on tables of a catalog get their engine."""

        def shared() -> AbstractContextManager[Engine]:
            return nullcontext(self._engine(name))

        return shared

    def forget(self, name: str) -> None:
        """Open the engine anew next time: a run could not use it."""
        opened = self._opened[name]
        with opened.lock:
            engine, opened.engine = opened.engine, None
            before, opened.open = opened.open, ExitStack()
        if engine is not None:
            _close(before)

    def close(self) -> None:
        """End all of them."""
        for name in self._opened:
            self.forget(name)

    def _engine(self, name: str) -> Engine:
        opened = self._opened[name]
        with opened.lock:
            if opened.engine is None:
                entry = self.catalogs.entry(name)
                conf = {} if entry.master is None else {"spark.master": entry.master}
                factory = wiring.engine_factory(entry.engine, conf=conf)
                opened.engine = opened.open.enter_context(factory())
            return shared_engine.share(opened.engine, opened.lock)


def _close(open_engine: ExitStack) -> None:
    try:
        open_engine.close()
    except Exception as error:  # noqa: BLE001 an engine that broke may not end cleanly, and others must go on
        _log.warning("An engine did not end cleanly: %s", error)
