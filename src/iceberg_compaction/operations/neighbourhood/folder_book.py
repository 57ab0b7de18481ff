"""What was seen of the tables of a catalog, kept in the cache on local disk between commands. Nothing depends on it but
how long a look takes. Neighbours go in and come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import xxhash

from iceberg_compaction.operations.neighbourhood.reached_folders import Reach

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iceberg_compaction.metadata.cache.arrow_cache import ArrowCache

_TEXTS, _NUMBERS = pa.list_(pa.string()), pa.list_(pa.uint64())
_SCHEMA = pa.schema(
    {
        "table": pa.string(),
        "uuid": pa.string(),
        "metadata_location": pa.string(),
        "location": pa.string(),
        "looked_ms": pa.int64(),
        "roots": _TEXTS,
        "used": _TEXTS,
        "reached": _TEXTS,
        "lists": _NUMBERS,
        "manifests": _NUMBERS,
    }
)
_PLAIN = ("table", "uuid", "metadata_location", "location", "looked_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A table of the catalog, and where its files may be."""

    table: str
    uuid: str
    metadata_location: str
    location: str
    looked_ms: int
    roots: tuple[str, ...]
    used: tuple[str, ...] = ()  # folders of metadata that it has, wherever its location was once
    reach: Reach  # everything that it refers to

    def is_at(self, metadata_location: str | None) -> bool:
        """Whether the table has not changed since."""
        return self.metadata_location == metadata_location


def load(cache: ArrowCache, catalog: str) -> dict[str, Neighbour]:
    """The tables of a catalog by name, as they were seen; `catalog`: its identity, without which nothing is kept."""
    table = cache.load(_name(catalog)) if catalog else None
    if table is None or table.schema != _SCHEMA:
        return {}
    return {row["table"]: _neighbour(row) for batch in table.to_batches(256) for row in _rows(batch)}


def store(cache: ArrowCache, catalog: str, neighbours: Iterable[Neighbour]) -> None:
    """Keep what was seen."""
    if catalog:
        cache.store(_name(catalog), pa.Table.from_pylist([_row(each) for each in neighbours], schema=_SCHEMA))


def _name(catalog: str) -> str:
    return f"neighbours-{xxhash.xxh3_128_hexdigest(catalog.encode())}"


def _rows(batch: pa.RecordBatch) -> Iterable[dict[str, Any]]:
    numbers = {name: batch.column(name) for name in ("lists", "manifests")}
    for index, row in enumerate(batch.drop_columns(list(numbers)).to_pylist()):
        yield row | {name: column[index].values.to_numpy() for name, column in numbers.items()}


def _row(neighbour: Neighbour) -> dict[str, Any]:
    reach = neighbour.reach
    return {
        **{name: getattr(neighbour, name) for name in (*_PLAIN, "roots", "used")},
        "reached": sorted(reach.folders),
        "lists": reach.lists,
        "manifests": reach.manifests,
    }


def _neighbour(row: dict[str, Any]) -> Neighbour:
    reach = Reach(
        folders=frozenset(row["reached"]),
        lists=np.asarray(row["lists"], np.uint64),
        manifests=np.asarray(row["manifests"], np.uint64),
    )
    return Neighbour(
        **{name: row[name] for name in _PLAIN}, roots=tuple(row["roots"]), used=tuple(row["used"]), reach=reach
    )
