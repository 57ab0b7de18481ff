"""Where output files go: the table's location provider and data path, names that no two attempts share (R45)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.table import locations

from iceberg_compaction import errors

if TYPE_CHECKING:
    from iceberg_compaction.model import task as task_model


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLocations:
    """Paths of one attempt's files, in order."""

    provider: locations.LocationProvider
    prefix: str
    partition: Any

    def path(self, count: int) -> str:
        name = f"{self.prefix}-{count:05d}.parquet"
        return self.provider.new_data_location(name, self.partition)


@dataclass(frozen=True, slots=True)
class _PartitionPath:
    """What a location provider wants to know of a partition: its path."""

    text: str

    def to_path(self) -> str:
        return self.text


def output_locations(
    task: task_model.RewriteTask, context: task_model.RewriteContext, attempt: str, partition_path: str
) -> OutputLocations:
    """Locations for one attempt of a task. Task, attempt and run are in the name, so retries never collide."""
    impl = context.properties.get("write.location-provider.impl")
    if impl and not context.properties.get("write.py-location-provider.impl"):
        raise errors.UnsupportedError(f"The table's location provider {impl} is a Java class and cannot be used here.")
    try:
        provider = locations.load_location_provider(context.table_location, context.properties)
    except (ValueError, AttributeError) as error:
        raise errors.UnsupportedError(f"The table's location provider cannot be loaded: {error}") from error
    return OutputLocations(
        provider=provider,
        prefix=f"{task.id:05d}-{attempt}-{context.run_id}",
        partition=_PartitionPath(partition_path) if partition_path else None,
    )
