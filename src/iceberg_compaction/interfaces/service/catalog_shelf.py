"""The catalogs of a service, each opened when it is first needed. One that does not answer is left alone for a while,
so that it delays its own tables only."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iceberg_compaction.interfaces.service.service_settings import ServedCatalog

_WAIT_S = 15.0  # after a catalog could not be opened


@dataclass(slots=True)
class _Opened:
    """One catalog, and why it could not be opened."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    catalog: Any = None  # of PyIceberg
    error: errors.CompactionError | None = None
    again_at: float = 0.0


@dataclass(slots=True, kw_only=True)
class CatalogShelf:
    """Catalogs by the names that settings give them."""

    settings: Mapping[str, ServedCatalog]
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _opened: dict[str, _Opened] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._opened = {name: _Opened() for name in self.settings}

    def entry(self, name: str) -> ServedCatalog:
        """The settings of a catalog; ConfigError: there is none of that name."""
        if name not in self.settings:
            raise errors.ConfigError(f"There is no catalog {name!r}; the service has {', '.join(self.settings)}.")
        return self.settings[name]

    def catalog(self, name: str) -> Any:
        """The catalog. CatalogError: it cannot be used now; for some seconds the same error is raised again, without
        another try."""
        entry, opened = self.entry(name), self._opened[name]
        with opened.lock:
            if opened.catalog is not None:
                return opened.catalog
            if opened.error is not None and self.monotonic() < opened.again_at:
                raise opened.error
            from iceberg_compaction.catalog import connect

            try:
                opened.catalog = connect.connect(_with_storage_pace(entry))
                self._slow_down(opened.catalog, entry.requests_per_second)
            except errors.CompactionError as error:
                opened.error, opened.again_at = error, self.monotonic() + _WAIT_S
                raise
            opened.error = None
            return opened.catalog

    def identity(self, name: str) -> str | None:
        """The identity of a catalog, under which the run store has its tables. None: it cannot be told now."""
        from iceberg_compaction.catalog import catalog_identity

        try:
            return catalog_identity.of_catalog(self.catalog(name)) or None
        except errors.CompactionError:
            return None

    def _slow_down(self, catalog: Any, per_second: float | None) -> None:
        if per_second is not None:
            from iceberg_compaction.catalog import paced_catalog
            from iceberg_compaction.storage.s3 import request_pace

            given = request_pace.RequestPace(per_second=per_second, monotonic=self.monotonic, sleep=self.sleep)
            paced_catalog.pace(catalog, given)

    def forget(self, name: str) -> None:
        """Open the catalog anew next time."""
        self._opened[name] = _Opened()


def _with_storage_pace(entry: ServedCatalog) -> ServedCatalog:
    """The catalog, whose tables' files are asked for at the pace that the settings allow."""
    if entry.storage_requests_per_second is None:
        return entry
    from iceberg_compaction.storage.s3 import request_pace

    paced = {**entry.properties, request_pace.PROPERTY: str(entry.storage_requests_per_second)}
    return entry.model_copy(update={"properties": paced})
