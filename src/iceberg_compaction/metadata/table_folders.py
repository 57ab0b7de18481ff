"""The home of a table: its catalog entry, and the folders that its new files go to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table import locations

from iceberg_compaction.catalog import catalog_identity
from iceberg_compaction.model import table_names
from iceberg_compaction.model.run_record import CatalogEntry, TableHome

if TYPE_CHECKING:
    from pyiceberg.table import Table

_FOLDERS = (
    "write.data.path",
    "write.metadata.path",
    "write.folder-storage.path",  # the name of write.data.path before
    "write.object-storage.path",
)


def folders(table: Table) -> tuple[str, str]:
    """The folder of data files and that of metadata files, as the table's properties name them now."""
    location = table.location().rstrip("/")
    try:
        provider = locations.load_location_provider(table.location(), table.properties)
    except (ValueError, AttributeError):  # a provider that cannot be loaded writes nothing, either
        return f"{location}/data", f"{location}/metadata"
    return provider.data_path, provider.metadata_path


def roots(table: Table) -> tuple[str, ...]:
    """All folders that the table's location and properties name for its files, those included that writers no longer
    use. Files of hashed layouts lie below one of them. A folder inside another is not named."""
    named = [table.location(), *(table.properties.get(name, "") for name in _FOLDERS)]
    ordered = sorted({folder.rstrip("/") for folder in named if folder.strip("/")})
    return tuple(folder for folder in ordered if not any(folder.startswith(f"{other}/") for other in ordered))


def used(table: Table) -> tuple[str, ...]:
    """The folders in which the table has metadata files and manifest lists. A location that was changed leaves files
    where it was before."""
    metadata = table.metadata
    logged = [each.metadata_file for each in metadata.metadata_log]
    files = [table.metadata_location, *logged, *(each.manifest_list for each in metadata.snapshots)]
    return tuple(sorted({file.rpartition("/")[0] for file in files}))


def home(table: Table) -> TableHome:
    """Where the table is, as runs write it down."""
    data_path, metadata_path = folders(table)
    return TableHome(entry=entry(table), location=table.location(), data_path=data_path, metadata_path=metadata_path)


def entry(table: Table) -> CatalogEntry:
    """The catalog entry that the table was loaded from."""
    name, uuid = table_names.text(table.name()), str(table.metadata.table_uuid)
    return CatalogEntry(catalog=catalog_identity.identity(table), table=name, table_uuid=uuid)
