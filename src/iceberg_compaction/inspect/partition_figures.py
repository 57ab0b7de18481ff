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

    from iceberg_compaction.inspect.file_census import Census, DeleteColumns
    from iceberg_compaction.inspect.histogram import Edges

    Ints = NDArray[np.int64]

_BLOCK = 1 << 17  # files


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFigures:
    """Counts and sums by partition number, and by partition number and bar of the histogram."""

    files_by_size: Ints  # two dimensions: partition, bar
    bytes_by_size: Ints
    files: Ints
    bytes: Ints
    small: Ints
    large: Ints
    delete_files: Ints
    deleted_rows: Ints  # by position deletes and deletion vectors

    @property
    def with_data(self) -> int:
        """The number of partitions that hold a data file."""
        return int(np.count_nonzero(self.files))

    @property
    def with_small(self) -> int:
        """The number of partitions that hold a small file."""
        return int(np.count_nonzero(self.small))


def measure(census: Census, edges: Edges) -> PartitionFigures:
    """The figures by partition and bar."""
    partitions = len(census.partition_keys)
    files, size = _by_size(census, edges)

    def count(deletes: DeleteColumns) -> Ints:
        return np.bincount(deletes.partition, minlength=partitions)

    def rows(deletes: DeleteColumns) -> Ints:
        return np.bincount(deletes.partition, weights=deletes.records, minlength=partitions).astype(np.int64)

    return PartitionFigures(
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
    """Files and bytes by partition and bar. A block that fits into the processor's cache takes half the time."""
    partitions, bars = len(census.partition_keys), len(edges.lows)
    cells = partitions * bars
    files, size = np.zeros(cells, np.int64), np.zeros(cells)
    block = max(_BLOCK, cells)
    for first in range(0, len(census.sizes), block):
        block_sizes = census.sizes[first : first + block]
        cell = np.multiply(census.partition[first : first + block], bars, dtype=np.int64)
        cell += edges.bar_of(block_sizes)
        files += np.bincount(cell, minlength=cells)
        # Sums are made of doubles, so they are exact up to 2^53: 9 PB in one partition.
        size += np.bincount(cell, weights=block_sizes, minlength=cells)
    return files.reshape(partitions, bars), size.astype(np.int64).reshape(partitions, bars)


def worst(
    figures: PartitionFigures, census: Census, most: int, depths: NDArray[np.float64]
) -> tuple[PartitionHealth, ...]:
    """The partitions with the most needless files: small ones beside another, and deletes. Equal ones in a fixed order,
    so that reports can be compared. `depths`: the clustering depth of each partition, NaN where it is unknown."""
    needless = np.where(figures.small > 1, figures.small, 0) + figures.delete_files
    partitions = np.flatnonzero(needless)
    columns = {
        "needless": needless[partitions],
        "spec": census.partition_keys.specs()[partitions],
        "text": census.partition_keys.texts_of(partitions),
    }
    keys = [("needless", "descending"), ("spec", "ascending"), ("text", "ascending")]
    most = min(most, len(partitions))  # a caller who wants all may pass any number
    first = pc.select_k_unstable(pa.table(columns), most, sort_keys=keys).to_numpy() if most else partitions[:0]
    ordered = partitions[first].tolist()
    records = _records(census, ordered)
    return tuple(
        _health(figures, census, partition, records[partition], float(depths[partition])) for partition in ordered
    )


def _records(census: Census, partitions: list[int]) -> NDArray[Any]:
    """The rows of these partitions; a sum over all partitions would take longer than all the rest."""
    if not partitions:
        return np.zeros(0)
    wanted = np.zeros(len(census.partition_keys), np.bool_)
    wanted[partitions] = True
    rows = np.flatnonzero(wanted[census.partition])
    return np.bincount(
        census.partition[rows], weights=census.data("record_count")[rows], minlength=len(census.partition_keys)
    )


def _health(figures: PartitionFigures, census: Census, partition: int, records: float, depth: float) -> PartitionHealth:
    spec_id, text = census.partition_keys.key(partition)
    return PartitionHealth(
        spec_id=spec_id,
        partition=text,
        files=int(figures.files[partition]),
        bytes=int(figures.bytes[partition]),
        records=int(records),
        small_files=int(figures.small[partition]),
        large_files=int(figures.large[partition]),
        delete_files=int(figures.delete_files[partition]),
        deleted_row_ratio=round(min(1.0, int(figures.deleted_rows[partition]) / max(1.0, records)), 4),
        clustering_depth=None if math.isnan(depth) else round(depth, 2),
    )
