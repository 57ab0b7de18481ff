"""Tasks that list folders: which folders, what is known of their files, and what was listed. The paths that a table
refers to travel as sorted hashes, eight bytes for each; files that are not among them come back, others are counted."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from iceberg_compaction.model.value import Count, Value


class FolderPart(Value):
    """A folder to list, below one that a table has."""

    below: str = ""  # the path below the root, with a leading slash; empty: the root itself
    deep: bool = True  # everything below it, too; else only the files in the folder itself


class FoldersToList(Value):
    """The folders of one task."""

    root: str  # in the spelling in which paths go out
    parts: tuple[FolderPart, ...]


class KnownHashes(Value):
    """What a table refers to, and how paths are spelled."""

    whole: Annotated[
        bytes, Field(repr=False)
    ]  # hashes of paths with their prefixes, sorted, as unsigned 64-bit numbers
    sizes: Annotated[bytes, Field(repr=False)]  # of the same files, as 64-bit numbers; 0: unknown
    schemes: dict[str, str] = {}
    authorities: dict[str, str] = {}
    default_scheme: str = "file"
    default_authority: str = ""
    most_strangers: Count = 200_000  # files of a task that may come back; if there are more, the task fails


class ListedFolders(Value):
    """The files in the folders of one task."""

    referenced: Count = 0  # files that are among the hashes
    referenced_bytes: Count = 0
    positions: Annotated[bytes, Field(repr=False)] = b""  # of the hashes that were met, as unsigned 32-bit numbers
    strangers: Annotated[bytes, Field(repr=False)] = b""  # all other files: an Arrow stream, storage.tree's PAGE
    now_ms: int | None = None  # the earliest time by the store's clock, while it listed; None: it does not say
