"""All paths that a table refers to, as sorted hashes: eight bytes for each, so that tables of many million files fit.
Equal paths have equal hashes; two paths that share one by chance only make a file stay. A table comes in; listed paths
are looked up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.formats import hash64
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.metadata.reach import reachable_files
from iceberg_compaction.metadata.reach.reachable_files import FileKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.storage.tree.path_forms import Spellings

Bools = npt.NDArray[np.bool_]
_CONTENT = pa.array([FileKind.DATA.value, FileKind.DELETES.value])
_HASHED = r"/[01]{4}/[01]{4}/[01]{4}/[01]{8}/.*$"  # the folders of Iceberg's layout for object stores
_OUTER = r"^(?P<outer>(?:/[^/=]+)*)/"  # without those of partitions
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How listed files stand to the references, row by row."""

    referenced: Bools  # path, scheme and authority fit
    mismatched: Bools  # the path fits, but the scheme or authority does not
    content: npt.NDArray[np.int64]  # the positions in References.content of those that are there
    plain: pa.Array  # the paths in their one form, without scheme and authority
    sizes: npt.NDArray[np.int64]  # of referenced files, as the metadata says; 0: it does not


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """What a table refers to."""

    spellings: Spellings
    whole: hash64.Hashes  # of prefix and path, sorted, each once
    sizes: npt.NDArray[np.int64]  # of the same, as the metadata says; 0: it does not
    paths: hash64.Hashes  # of paths alone, sorted, each once
    content: hash64.Hashes  # the same as `whole` of data and delete files in the roots
    outside: Counter[str] = field(default_factory=Counter)  # data and delete files elsewhere, by outer folder

    def look_up(self, paths: pa.Array) -> Judgement:
        """Whether the table refers to these files."""
        prefixes, plain = self.spellings.split_all(paths)
        path_hashes, whole = _combine(prefixes, plain)
        referenced = _among(whole, self.whole)
        content = np.searchsorted(self.content, whole[_among(whole, self.content)]).astype(np.int64)
        mismatched = _among(path_hashes, self.paths) & ~referenced
        sizes = np.zeros(len(whole), dtype=np.int64)
        sizes[referenced] = self.sizes[np.searchsorted(self.whole, whole[referenced])]
        return Judgement(referenced=referenced, mismatched=mismatched, content=content, plain=plain, sizes=sizes)

    def needs(self, paths: Sequence[str]) -> Bools:
        """Whether the table refers to a file of the same path, with whatever scheme and authority."""
        plain, _ = _hashes(self.spellings, pa.array(paths, pa.string()))
        return _among(plain, self.paths)


def read(table: Table, spellings: Spellings, roots: Sequence[str] = ()) -> References:
    """Reads all metadata of the table. `roots`: the folders that are listed, without which all files are outside."""
    whole, plain, content, sizes = [], [], [], []
    outside: Counter[str] = Counter()
    inside = [spellings.split(root) for root in roots]
    _, metadata_folder = table_folders.folders(table)
    for batch in reachable_files.all_files(table, metadata_folder):
        prefixes, paths = spellings.split_all(batch.column("path"))
        path_hashes, whole_hashes = _combine(prefixes, paths)
        plain.append(path_hashes)
        whole.append(whole_hashes)
        sizes.append(pc.fill_null(batch.column("bytes"), 0).to_numpy())
        is_content = pc.is_in(batch.column("kind"), _CONTENT)
        if roots and pc.any(is_content).as_py():
            is_inside = _is_inside(prefixes, paths, inside)
            content.append(whole_hashes[_numpy(pc.and_(is_content, is_inside))])
            elsewhere = pc.and_not(is_content, is_inside)
            if pc.any(elsewhere).as_py():
                outside.update(_outer_folders(prefixes.filter(elsewhere), paths.filter(elsewhere)))
    every, first = np.unique(np.concatenate(whole), return_index=True)
    return References(
        spellings=spellings,
        whole=every,
        sizes=np.concatenate(sizes)[first],
        paths=_unique(plain),
        content=_unique(content),
        outside=outside,
    )


def _hashes(spellings: Spellings, paths: pa.Array) -> tuple[hash64.Hashes, hash64.Hashes]:
    return _combine(*spellings.split_all(paths))


def _combine(prefixes: pa.DictionaryArray, paths: pa.Array) -> tuple[hash64.Hashes, hash64.Hashes]:
    """The hashes of paths, and those of prefixes and paths together."""
    plain = hash64.text_digests(paths)
    of_prefix = hash64.text_digests(prefixes.dictionary)
    whole = plain * _ODD
    whole ^= of_prefix[prefixes.indices.to_numpy(zero_copy_only=False)] if len(paths) else np.uint64(0)
    return plain, hash64.fin(whole)


def _is_inside(prefixes: pa.DictionaryArray, paths: pa.Array, roots: Sequence[tuple[str, str]]) -> pa.Array:
    result = pa.array(np.zeros(len(paths), dtype=np.bool_))
    names = prefixes.dictionary.to_pylist()
    for prefix, root in roots:
        fits = pa.array([name == prefix for name in names], pa.bool_())
        is_prefix = pc.take(fits, prefixes.indices)
        result = pc.or_(result, pc.and_(is_prefix, pc.starts_with(paths, f"{root}/")))
    return result


def _outer_folders(prefixes: pa.DictionaryArray, paths: pa.Array) -> Counter[str]:
    plain = pc.replace_substring_regex(paths, _HASHED, "/")
    outer = pc.struct_field(pc.extract_regex(plain, _OUTER), "outer")
    texts = pc.binary_join_element_wise(prefixes.cast(pa.string()), pc.fill_null(outer, ""), "")
    return Counter({each["values"]: each["counts"] for each in pc.value_counts(texts).to_pylist()})


def _unique(parts: list[hash64.Hashes]) -> hash64.Hashes:
    return np.unique(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.uint64)


def _among(hashes: hash64.Hashes, ordered: hash64.Hashes) -> Bools:
    if not len(ordered):
        return np.zeros(len(hashes), dtype=np.bool_)
    position = np.searchsorted(ordered, hashes)
    position[position == len(ordered)] = 0
    result: Bools = ordered[position] == hashes
    return result


def _numpy(values: pa.Array) -> Bools:
    result: Bools = values.to_numpy(zero_copy_only=False)
    return result
