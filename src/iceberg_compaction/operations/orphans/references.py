"""All paths that a table refers to, as sorted hashes, so that tables of many million files fit. A table comes in;
listed paths are looked up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.formats import hash64
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.metadata.reach import known_paths, linked_folders, outer_folders, reachable_files
from iceberg_compaction.metadata.reach.reachable_files import FileKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.formats.hash64 import Hashes
    from iceberg_compaction.metadata.reach.known_paths import Bools
    from iceberg_compaction.storage.tree.path_forms import Spellings

_CONTENT = pa.array([FileKind.DATA.value, FileKind.DELETES.value])


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How listed files stand to the references, row by row."""

    lookup: known_paths.PathLookup
    mismatched: Bools  # the path fits, but the scheme or authority does not

    @property
    def referenced(self) -> Bools:
        """Path, scheme and authority fit."""
        return self.lookup.matches


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """What a table refers to."""

    hashes: known_paths.KnownPaths
    paths: Hashes  # of paths alone, sorted, each once
    content: Hashes  # those of `hashes` that are data and delete files in the roots
    outside: Counter[str] = field(default_factory=Counter)  # data and delete files elsewhere, by outer folder
    # Of all files, as far as links matter.
    file_folders: linked_folders.FileFolders = field(default_factory=linked_folders.FileFolders)

    def look_up(self, paths: pa.Array) -> Judgement:
        """Whether the table refers to these files."""
        lookup = self.hashes.look_up(paths)
        mismatched = ~lookup.matches
        mismatched[mismatched] = known_paths.among(lookup.path_hashes[mismatched], self.paths)
        return Judgement(lookup=lookup, mismatched=mismatched)

    def needs(self, paths: Sequence[str]) -> Bools:
        """Whether the table refers to a file of the same path, with whatever scheme and authority."""
        plain, _, _ = known_paths.hashes(self.hashes.spellings, pa.array(paths, pa.string()))
        return known_paths.among(plain, self.paths)

    def count_content(self, listed: Bools) -> int:
        """How many different data and delete files are among those of `hashes` that were listed."""
        return int(listed[np.searchsorted(self.hashes.whole, self.content)].sum())


def read(table: Table, spellings: Spellings, roots: Sequence[str] = ()) -> References:
    """Reads all metadata of the table. `roots`: the folders that are listed, without which all files are outside."""
    whole, plain, content, sizes = [], [], [], []
    outside: Counter[str] = Counter()
    file_folders, reader = linked_folders.FileFolders(), linked_folders.FolderReader()
    behind_links = any(spellings.split(root) != spellings.real(root) for root in roots)
    inside = [spellings.split(root) for root in roots]
    _, metadata_folder = table_folders.folders(table)
    for batch in reachable_files.all_files(table, metadata_folder):
        prefixes, paths = spellings.split_all(batch.column("path"))
        path_hashes, whole_hashes = known_paths.combine(prefixes, paths)
        plain.append(path_hashes)
        whole.append(whole_hashes)
        sizes.append(pc.fill_null(batch.column("bytes"), 0).to_numpy())
        if roots:
            locations = batch.column("path")
            links = linked_folders.FileFolders(links=reader.links(locations))
            file_folders |= reader.read(locations) if behind_links else links
        is_content = pc.is_in(batch.column("kind"), _CONTENT)
        if roots and pc.any(is_content).as_py():
            is_inside = _is_inside(prefixes, paths, inside)
            content.append(whole_hashes[_numpy(pc.and_(is_content, is_inside))])
            elsewhere = pc.and_not(is_content, is_inside)
            if pc.any(elsewhere).as_py():
                outside.update(_outer_folders(prefixes.filter(elsewhere), paths.filter(elsewhere)))
    every, first = np.unique(np.concatenate(whole), return_index=True)
    return References(
        hashes=known_paths.KnownPaths(spellings=spellings, whole=every, sizes=np.concatenate(sizes)[first]),
        paths=_unique(plain),
        content=_unique(content),
        outside=outside,
        file_folders=file_folders,
    )


def _is_inside(prefixes: pa.DictionaryArray, paths: pa.Array, roots: Sequence[tuple[str, str]]) -> pa.Array:
    result = pa.array(np.zeros(len(paths), dtype=np.bool_))
    names = prefixes.dictionary.to_pylist()
    for prefix, root in roots:
        fits = pa.array([name == prefix for name in names], pa.bool_())
        is_prefix = pc.take(fits, prefixes.indices)
        result = pc.or_(result, pc.and_(is_prefix, pc.starts_with(paths, f"{root}/")))
    return result


def _outer_folders(prefixes: pa.DictionaryArray, paths: pa.Array) -> Counter[str]:
    texts = pc.binary_join_element_wise(prefixes.cast(pa.string()), outer_folders.of_paths(paths), "")
    return Counter({each["values"]: each["counts"] for each in pc.value_counts(texts).to_pylist()})


def _unique(parts: list[Hashes]) -> Hashes:
    return hash64.ordered(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.uint64)


def _numpy(values: pa.Array) -> Bools:
    result: Bools = values.to_numpy(zero_copy_only=False)
    return result
