"""Paths as sorted hashes: eight bytes for each, so that many millions fit. Equal paths have equal hashes; two that
share one by chance only make a file stay. Listed paths come in; which of them are known goes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from iceberg_compaction.formats import hash64
from iceberg_compaction.model import listing_task
from iceberg_compaction.storage.tree import path_forms

if TYPE_CHECKING:
    import pyarrow as pa

Bools = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathLookup:
    """How listed files stand to the known paths, row by row."""

    matches: Bools  # path, scheme and authority fit
    positions: Positions  # among the known hashes, of the files that are known
    sizes: npt.NDArray[np.int64]  # of known files, as the metadata says; 0: it does not
    plain: pa.Array  # the paths in their one form, without scheme and authority
    path_hashes: hash64.Hashes  # of these


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPaths:
    """Paths that a table refers to."""

    spellings: path_forms.Spellings
    whole: hash64.Hashes  # of prefix and path, sorted, each once
    sizes: npt.NDArray[np.int64]  # of the same, as the metadata says; 0: it does not

    def look_up(self, paths: pa.Array) -> PathLookup:
        """Whether these files are known."""
        path_hashes, whole, plain = hashes(self.spellings, paths)
        matches, at = _find(whole, self.whole)
        positions = at[matches]
        sizes = np.zeros(len(whole), dtype=np.int64)
        sizes[matches] = self.sizes[positions]
        return PathLookup(matches=matches, positions=positions, sizes=sizes, plain=plain, path_hashes=path_hashes)

    def to_value(self) -> listing_task.KnownHashes:
        """The same as it travels."""
        return listing_task.KnownHashes(
            whole=self.whole.astype("<u8").tobytes(),
            sizes=self.sizes.astype("<i8").tobytes(),
            schemes=dict(self.spellings.schemes),
            authorities=dict(self.spellings.authorities),
            default_scheme=self.spellings.default_scheme,
            default_authority=self.spellings.default_authority,
        )


def of_value(value: listing_task.KnownHashes) -> KnownPaths:
    """The paths of a value that has travelled."""
    return KnownPaths(
        spellings=path_forms.Spellings(
            schemes=value.schemes,
            authorities=value.authorities,
            default_scheme=value.default_scheme,
            default_authority=value.default_authority,
        ),
        whole=np.frombuffer(value.whole, "<u8"),
        sizes=np.frombuffer(value.sizes, "<i8"),
    )


def hashes(spellings: path_forms.Spellings, paths: pa.Array) -> tuple[hash64.Hashes, hash64.Hashes, pa.Array]:
    """The hashes of paths alone and with their prefixes, and the paths in their one form."""
    prefixes, plain = spellings.split_all(paths)
    return *combine(prefixes, plain), plain


def combine(prefixes: pa.DictionaryArray, paths: pa.Array) -> tuple[hash64.Hashes, hash64.Hashes]:
    """The hashes of paths, and those of prefixes and paths together."""
    plain = hash64.text_digests(paths)
    of_prefix = hash64.text_digests(prefixes.dictionary)
    whole = plain * _ODD
    whole ^= of_prefix[prefixes.indices.to_numpy(zero_copy_only=False)] if len(paths) else np.uint64(0)
    return plain, hash64.fin(whole)


def among(wanted: hash64.Hashes, ordered: hash64.Hashes) -> Bools:
    """Which hashes are among ordered ones."""
    return _find(wanted, ordered)[0]


def _find(wanted: hash64.Hashes, ordered: hash64.Hashes) -> tuple[Bools, Positions]:
    """Which hashes are among ordered ones, and where."""
    if not len(ordered):
        return np.zeros(len(wanted), dtype=np.bool_), np.zeros(len(wanted), dtype=np.int64)
    position = np.searchsorted(ordered, wanted)
    position[position == len(ordered)] = 0
    return ordered[position] == wanted, position
