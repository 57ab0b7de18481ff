"""Clustering by the sort or time column: the number of files of a partition whose range covers a value. Bounds come in
as whole columns; the mean depth goes out, for the table and for each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction.model.table_health import ClusteringHealth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.inspect.file_census import Census
    from iceberg_compaction.model.table_view import TableView

    Ints = NDArray[np.int64]

MOST_FILES = 50_000  # size of the sample of a larger table, so that a million files take milliseconds


def clustering(
    view: TableView, census: Census, most_files: int = MOST_FILES
) -> tuple[ClusteringHealth | None, NDArray[np.float64]]:
    """The table's clustering, None without any bounds; and the depth of each partition, NaN if it has none."""
    lower, upper, partition, share = _bounds(census, most_files)
    if not len(lower):
        return None, np.full(len(census.partition_keys), np.nan)
    partition, depths = _depths(lower, upper, partition)
    # Every file covers its own lower bound; of the others, a sample shows its share.
    depths = 1 + (depths - 1) / share
    files = np.bincount(partition, minlength=len(census.partition_keys))
    sums = np.bincount(partition, weights=depths, minlength=len(census.partition_keys))
    by_partition = np.where(files > 0, sums / np.maximum(files, 1), np.nan)
    of_table = ClusteringHealth(
        column=view.clustering_column,
        depth=round(float(depths.mean()), 2),
        files=round(len(lower) / share),
        sampled_files=len(lower),
    )
    return of_table, by_partition


def _bounds(census: Census, most_files: int) -> tuple[Ints, Ints, Ints, float]:
    """Lower bounds, upper bounds and partitions of sampled data files that have both, and the sample's share of all."""
    sample, share = _sample(len(census.sizes), most_files)
    rows = sample if census.is_data is None else np.flatnonzero(census.is_data)[sample]
    low, high = (census.files[name].take(pa.array(rows)) for name in ("cluster_lower", "cluster_upper"))
    bounded = low.is_valid().to_numpy() & high.is_valid().to_numpy()
    lower, upper = (column.fill_null(0).to_numpy()[bounded] for column in (low, high))
    return lower, upper, census.partition[sample][bounded].astype(np.int64), share


def _sample(count: int, most: int) -> tuple[Ints, float]:
    """Row numbers of the sample and its share: all files, or about `most` at random, the same ones on every run.
    Each file is drawn independently: every n-th file would miss overlaps of neighbours and writers that take turns."""
    if count <= most:
        return np.arange(count), 1.0
    dice = np.frombuffer(np.random.default_rng(0).bytes(count), np.uint8)
    sample = np.flatnonzero(dice < max(1, 256 * most // count))
    return sample, max(1, len(sample)) / count


def _depths(lower: Ints, upper: Ints, partition: Ints) -> tuple[Ints, NDArray[np.float64]]:
    """For each file, in order of partition and lower bound: its partition, and the number of files of the partition
    that cover its lower bound, itself included."""
    starts, ends, bits = _packed(lower, upper, partition)
    starts.sort()
    ends.sort()
    # Files of other partitions are either on both sides of a value or on neither, so they cancel out.
    begun = np.searchsorted(starts, starts, side="right")
    ended = np.searchsorted(ends, starts, side="left")
    return (starts >> np.uint64(bits)).astype(np.int64), (begun - ended).astype(np.float64)


def _packed(lower: Ints, upper: Ints, partition: Ints) -> tuple[NDArray[np.uint64], NDArray[np.uint64], int]:
    """Partition and bound as one number, which sorts ten times as fast as two columns. If both do not fit into 64 bits,
    the bound loses its lowest bits, and files that lie very close count as touching."""
    first = lower.min()
    # A writer may state an upper bound below the lower one; such a range counts as a point.
    low = lower.view(np.uint64) - np.uint64(first.view(np.uint64))
    high = np.maximum(upper, lower).view(np.uint64) - np.uint64(first.view(np.uint64))
    bits = 64 - max(1, int(partition.max()).bit_length())
    lost = np.uint64(max(0, int(high.max()).bit_length() - bits))
    prefix = partition.astype(np.uint64) << np.uint64(bits)
    return prefix | (low >> lost), prefix | (high >> lost), bits
