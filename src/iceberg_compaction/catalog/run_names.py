"""How files tell which run wrote them. Data files, manifests and manifest lists have the run's id in their names; so
have table metadata files, where a catalog lets its clients write those, in the form of a UUID as catalogs expect it."""

from __future__ import annotations

import copy
import re
import secrets
import uuid
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import StagedTable, Table

PROPERTY = "compaction.run-id"  # of a snapshot's summary
_RUN_ID = re.compile(r"[0-9a-f]{32}")
_UUID = re.compile(r"-[0-9a-fA-F-]{36}(?=[^/]*$)")
_SHARED = 24  # hex digits of the UUID that are the run's; the rest tells attempts apart


def is_distinct(run_id: str) -> bool:
    """Whether no file of anybody else can have this id in its name."""
    return _RUN_ID.fullmatch(run_id) is not None


def marks(run_id: str) -> tuple[str, ...]:
    """Texts that are in the names of the run's files, one or the other, and in no other names."""
    return (run_id, _dashed(run_id[:_SHARED]))


def is_of(run_id: str, path: str) -> bool:
    """Whether a file is the run's."""
    return any(mark in path.rpartition("/")[2] for mark in marks(run_id))


def lets_clients_write(catalog: Catalog) -> bool:
    """Whether clients write table metadata files, and only then ask the catalog to take one."""
    from pyiceberg.catalog import MetastoreCatalog

    return isinstance(catalog, MetastoreCatalog)


class Listener(Protocol):
    """Hears of table metadata files that the client writes."""

    def on_staged(self, base: Table | None, staged: StagedTable) -> None:
        """A file with this metadata, built on that table, is about to be written."""
        ...

    def on_stored(self) -> None:
        """The file is in storage; what this raises keeps the catalog from being asked to take it."""
        ...


def naming(catalog: Any, run_id: str, listener: Listener) -> Catalog:
    """The catalog, except that table metadata files get the run's name, that none is published of which storage holds
    only a part, and that the listener hears of each before it is written and before the compare-and-set. Catalogs that
    write these files on their server are as they were."""
    from iceberg_compaction.storage import counted_writes, exact_paths

    if not lets_clients_write(catalog):
        return cast("Catalog", catalog)
    stage = catalog._update_and_stage_table

    def stage_named(current_table: Table | None, *given: Any, **more: Any) -> StagedTable:
        staged: StagedTable = stage(current_table, *given, **more)
        if is_distinct(run_id):
            staged.metadata_location = _UUID.sub(f"-{_file_id(run_id)}", staged.metadata_location)
        exact_paths.check_new(staged.metadata_location, staged.metadata.location)
        staged.io = counted_writes.CountingIO(exact_paths.exact(staged.io), listener.on_stored)
        listener.on_staged(current_table, staged)
        return staged

    named: Catalog = copy.copy(catalog)
    vars(named)["_update_and_stage_table"] = stage_named
    return named


def _file_id(run_id: str) -> str:
    return _dashed(run_id[:_SHARED] + secrets.token_hex((32 - _SHARED) // 2))


def _dashed(digits: str) -> str:
    """The first digits of a UUID, at least 20 of them, as they are written."""
    return str(uuid.UUID(digits.ljust(32, "0")))[: len(digits) + 4]
