"""Figures of every partition. A census comes in; out go arrays with one row for each partition, made in one pass over
the files, and the worst partitions as values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.model.table_health import PartitionHealth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.inspect.file_census import Census, Columns
    from iceberg_compaction.inspect.histogram import Edges

    Ints = NDArray[np.int64]

_BLOCK = 1 << 17  # files


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """By place and bar of the histogram, and by place."""

    files_by_size: Ints  # two dimensions: place, bar
    bytes_by_size: Ints
    files: Ints
    bytes: Ints
    small: Ints
    large: Ints
    delete_files: Ints
    deleted_rows: Ints  # by position deletes and deletion vectors

    @property
    def with_data(self) -> int:
        """Partitions that hold a data file."""
        return int(np.count_nonzero(self.files))

    @property
    def with_small(self) -> int:
        """Partitions that hold a small file."""
        return int(np.count_nonzero(self.small))


def measure(census: Census, edges: Edges) -> Partitions:
    """Count and add up, partition by partition and bar by bar."""
    places = len(census.places)
    files, size = _by_size(census, edges)

    def count(deletes: Columns) -> Ints:
        return np.bincount(deletes.places, minlength=places)

    def rows(deletes: Columns) -> Ints:
        return np.bincount(deletes.places, weights=deletes.records, minlength=places).astype(np.int64)

    return Partitions(
        files_by_size=files,
        bytes_by_size=size,
        files=files.sum(axis=1),
        bytes=size.sum(axis=1),
        small=files[:, : edges.near].sum(axis=1),
        large=files[:, -1],
        delete_files=count(census.position) + count(census.equality) + count(census.vectors),
        deleted_rows=rows(census.position) + rows(census.vectors),
    )


def _by_size(census: Census, edges: Edges) -> tuple[Ints, Ints]:
    """Files and bytes by place and bar. Block by block, as what fits into the processor's cache takes half the time."""
    places, bars = len(census.places), len(edges.lows)
    cells = places * bars
    files, size = np.zeros(cells, np.int64), np.zeros(cells)
    block = max(_BLOCK, cells)
    for first in range(0, len(census.sizes), block):
        some = census.sizes[first : first + block]
        cell = np.multiply(census.of_place[first : first + block], bars, dtype=np.int64)
        cell += edges.bar_of(some)
        files += np.bincount(cell, minlength=cells)
        # Sums are made of doubles, so they are exact up to 2^53: 9 PB in one partition.
        size += np.bincount(cell, weights=some, minlength=cells)
    return files.reshape(places, bars), size.astype(np.int64).reshape(places, bars)


def worst(found: Partitions, census: Census, most: int, depths: NDArray[np.float64]) -> tuple[PartitionHealth, ...]:
    """The partitions with the most needless files: small ones beside another, and deletes. Equal ones in a fixed order,
    so that reports can be compared. `depths`: the clustering depth of each place, NaN where it is not known."""
    needless = np.where(found.small > 1, found.small, 0) + found.delete_files
    places = np.flatnonzero(needless)
    columns = {
        "needless": needless[places],
        "spec": census.places.specs()[places],
        "text": census.places.texts_of(places),
    }
    keys = [("needless", "descending"), ("spec", "ascending"), ("text", "ascending")]
    most = min(most, len(places))  # whoever wants all may write any number
    first = pc.select_k_unstable(pa.table(columns), most, sort_keys=keys).to_numpy() if most else places[:0]
    ordered = places[first].tolist()
    records = _records(census, ordered)
    return tuple(_health(found, census, place, records[place], float(depths[place])) for place in ordered)


def _records(census: Census, places: list[int]) -> NDArray[Any]:
    """The rows of some places; adding up all of them would take longer than all the rest."""
    if not places:
        return np.zeros(0)
    wanted = np.zeros(len(census.places), np.bool_)
    wanted[places] = True
    chosen = np.flatnonzero(wanted[census.of_place])
    return np.bincount(
        census.of_place[chosen], weights=census.data("record_count")[chosen], minlength=len(census.places)
    )


def _health(found: Partitions, census: Census, place: int, records: float, depth: float) -> PartitionHealth:
    spec_id, text = census.places.name(place)
    return PartitionHealth(
        spec_id=spec_id,
        partition=text,
        files=int(found.files[place]),
        bytes=int(found.bytes[place]),
        records=int(records),
        small_files=int(found.small[place]),
        large_files=int(found.large[place]),
        delete_files=int(found.delete_files[place]),
        deleted_row_ratio=round(min(1.0, int(found.deleted_rows[place]) / max(1.0, records)), 4),
        clustering_depth=None if math.isnan(depth) else round(depth, 2),
    )
