"""One form for all spellings of a path, so that a listed file is recognised by whatever spelling the table's metadata
has for it. Two paths of one form may still be two files; then one of them is taken for the other and stays, which is
the harmless mistake. Paths come in, prefixes (scheme and authority) and plain paths go out."""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.storage import exact_paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Schemes that are ways to one store. Others must be named by whoever knows that they are.
EQUAL_SCHEMES = MappingProxyType({"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasbs": "wasb"})
_PARTS = r"(?s)^(?P<prefix>[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)?(?P<path>.*)$"
_SLASHES = re.compile(r"/{2,}")
_ODD = r"//|/$|%|/\.{1,2}(/|$)"  # slashes too many, characters that are written as numbers, names of other folders
_MOST_DECODINGS = 5  # a path may have been encoded more than once


@dataclass(frozen=True, slots=True, kw_only=True)
class Spellings:
    """Which schemes and authorities mean the same, and what a path without any means."""

    schemes: Mapping[str, str] = field(default_factory=lambda: EQUAL_SCHEMES)
    authorities: Mapping[str, str] = field(default_factory=dict)
    default_scheme: str = "file"
    default_authority: str = ""

    def prefix(self, text: str) -> str:
        """The one form of a scheme and authority, such as `s3://bucket`."""
        scheme, authority, _ = exact_paths.split(text)
        if not scheme:
            scheme, authority = self.default_scheme, self.default_authority
        if scheme == "file":
            authority = ""
        scheme = self.schemes.get(scheme, scheme)
        return f"{scheme}://{self.authorities.get(authority, authority)}"

    def split(self, location: str) -> tuple[str, str]:
        """The prefix and the plain path of one location, in their one form."""
        return self.prefix(location), _plain(exact_paths.split(location)[2])

    def real(self, location: str) -> tuple[str, str]:
        """The same as `split`, with the links of a local path resolved."""
        prefix, path = self.split(location)
        if prefix != "file://":
            return prefix, path
        return prefix, _plain(os.path.realpath(exact_paths.split(location)[2]))

    def split_all(self, locations: pa.Array) -> tuple[pa.DictionaryArray, pa.Array]:
        """The same for many: prefixes as a dictionary with few values, and plain paths."""
        common = _common_prefix(locations)
        if common is not None:
            prefixes = pa.DictionaryArray.from_arrays(
                pa.array(np.zeros(len(locations), dtype=np.int32)), pa.array([self.prefix(common)], pa.string())
            )
            return prefixes, _plain_all(pc.utf8_slice_codeunits(locations, len(common)))
        parts = pc.extract_regex(locations, _PARTS)
        raw = pc.fill_null(pc.struct_field(parts, "prefix"), "").dictionary_encode()
        prefixes = pa.DictionaryArray.from_arrays(
            raw.indices, pa.array(map(self.prefix, raw.dictionary.to_pylist()), pa.string())
        )
        return prefixes, _plain_all(pc.struct_field(parts, "path"))


def _common_prefix(locations: pa.Array) -> str | None:
    """What stands before the path in all locations, as it nearly always does: a regular expression for each takes ten
    times as long. None: they differ."""
    if not len(locations) or locations.null_count:
        return None
    parts = re.match(_PARTS, locations[0].as_py())
    prefix = (parts and parts["prefix"]) or ""
    if not pc.all(pc.starts_with(locations, f"{prefix}/")).as_py():
        return None
    has_authority = "//" in prefix or not prefix
    return prefix if has_authority or not pc.any(pc.starts_with(locations, f"{prefix}//")).as_py() else None


def parse_equal(pairs: Iterable[str], *, option: str) -> dict[str, str]:
    """`a,b=c` as Iceberg writes it: a and b count as c. ConfigError: it is none."""
    equal: dict[str, str] = {}
    for text in pairs:
        names, mark, target = text.partition("=")
        aliases = [name.strip() for name in names.split(",")]
        if not mark or not target.strip() or not all(aliases):
            raise errors.ConfigError(f"{option} {text} is not of the form a,b=c, which says that a and b mean c.")
        equal.update(dict.fromkeys(aliases, target.strip()))
    return equal


def is_below(path: str, root: str) -> bool:
    """Whether a plain path is a root or lies below it."""
    return path == root or path.startswith(f"{root}/")


def overlap(one: str, other: str) -> bool:
    """Whether a plain path is the other one, or lies below or around it."""
    return is_below(one, other) or is_below(other, one)


def _plain_all(paths: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(paths, _ODD)).as_py():
        return paths
    paths = pc.utf8_rtrim(pc.replace_substring_regex(paths, "/{2,}", "/"), "/")
    odd = pc.match_substring_regex(paths, _ODD)
    return pc.replace_with_mask(paths, odd, pa.array(map(_plain, paths.filter(odd).to_pylist()), paths.type))


def _plain(path: str) -> str:
    for _ in range(_MOST_DECODINGS):
        decoded = unquote(path, errors="replace")
        if decoded == path:
            break
        path = decoded
    path = _SLASHES.sub("/", path)
    if re.search(r"/\.{1,2}(/|$)", path):
        path = posixpath.normpath(path)
    return path.rstrip("/")
