"""Table metadata files that the client writes, where a catalog leaves that to its clients: they get the run's id into
their names, and the run hears of each before the catalog is asked to take it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Protocol, cast

from iceberg_compaction.catalog import load_tables
from iceberg_compaction.storage import counted_writes, exact_paths, file_names

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import StagedTable, Table


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
    if not lets_clients_write(catalog):
        return cast("Catalog", catalog)
    stage = catalog._update_and_stage_table

    def stage_named(current_table: Table | None, *given: Any, **more: Any) -> StagedTable:
        staged: StagedTable = stage(current_table, *given, **more)
        if file_names.is_distinct(run_id):
            staged.metadata_location = file_names.table_metadata(staged.metadata_location, run_id)
        exact_paths.check_new(staged.metadata_location, staged.metadata.location)
        if current_table is not None:
            load_tables.count_metadata_read(current_table)
        staged.io = counted_writes.CountingIO(exact_paths.exact(staged.io), listener.on_stored)
        listener.on_staged(current_table, staged)
        return staged

    named: Catalog = copy.copy(catalog)
    vars(named)["_update_and_stage_table"] = stage_named
    return named
