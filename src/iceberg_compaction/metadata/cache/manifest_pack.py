"""The parsed manifests of one branch of a table, kept in the cache. Most are in one entry, the pack: the rows of all
manifests that the branch once had, in the order of its manifest list, so that they can be used as they lie. Manifests
that came later have entries of their own, until there is enough of them to pack anew."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from iceberg_compaction.metadata.cache.arrow_cache import Cache

    Span: TypeAlias = tuple[int, int]  # first row and number of rows
    Place: TypeAlias = Span | pa.Table  # in the pack, or rows of its own

FORMAT = 6  # of what is kept; a new one never meets entries of an old one
LOOSE = 16  # entries beside the pack
STALE = 4  # one row of so many may be outside the pack, or in it for nothing

_SPANS = b"manifests"


def key(*facts: str) -> str:
    """The name under which something with these facts is kept."""
    return hashlib.blake2b(json.dumps([FORMAT, *facts]).encode(), digest_size=20).hexdigest()


def size(place: Place) -> int:
    """The number of rows at a place."""
    return place[1] if isinstance(place, tuple) else int(place.num_rows)


def _described(schema: pa.Schema) -> list[tuple[str, int]]:
    """Manifests and the number of their rows, in order; none: an entry of somebody else."""
    try:
        found = [(str(wanted), int(count)) for wanted, count in json.loads((schema.metadata or {}).get(_SPANS, b"[]"))]
    except (ValueError, TypeError):
        return []
    return found if all(count >= 0 for _, count in found) else []


class ManifestPack:
    """What is kept of one branch. `name` is its own, `schema` that of all rows."""

    def __init__(self, cache: Cache, name: str, schema: pa.Schema) -> None:
        self._cache, self._name, self._schema = cache, name, schema
        self._rows, self._spans = self._load(name)

    def find(self, keys: Sequence[str]) -> dict[str, Place]:
        """Of the manifests with these keys, those that are kept: a span of the pack, or rows of their own."""
        found: dict[str, Place] = {}
        for wanted in keys:
            if wanted in self._spans:
                found[wanted] = self._spans[wanted]
            else:
                rows, spans = self._load(wanted)
                if wanted in spans:
                    found[wanted] = rows
        return found

    def has_all(self, places: Mapping[str, Place]) -> bool:
        """Whether all of these lie in the pack."""
        return all(isinstance(place, tuple) for place in places.values())

    def is_worn(self, places: Mapping[str, Place]) -> bool:
        """Whether so much of the branch, whose manifests these are, lies outside the pack that it is better made anew;
        or so much lies in the pack for nothing."""
        loose = [place.num_rows for place in places.values() if not isinstance(place, tuple)]
        used = sum(place[1] for place in places.values() if isinstance(place, tuple))
        wasted = sum(loose) + self._rows.num_rows - used
        return len(loose) > LOOSE or wasted * STALE > used

    def pieces(self, places: Sequence[Place]) -> list[pa.Table]:
        """The rows of all places, in order; neighbours in the pack stay in one piece."""
        pieces: list[pa.Table] = []
        open_span: Span | None = None
        for place in places:
            if not isinstance(place, tuple):
                open_span = None
                pieces.append(place)
            elif open_span and sum(open_span) == place[0]:
                open_span = (open_span[0], open_span[1] + place[1])
                pieces[-1] = self._rows.slice(*open_span)
            else:
                open_span = place
                pieces.append(self._rows.slice(*place))
        return pieces

    def add(self, places: Mapping[str, Place]) -> None:
        """Keep manifests beside the pack."""
        for wanted, rows in places.items():
            if not isinstance(rows, tuple):
                self._store(wanted, rows, {wanted: rows.num_rows})

    def pack(self, rows: pa.Table, sizes: Mapping[str, int]) -> None:
        """Keep all manifests of the branch, given by the number of their rows, in a pack, and none beside it."""
        self._store(self._name, rows, sizes, instead_of=[wanted for wanted in sizes if wanted not in self._spans])

    def _store(self, name: str, rows: pa.Table, sizes: Mapping[str, int], *, instead_of: Sequence[str] = ()) -> None:
        described = {_SPANS: json.dumps(list(sizes.items())).encode()}
        self._cache.store(name, rows.replace_schema_metadata(described), instead_of=instead_of)

    def _load(self, name: str) -> tuple[pa.Table, dict[str, Span]]:
        rows = self._cache.load(name)
        if rows is None:
            return self._schema.empty_table(), {}
        spans, start = {}, 0
        for wanted, size in _described(rows.schema):
            spans[wanted], start = (start, size), start + size
        rows = rows.replace_schema_metadata(None)
        if start != rows.num_rows or rows.schema != self._schema:
            self._cache.remove([name])
            return self._schema.empty_table(), {}
        return rows, spans
