"""Before files of expired snapshots go, what other tables of the catalog need of them is spared. Deleting needs proof
that nobody refers to a file: where a table cannot be looked at, there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import plurals
from iceberg_compaction.operations.neighbourhood import shared_files
from iceberg_compaction.operations.neighbourhood.look_around import Neighbourhoods
from iceberg_compaction.storage import exact_paths
from iceberg_compaction.storage.tree import path_forms

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.operations.expire.doomed_files import DoomedFiles
    from iceberg_compaction.operations.neighbourhood.look_around import Neighbourhood
    from iceberg_compaction.record.runs import Run

_SPELLINGS = path_forms.Spellings()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTables:
    """How much of the catalog's other tables has to be known."""

    neighbourhoods: Neighbourhoods = field(default_factory=Neighbourhoods)
    allow_unlisted: bool = False  # go on although some cannot be looked at

    def can_tell(self, table: Table, run: Run) -> bool:
        """Whether it can be said what others need."""
        return self.allow_unlisted or self.neighbourhoods.of(table, run).doubt is None

    def spare(self, table: Table, doomed: DoomedFiles, run: Run) -> list[str]:
        """Files that others need stay. Returns sentences on these. MetadataError: it cannot be known."""
        others = self.neighbourhoods.of(table, run)
        if others.doubt is not None and not self.allow_unlisted:
            raise errors.MetadataError(
                f"{others.doubt} It may refer to them; say --allow-unlisted, or allow-unlisted in the "
                "policy, if you know that no other table does."
            )
        notes = []
        for other in shared_files.needed(table, doomed.file_folders(), others, _SPELLINGS):
            if spared := doomed.spare_paths(other.paths, _SPELLINGS):
                words = plurals.form(spared, "stays: {} refers to it.", "stay: {} refers to them.").format(other.table)
                notes.append(f"{plurals.count(spared, 'file')} of expired snapshots {words}")
        return notes


def same_tables(table: Table, others: Neighbourhood) -> list[str]:
    """Other names of the same table (R48), or tables in the same place: `register_table`, clones and renames leave
    several names whose metadata go apart, and each needs its own files. An entry that cannot be loaded, whose metadata
    is in the table's folders, may be one of them."""
    own = _path(table.location())
    names = [
        each.table
        for each in others.neighbours
        if each.uuid == str(table.metadata.table_uuid) or _path(each.location) == own
    ]
    folders = {_path(table.metadata_location).rpartition("/")[0], own}
    return names + [
        each.table
        for each in others.unknown
        if each.metadata_location is not None
        and any(_path(each.metadata_location).startswith(f"{folder}/") for folder in folders)
    ]


def _path(location: str) -> str:
    _, authority, path = exact_paths.split(location)
    return f"{authority}{path}".rstrip("/")
