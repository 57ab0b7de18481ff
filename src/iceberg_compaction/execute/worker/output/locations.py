"""Paths of output files: the table's location provider and data path, and names that no two attempts share (R45)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyiceberg.table import locations

from iceberg_compaction import errors
from iceberg_compaction.storage import exact_paths, file_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.model import rewrite_task


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLocations:
    """Paths of one attempt's files, in order."""

    provider: locations.LocationProvider
    table_location: str
    names: file_names.DataFileNames
    partition: Any
    owner: str | None = None  # namespace and table, where files of several tables may lie side by side

    def path(self, count: int) -> str:
        name = self.names.name(count)
        location = self.provider.new_data_location(name, self.partition)
        if self.owner is not None:
            if self.partition is not None and location.endswith(f"/{self.partition.to_path()}/{name}"):
                name = f"{self.partition.to_path()}/{name}"
            location = f"{location.removesuffix(name)[:-1]}/{self.owner}/{name}"
        return exact_paths.check_new(location, self.table_location)

    def of_partition(self, number: int, partition_path: str) -> OutputLocations:
        """The same attempt's files of one of several partitions."""
        partition = _PartitionPath(partition_path) if partition_path else None
        return replace(self, names=replace(self.names, partition_number=number), partition=partition)


@dataclass(frozen=True, slots=True)
class _PartitionPath:
    """A partition as a location provider needs it: its path."""

    text: str

    def to_path(self) -> str:
        return self.text


def output_locations(
    task: rewrite_task.RewriteTask, context: rewrite_task.RewriteContext, attempt: str, partition_path: str
) -> OutputLocations:
    """Locations for one attempt of a task. Task, attempt and run are in the name, so retries never collide."""
    impl = context.properties.get("write.location-provider.impl")
    if impl and not context.properties.get("write.py-location-provider.impl"):
        raise errors.UnsupportedError(f"The table's location provider {impl} is a Java class and cannot be used here.")
    _refuse_old_names(context.properties)
    try:
        provider = locations.load_location_provider(context.table_location, context.properties)
    except (ValueError, AttributeError) as error:
        raise errors.UnsupportedError(f"The table's location provider cannot be loaded: {error}") from error
    return OutputLocations(
        provider=provider,
        table_location=context.table_location,
        names=file_names.DataFileNames(task_id=task.id, attempt=attempt, run_id=context.run_id),
        partition=_PartitionPath(partition_path) if partition_path else None,
        owner=_owner(provider, context.table_location),
    )


def _refuse_old_names(properties: Mapping[str, str]) -> None:
    """Iceberg once had other names for the data path and refuses them now; files elsewhere would be a surprise."""
    if "write.data.path" in properties:
        return
    hashed = properties.get("write.object-storage.enabled", "").lower() == "true"
    for name in (
        ("write.object-storage.path", "write.folder-storage.path") if hashed else ("write.folder-storage.path",)
    ):
        if name in properties:
            raise errors.UnsupportedError(f"The table's property {name} is out of use; set write.data.path instead.")


def _owner(provider: locations.LocationProvider, table_location: str) -> str | None:
    """Hashed paths outside the table's own location name the table, as Iceberg's provider does."""
    if not isinstance(provider, locations.ObjectStoreLocationProvider):
        return None
    if provider.data_path.startswith(table_location.rstrip("/")):
        return None
    _, _, path = table_location.rstrip("/").rpartition("://")
    return "/".join(path.split("/")[1:][-2:])
