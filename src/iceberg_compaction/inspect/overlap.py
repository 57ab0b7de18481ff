"""How well files are clustered by the sort or time column: how many files of its partition a value is found in. Bounds
come in as whole columns; the mean depth goes out, for the table and for each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction.model.table_health import Clustering

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.inspect.file_census import Census
    from iceberg_compaction.model.table_view import TableView

    Ints = NDArray[np.int64]

MOST_FILES = 50_000  # of more, this many are looked at, so that a million files take milliseconds


def clustering(view: TableView, census: Census) -> tuple[Clustering | None, NDArray[np.float64]]:
    """The table's clustering, None without any bounds; and the depth of each place, NaN where nothing is known."""
    lower, upper, of_place, share = _bounds(census)
    if not len(lower):
        return None, np.full(len(census.places), np.nan)
    places, depths = _depths(lower, upper, of_place)
    # Every file covers its own lower bound; of the others, a sample shows its share.
    depths = 1 + (depths - 1) / share
    files = np.bincount(places, minlength=len(census.places))
    sums = np.bincount(places, weights=depths, minlength=len(census.places))
    by_place = np.where(files > 0, sums / np.maximum(files, 1), np.nan)
    found = Clustering(
        column=view.clustering_column,
        depth=round(float(depths.mean()), 2),
        files=round(len(lower) / share),
        sampled_files=len(lower),
    )
    return found, by_place


def _bounds(census: Census) -> tuple[Ints, Ints, Ints, float]:
    """Lower and upper bounds and places of the data files that have both, and the share of the files looked at."""
    chosen, share = _sample(len(census.sizes))
    rows = chosen if census.is_data is None else np.flatnonzero(census.is_data)[chosen]
    low, high = (census.files[name].take(pa.array(rows)) for name in ("cluster_lower", "cluster_upper"))
    known = low.is_valid().to_numpy() & high.is_valid().to_numpy()
    lower, upper = (column.fill_null(0).to_numpy()[known] for column in (low, high))
    return lower, upper, census.of_place[chosen][known].astype(np.int64), share


def _sample(count: int) -> tuple[Ints, float]:
    """Which files to look at: all, or about MOST_FILES at random, the same ones on every run. Each by its own luck: one
    of every few in turn would miss that neighbours overlap, and that writers, too, work in turns."""
    if count <= MOST_FILES:
        return np.arange(count), 1.0
    luck = np.frombuffer(np.random.default_rng(0).bytes(count), np.uint8)
    chosen = np.flatnonzero(luck < max(1, 256 * MOST_FILES // count))
    return chosen, max(1, len(chosen)) / count


def _depths(lower: Ints, upper: Ints, places: Ints) -> tuple[Ints, NDArray[np.float64]]:
    """For each file, in order of partition and lower bound: its partition, and how many files of the partition cover
    its lower bound, itself included."""
    starts, ends, bits = _in_one_order(lower, upper, places)
    starts.sort()
    ends.sort()
    # Files of other partitions are either on both sides of a value or on neither, so they cancel out.
    begun = np.searchsorted(starts, starts, side="right")
    ended = np.searchsorted(ends, starts, side="left")
    return (starts >> np.uint64(bits)).astype(np.int64), (begun - ended).astype(np.float64)


def _in_one_order(lower: Ints, upper: Ints, places: Ints) -> tuple[NDArray[np.uint64], NDArray[np.uint64], int]:
    """Partition and bound as one number: sorting it is ten times as fast as sorting by two columns. Where both do not
    fit into 64 bits, the bound loses its lowest ones, and files that lie very close count as touching."""
    first = lower.min()
    # Bounds may be of any writer's making; one that ends before it begins is taken as a point.
    low = lower.view(np.uint64) - np.uint64(first.view(np.uint64))
    high = np.maximum(upper, lower).view(np.uint64) - np.uint64(first.view(np.uint64))
    bits = 64 - max(1, int(places.max()).bit_length())
    lost = np.uint64(max(0, int(high.max()).bit_length() - bits))
    place = places.astype(np.uint64) << np.uint64(bits)
    return place | (low >> lost), place | (high >> lost), bits
