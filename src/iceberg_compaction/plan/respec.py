"""Files whose rows move to another partition spec. Where they lie now says nothing about where their rows belong, and
many old partitions may feed one new partition. So they are packed as one pool, as Iceberg does, with those of each old
partition side by side, and a group of them names its partitions as sections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction.model.section import SECTIONS
from iceberg_compaction.plan import ordering

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policy import Policy
    from iceberg_compaction.model.table import Inventory
    from iceberg_compaction.plan.candidates import DataFiles

    Ints = NDArray[np.int64]


def moving(inventory: Inventory, policy: Policy) -> NDArray[np.bool_] | None:
    """Which of the inventory's files are of another spec than new files will be; None: none at all."""
    if policy.keep_spec or inventory.pin is None:
        return None
    found: NDArray[np.bool_] = inventory.files["spec_id"].to_numpy() != inventory.pin.spec_id
    return found if found.any() else None


def section_ranks(files: DataFiles, positions: Ints, clusters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers that sort pooled files by where they lie, partitions with the lowest values of the clustering column
    first, since those are likely to feed the same new partitions. `clusters`: that value of each file."""
    ranks = np.zeros(len(positions), np.uint64)
    if files.homes is files.keys:
        return ranks
    pooled = np.flatnonzero(files.homes[positions] != files.keys[positions])
    homes, back = np.unique(files.homes[positions[pooled]], return_inverse=True)
    least = np.full(len(homes), np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(least, back, clusters[pooled])
    by_text = files.partitions.sort(homes)
    order = by_text[ordering.positions_by((least[by_text],))]
    rank = np.empty(len(homes), np.uint64)
    rank[order] = np.arange(len(homes), dtype=np.uint64)
    ranks[pooled] = rank[back]
    return ranks


def sections(files: DataFiles, positions: Ints, first: Ints) -> pa.ListArray:
    """The sections of groups, which are slices of these positions and begin at `first`; none for a group that lies in
    one partition."""
    homes, group = files.homes[positions], np.repeat(np.arange(len(first)), np.diff(np.append(first, len(positions))))
    begins = np.flatnonzero(np.append(True, (homes[1:] != homes[:-1]) | (group[1:] != group[:-1])))
    begins = begins[: len(positions)]
    owner = group[begins]
    several = np.bincount(owner, minlength=len(first)) > 1
    kept = several[owner]
    counts = np.diff(np.append(begins, len(positions)))[kept]
    places = homes[begins[kept]]
    values = pa.StructArray.from_arrays(
        [pa.array(files.partitions.spec_ids[places]), files.partitions.texts_of(places), pa.array(counts)],
        fields=list(SECTIONS.value_type),
    )
    edges = np.append(0, np.cumsum(np.bincount(owner[kept], minlength=len(first)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(edges), values, type=SECTIONS)
