"""The folders that a table's new files go to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table import locations

if TYPE_CHECKING:
    from pyiceberg.table import Table


def folders(table: Table) -> tuple[str, str]:
    """The folder of data files and that of metadata files, as the table's properties name them now."""
    location = table.location().rstrip("/")
    try:
        provider = locations.load_location_provider(table.location(), table.properties)
    except (ValueError, AttributeError):  # a provider that cannot be loaded writes nothing, either
        return f"{location}/data", f"{location}/metadata"
    return provider.data_path, provider.metadata_path
