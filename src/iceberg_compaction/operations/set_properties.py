"""Table properties as a change without a snapshot: wanted values come in; the table has them, or a ConflictError says
who was faster. Values that others have set meanwhile are not overwritten."""

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


def set_properties(table: Table, wanted: Mapping[str, str], seen: Mapping[str, str | None], run: Committer) -> None:
    """Set `wanted` on the table, if these properties still are as they were `seen` (None: not set). ConflictError: they
    are not, and nothing was set; or others commit so often that no attempt came through."""
    spine.commit(table, PropertiesChange(wanted=dict(wanted), seen={name: seen[name] for name in wanted}), run)


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertiesChange:
    """The wanted values, and those that they replace."""

    wanted: dict[str, str]
    seen: dict[str, str | None]

    @property
    def label(self) -> str:
        return f"properties {', '.join(sorted(self.wanted))}"

    @property
    def written(self) -> tuple[str, ...]:
        return ()

    def stage(self, table: Table, now_ms: int) -> StagedProperties:
        """The update, as long as nobody else has changed the properties."""
        changed = sorted(name for name, value in self.seen.items() if table.properties.get(name) != value)
        if changed:
            raise errors.ConflictError(
                f"Somebody else has changed {', '.join(changed)} of {table_names.text(table.name())} meanwhile; "
                "nothing was set."
            )
        return StagedProperties(change=self, parent=table.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedProperties:
    """One attempt."""

    change: PropertiesChange
    parent: TableMetadata

    @property
    def requirements(self) -> tuple[TableRequirement, ...]:
        return (AssertTableUUID(uuid=self.parent.table_uuid),)

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        return (SetPropertiesUpdate(updates=self.change.wanted),)

    @property
    def files(self) -> frozenset[str]:
        return frozenset()

    @property
    def snapshot(self) -> None:
        return None

    def landed(self, metadata: TableMetadata) -> bool:
        """Whether the table has the wanted values, whoever has set them."""
        return all(metadata.properties.get(name) == value for name, value in self.change.wanted.items())

    def is_exactly(self, metadata: TableMetadata) -> bool:
        """Attempts do not differ."""
        return self.landed(metadata)

    def beaten(self, metadata: TableMetadata) -> bool:
        """Whether somebody else has set another value than the wanted one."""
        return any(
            metadata.properties.get(name) not in (value, self.change.seen[name])
            for name, value in self.change.wanted.items()
        )
