"""Table properties as a change without a snapshot. New values come in; the table has them, or a ConflictError names the
properties that others changed first. Values of others are not overwritten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from iceberg_compaction import errors
from iceberg_compaction.commit import spine
from iceberg_compaction.model import table_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from iceberg_compaction.commit.change import Committer


def set_properties(
    table: Table, new_values: Mapping[str, str], old_values: Mapping[str, str | None], run: Committer
) -> None:
    """Set `new_values` on the table if it still has `old_values` (None: not set). ConflictError: it has others, and
    nothing was set; or others commit so often that every attempt lost."""
    spine.commit(
        table,
        PropertiesChange(new_values=dict(new_values), old_values={name: old_values[name] for name in new_values}),
        run,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertiesChange:
    """The new values, and those that they replace."""

    new_values: dict[str, str]
    old_values: dict[str, str | None]

    @property
    def label(self) -> str:
        return f"properties {', '.join(sorted(self.new_values))}"

    @property
    def written(self) -> tuple[str, ...]:
        return ()

    def stage(self, table: Table, now_ms: int) -> StagedProperties:
        """Make the update. Raises ConflictError if somebody else has changed the properties."""
        changed = sorted(name for name, value in self.old_values.items() if table.properties.get(name) != value)
        if changed:
            raise errors.ConflictError(
                f"Somebody else changed {', '.join(changed)} of {table_names.text(table.name())} meanwhile; "
                "nothing was set."
            )
        return StagedProperties(change=self, parent=table.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedProperties:
    """One attempt to set the properties."""

    change: PropertiesChange
    parent: TableMetadata

    @property
    def requirements(self) -> tuple[TableRequirement, ...]:
        return (AssertTableUUID(uuid=self.parent.table_uuid),)

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        return (SetPropertiesUpdate(updates=self.change.new_values),)

    @property
    def files(self) -> frozenset[str]:
        return frozenset()

    @property
    def snapshot(self) -> None:
        return None

    def landed(self, metadata: TableMetadata) -> bool:
        """Whether the table has the new values, whoever set them."""
        return all(metadata.properties.get(name) == value for name, value in self.change.new_values.items())

    def is_exactly(self, metadata: TableMetadata) -> bool:
        """The same as `landed`: attempts do not differ."""
        return self.landed(metadata)

    def beaten(self, metadata: TableMetadata) -> bool:
        """Whether somebody else has set another value than the new one."""
        return any(
            metadata.properties.get(name) not in (value, self.change.old_values[name])
            for name, value in self.change.new_values.items()
        )
