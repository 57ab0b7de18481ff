"""The parsed manifests of one branch of a table, kept in the cache. Most are in one entry, the pack: the rows of all
manifests that the branch once had, in the order of its manifest list, so that they are used without a copy. Manifests
that came later have entries of their own, until there are enough of them to pack anew."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from iceberg_compaction.metadata.cache.arrow_cache import ArrowCache

    Span: TypeAlias = tuple[int, int]  # first row and number of rows
    Rows: TypeAlias = Span | pa.Table  # of one manifest: in the pack, or in an entry of its own

FORMAT = 6  # of the entries; a version that changes them never reads those of an older one
LOOSE = 16  # entries beside the pack
STALE = 4  # one row of so many may be outside the pack, or in the pack and unused

_SPANS = b"manifests"


def key(*facts: str) -> str:
    """The name of the entry for these facts."""
    return hashlib.blake2b(json.dumps([FORMAT, *facts]).encode(), digest_size=20).hexdigest()


def size(rows: Rows) -> int:
    """The number of rows of a manifest."""
    return rows[1] if isinstance(rows, tuple) else int(rows.num_rows)


def _described(schema: pa.Schema) -> list[tuple[str, int]]:
    """The keys of an entry's manifests and the number of their rows, in order; none: the entry is not one of ours."""
    try:
        sizes = [(str(name), int(count)) for name, count in json.loads((schema.metadata or {}).get(_SPANS, b"[]"))]
    except (ValueError, TypeError):
        return []
    return sizes if all(count >= 0 for _, count in sizes) else []


def _with_sizes(rows: pa.Table, sizes: Mapping[str, int]) -> pa.Table:
    """The rows with the number of those of each manifest."""
    return rows.replace_schema_metadata({_SPANS: json.dumps(list(sizes.items())).encode()})


class ManifestPack:
    """The cached manifests of one branch. `name` is that of the pack's entry, `schema` that of all rows."""

    def __init__(self, cache: ArrowCache, name: str, schema: pa.Schema) -> None:
        self._cache, self._name, self._schema = cache, name, schema
        self._rows, self._spans = self._parsed(name, cache.load_pack(name))

    def find(self, keys: Sequence[str]) -> dict[str, Rows]:
        """The rows of those manifests that are cached: a span of the pack, or a table of their own."""
        cached: dict[str, Rows] = {}
        for manifest_key in keys:
            if manifest_key in self._spans:
                cached[manifest_key] = self._spans[manifest_key]
            else:
                rows, spans = self._parsed(manifest_key, self._cache.load(manifest_key))
                if manifest_key in spans:
                    cached[manifest_key] = rows
        return cached

    def has_all(self, manifests: Mapping[str, Rows]) -> bool:
        """Whether all of these lie in the pack."""
        return all(isinstance(rows, tuple) for rows in manifests.values())

    def is_outdated(self, manifests: Mapping[str, Rows]) -> bool:
        """Whether a new pack pays: too many rows of the branch, whose manifests these are, lie outside the pack, or too
        many rows of the pack are unused."""
        loose = [rows.num_rows for rows in manifests.values() if not isinstance(rows, tuple)]
        used = sum(rows[1] for rows in manifests.values() if isinstance(rows, tuple))
        wasted = sum(loose) + self._rows.num_rows - used
        return len(loose) > LOOSE or wasted * STALE > used

    def pieces(self, manifests: Sequence[Rows]) -> list[pa.Table]:
        """The rows of all manifests, in order; neighbours in the pack stay in one piece."""
        pieces: list[pa.Table] = []
        open_span: Span | None = None
        for rows in manifests:
            if not isinstance(rows, tuple):
                open_span = None
                pieces.append(rows)
            elif open_span and sum(open_span) == rows[0]:
                open_span = (open_span[0], open_span[1] + rows[1])
                pieces[-1] = self._rows.slice(*open_span)
            else:
                open_span = rows
                pieces.append(self._rows.slice(*rows))
        return pieces

    def add(self, manifests: Mapping[str, Rows]) -> None:
        """Keeps manifests beside the pack."""
        for manifest_key, rows in manifests.items():
            if not isinstance(rows, tuple):
                self._cache.store(manifest_key, _with_sizes(rows, {manifest_key: rows.num_rows}))

    def pack(self, rows: pa.Table, sizes: Mapping[str, int]) -> None:
        """Keeps all manifests of the branch, given by the number of their rows, in a pack, and none beside it."""
        loose = [each for each in sizes if each not in self._spans]
        self._cache.store_pack(self._name, _with_sizes(rows, sizes), instead_of=loose)

    def _parsed(self, name: str, rows: pa.Table | None) -> tuple[pa.Table, dict[str, Span]]:
        if rows is None:
            return self._schema.empty_table(), {}
        spans, start = {}, 0
        for manifest_key, count in _described(rows.schema):
            spans[manifest_key], start = (start, count), start + count
        rows = rows.replace_schema_metadata(None)
        if start != rows.num_rows or rows.schema != self._schema:
            self._cache.remove([name])
            return self._schema.empty_table(), {}
        return rows, spans
