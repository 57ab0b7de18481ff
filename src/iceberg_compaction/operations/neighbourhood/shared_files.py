"""The files that other tables need among those that are about to go. Folders come in, and what is known of the other
tables; those that have files near by are loaded and read in full, so that what they need is known file by file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction import errors
from iceberg_compaction.formats import hash64
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.metadata.reach import known_paths, linked_folders, reachable_files
from iceberg_compaction.model import table_names
from iceberg_compaction.operations.neighbourhood import reached_folders
from iceberg_compaction.storage import exact_paths

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyiceberg.table import Table

    from iceberg_compaction.formats.hash64 import Hashes
    from iceberg_compaction.operations.neighbourhood.look_around import Neighbourhood
    from iceberg_compaction.storage.tree.path_forms import Spellings


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededPaths:
    """What another table refers to."""

    table: str
    paths: Hashes  # of plain paths, sorted, each once


def needed(
    table: Table, file_folders: linked_folders.FileFolders, others: Neighbourhood, spellings: Spellings
) -> Iterator[NeededPaths]:
    """What the other tables refer to that have files in, below or around these folders. UnsupportedError: links lead
    there, so that one file has two paths; MetadataError: something cannot be read."""
    for name in _near(table, file_folders.reached, others):
        try:
            other = others.load(name)
        except errors.NoSuchTableError as error:  # dropped meanwhile, or renamed
            raise errors.MetadataError(
                f"{name} was there a moment ago, and may still need files under another name; run again."
            ) from error
        _, metadata_folder = table_folders.folders(other)
        parts, theirs, reader = [], linked_folders.FileFolders(), linked_folders.FolderReader()
        for batch in reachable_files.all_files(other, metadata_folder):
            parts.append(known_paths.hashes(spellings, batch.column("path"))[0])
            theirs |= reader.read(batch.column("path"))
        if theirs.meet_by_links(file_folders):
            raise errors.UnsupportedError(
                f"{name} refers to files of {table_names.text(table.name())} by another way through links, so that "
                "nobody can say which of them it needs."
            )
        yield NeededPaths(table=name, paths=hash64.ordered(np.concatenate(parts)))


def _near(table: Table, folders: Collection[str], others: Neighbourhood) -> list[str]:
    """Names of tables that refer to files in, below or around the folders. Links may have come since."""
    is_local = not exact_paths.has_objects(exact_paths.split(table.location())[0])
    names = []
    for other in others.neighbours:
        theirs = other.reach.folders
        if reached_folders.overlap(folders, {*theirs, *_beyond_links(theirs)} if is_local else theirs):
            names.append(other.table)
    return names


def _beyond_links(folders: Collection[str]) -> frozenset[str]:
    """Where links lead, of those folders that have any."""
    return frozenset(real for folder in folders if (real := os.path.realpath(folder)) != folder)
