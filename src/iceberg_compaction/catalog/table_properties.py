"""Table properties, set with the catalog's compare-and-set. What somebody else has changed meanwhile is not
overwritten."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import load_tables, publish

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog

_ATTEMPTS = 4


def set_properties(catalog: Catalog, name: str, changes: Mapping[str, str], *, seen: Mapping[str, str | None]) -> None:
    """Set `changes` on a table, if its properties still are as they were `seen` (None: not set). ConflictError: they
    are not, and nothing was set; or others commit so often that no attempt came through."""
    from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

    for attempt in range(1, _ATTEMPTS + 1):
        table = load_tables.load_table(catalog, name)
        moved = sorted(key for key in changes if table.properties.get(key) != seen[key])
        if moved:
            raise errors.ConflictError(
                f"Somebody else has changed {', '.join(moved)} of {name} meanwhile; nothing was set."
            )
        try:
            publish.publish(
                table,
                (AssertTableUUID(uuid=table.metadata.table_uuid),),
                (SetPropertiesUpdate(updates=dict(changes)),),
            )
        except errors.ConflictError:
            if attempt == _ATTEMPTS:
                raise
        else:
            return
