"""The folders that files lie in, without those of partitions and of hashed layouts, so that a table of many files has
few of them. Paths come in, folders go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.storage.tree import path_forms

if TYPE_CHECKING:
    from collections.abc import Iterable

_HASHED = r"/[01]{4}/[01]{4}/[01]{4}/[01]{8}/.*$"  # the folders of Iceberg's layout for object stores
_OUTER = r"^(?P<outer>(?:/[^/=]+)*)/"  # without those of partitions
_SPELLINGS = path_forms.Spellings()
_MOST = 64  # folders that are told apart


def of_paths(paths: pa.Array) -> pa.Array:
    """The outer folder of each plain path."""
    plain = pc.replace_substring_regex(paths, _HASHED, "/")
    return pc.fill_null(pc.struct_field(pc.extract_regex(plain, _OUTER), "outer"), "")


def of_locations(locations: pa.Array) -> frozenset[str]:
    """The different outer folders of locations, without scheme and authority."""
    _, plain = _SPELLINGS.split_all(locations)
    return few(of_paths(plain).unique().to_pylist())


def few(folders: Iterable[str]) -> frozenset[str]:
    """Folders in which all of these lie, or which they are; where they are many, folders around them."""
    kept = set(folders)
    while len(kept) > _MOST:
        deepest = max(folder.count("/") for folder in kept)
        kept = {folder.rpartition("/")[0] if folder.count("/") == deepest else folder for folder in kept}
    return frozenset(kept)
