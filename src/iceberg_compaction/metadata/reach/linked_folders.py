"""Folders on this machine that paths reach through links, so that one file has two paths. Locations come in; the
folders in which their files lie go out, and for those behind links also where these lead."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.metadata.reach import outer_folders
from iceberg_compaction.storage.tree import path_forms

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCAL = r"^(?i:file:(?://[^/]*)?)?/"
_FOLDER = r"(?s)^(?i:file:(?://[^/]*)?)?(?P<folder>/.*)$"
_SPELLINGS = path_forms.Spellings()
Way = tuple[str, str]  # a plain folder as it is written, and where it is


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFolders:
    """Where files lie."""

    folders: frozenset[str] = frozenset()  # the plain outer folders, as they are written
    links: frozenset[Way] = frozenset()  # folders behind links

    def __or__(self, other: FileFolders) -> FileFolders:
        return FileFolders(folders=self.folders | other.folders, links=self.links | other.links)

    @property
    def reached(self) -> frozenset[str]:
        """The outer folders, those behind links included; few of them."""
        return outer_folders.few(self.folders | {real for _, real in self._ways()})

    def meet_by_links(self, other: FileFolders) -> bool:
        """Whether one of the folders is one of the other's, or inside or around it, by another way."""
        if not self.links and not other.links:
            return False
        mine, theirs = self._ways(), other._ways()
        pairs = [(one, two) for one in mine for two in (*theirs, *_plain(other.folders))]
        pairs += [(one, two) for one in _plain(self.folders) for two in theirs]
        return any(meet(*one, *two) for one, two in pairs)

    def _ways(self) -> frozenset[Way]:
        """The links, without folders of partitions as far as these go the same way."""
        ways = sorted(self.links)
        outer = [outer_folders.of_paths(pa.array([f"{way[side]}/" for way in ways], pa.string())) for side in (0, 1)]
        pairs = zip(ways, *(each.to_pylist() for each in outer), strict=True)
        return frozenset((written, real) if written != real else way for way, written, real in pairs)


class FolderReader:
    """Finds where files lie, batch by batch. Each folder is looked at once, however many files lie in it."""

    def __init__(self) -> None:
        self._reals = {"": ""}

    def read(self, locations: pa.Array) -> FileFolders:
        """Where the files at these locations lie."""
        return FileFolders(folders=outer_folders.of_locations(locations), links=self.links(locations))

    def links(self, locations: pa.Array) -> frozenset[Way]:
        """Those of their folders that are behind links."""
        local = locations.filter(pc.match_substring_regex(locations, _LOCAL))
        if not len(local):
            return frozenset()
        folders = pc.struct_field(pc.extract_regex(_parents(local), _FOLDER), "folder").drop_null().to_pylist()
        ways = ((folder, self._real_of(folder)) for folder in folders)
        plain = ((_plain_path(folder), _plain_path(real)) for folder, real in ways if folder != real)
        return frozenset((written, real) for written, real in plain if written != real)

    def _real_of(self, folder: str) -> str:
        if "/." in folder or "//" in folder:  # seldom, and a link may come before `..`
            return os.path.realpath(folder)
        if (real := self._reals.get(folder)) is None:
            parent, _, name = folder.rpartition("/")
            path = f"{self._real_of(parent)}/{name}"
            real = self._reals[folder] = os.path.realpath(path) if os.path.islink(path) else path
        return real


def _parents(locations: pa.Array) -> pa.Array:
    """The different folders of locations, each of which has a slash."""
    halves = pc.split_pattern(locations, "/", max_splits=1, reverse=True).flatten()
    return halves.take(pa.array(np.arange(0, len(halves), 2))).unique()


def of_locations(locations: pa.Array) -> FileFolders:
    """Where the files at these locations lie."""
    return FolderReader().read(locations)


def meet(written: str, real: str, other_written: str, other_real: str) -> bool:
    """Whether two folders are one, or one is inside the other, and the way to both is not the same."""
    if not path_forms.overlap(real, other_real):
        return False
    if path_forms.is_below(written, other_written):
        return real != other_real + written[len(other_written) :]
    if path_forms.is_below(other_written, written):
        return other_real != real + other_written[len(written) :]
    return True


def _plain_path(folder: str) -> str:
    return _SPELLINGS.split(folder)[1]


def _plain(folders: frozenset[str]) -> Iterator[Way]:
    return ((folder, folder) for folder in folders)
