"""Files whose rows move to another partition spec. Where they lie now says nothing about where their rows belong, and
many old partitions may feed one new partition. So they are packed as one pool, as Iceberg does, with those of each old
partition side by side, and a group of them names its partitions as sections."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from iceberg_compaction.model.file_group import Spread
from iceberg_compaction.model.partition_section import SECTIONS
from iceberg_compaction.model.table_view import NULL
from iceberg_compaction.plan import ordering, packing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Policy, Sizes
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.plan.candidates import DataFiles
    from iceberg_compaction.plan.selection import Selection

    Ints = NDArray[np.int64]

_MOST_CELLS = 1 << 20  # that are looked at one by one; beyond, partitions are only estimated


def moving(view: TableView, policy: Policy) -> NDArray[np.bool_] | None:
    """Which of the inventory's files are of another spec than new files will be; None: none at all."""
    if policy.keep_spec or view.pin is None:
        return None
    found: NDArray[np.bool_] = view.files["spec_id"].to_numpy() != view.pin.spec_id
    return found if found.any() else None


def with_neighbours(view: TableView, files: DataFiles, policy: Policy, sizes: Sizes) -> DataFiles:
    """The same files, with small ones of the current spec in the pool, too, that lie where rows of pooled files go.
    Else a run would leave one more small file beside them, and the next would join what this one has made. Not so if
    they do not all fit into one group: in another than those rows they would be rewritten for nothing."""
    if files.homes is files.keys or view.feeds is None:
        return files
    pooled = files.keys != files.homes
    small = np.flatnonzero(~pooled & (files.bytes < sizes.min))
    ranges = _ranges(view.feeds, files.rows[pooled])
    volume = np.prod(ranges.width, axis=1)
    if not len(small) or not ranges.told.all() or volume.sum() > _MOST_CELLS:
        return files
    cells, _ = ranges.cells(volume.astype(np.int64))
    here = _ranges(view.feeds, files.rows[small]).low
    numbers = np.unique(np.concatenate([cells, here]), axis=0, return_inverse=True)[1].reshape(-1)
    met = small[np.isin(numbers[len(cells) :], numbers[: len(cells)])]
    pooled[met] = True
    most = policy.max_file_group_input_files or len(pooled)
    if pooled.sum() > most or files.bytes[pooled].sum() > policy.max_file_group_size_bytes:
        return files
    keys = files.keys.copy()
    keys[met] = len(files.partitions) - 1
    return replace(files, keys=keys)


def section_ranks(
    files: DataFiles, positions: Ints, clusters: NDArray[np.uint64], spec_id: int | None
) -> NDArray[np.uint64]:
    """Numbers that sort pooled files by where they lie, partitions with the lowest values of the clustering column
    first, since those are likely to feed the same new partitions. `clusters`: that value of each file. Partitions of
    the current spec, `spec_id`, come last: a budget goes to rows that move, else it might never come to them."""
    ranks = np.zeros(len(positions), np.uint64)
    if files.homes is files.keys:
        return ranks
    pooled = np.flatnonzero(files.homes[positions] != files.keys[positions])
    homes, back = np.unique(files.homes[positions[pooled]], return_inverse=True)
    least = np.full(len(homes), np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(least, back, clusters[pooled])
    by_text = files.partitions.sort(homes)
    stays = (files.partitions.spec_ids[homes] == spec_id).astype(np.uint64)
    order = by_text[ordering.positions_by((stays[by_text], least[by_text]))]
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


def expect(view: TableView, files: DataFiles, chosen: Selection, sizes: Sizes) -> dict[str, list[Any]]:
    """For each group how many partitions its rows go to, how well that is known, and the files that this makes."""
    spread, partitions = [Spread.NONE.value] * len(chosen.first), [0] * len(chosen.first)
    outputs = chosen.outputs.tolist()
    pooled = files.keys[chosen.positions[chosen.first]] != files.homes[chosen.positions[chosen.first]]
    for group in np.flatnonzero(pooled).tolist():
        mine = chosen.positions[chosen.first[group] : chosen.first[group] + chosen.count[group]]
        found = _count(view, files, mine, sizes)
        spread[group], partitions[group] = found[0].value, found[1]
        outputs[group] = max(found[2], 1 if found[0] is Spread.EXACT else outputs[group])
    return {"outputs": outputs, "spread": spread, "new_partitions": partitions}


def _count(view: TableView, files: DataFiles, positions: Ints, sizes: Sizes) -> tuple[Spread, int, int]:
    """To how many partitions the rows of some files go and how many files that makes, if each file's rows are spread
    evenly over what its ranges hold."""
    rows, size = files.rows[positions], files.live[positions]
    records = np.maximum(view.files["record_count"].to_numpy()[rows], 1)
    if view.feeds is None:
        return Spread.LEAST, 1, 1
    ranges = _ranges(view.feeds, rows)
    if not ranges.told.all():
        # The least values of the files are there, and each needs a partition.
        many = max(len(np.unique(column)) for column in ranges.low.T)
        return Spread.LEAST, many, many
    volume = np.prod(ranges.width, axis=1)
    spread = Spread.EXACT if (volume == 1).all() else Spread.ABOUT
    if volume.sum() > _MOST_CELLS:
        box = np.prod((ranges.low + ranges.width).max(axis=0) - ranges.low.min(axis=0))
        many = int(min(box, np.minimum(volume, records).sum()))
        each = packing.output_counts(size.sum(keepdims=True) // many, sizes)
        return spread, many, many * int(each[0])
    cells, owner = ranges.cells(volume.astype(np.int64))
    numbers = np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1)
    share = 1 / volume[owner]
    rows_each = np.bincount(numbers, weights=share * records[owner])
    bytes_each = np.bincount(numbers, weights=share * size[owner]).astype(np.int64)
    met = np.minimum(rows_each + 1e-6, 1.0)
    counts = packing.output_counts(bytes_each, sizes)
    return spread, max(1, round(met.sum())), max(1, round((met * counts).sum()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranges:
    """What the values of each partition field may be; a row for each file, a column for each field."""

    low: Ints
    width: NDArray[np.float64]  # how many values, null among them
    null: NDArray[np.bool_]  # whether null is one of them
    told: NDArray[np.bool_]  # of which files all is known; what is not known counts as one value for all

    def cells(self, volume: Ints) -> tuple[Ints, Ints]:
        """Every combination of values of each file, and the file that it is of."""
        owner = np.repeat(np.arange(len(volume)), volume)
        left = np.arange(len(owner)) - np.repeat(np.cumsum(volume) - volume, volume)
        cells = np.zeros((len(owner), self.low.shape[1]), np.int64)
        for field in range(self.low.shape[1]):
            width = self.width[owner, field].astype(np.int64)
            step = left % width
            last = self.null[owner, field] & (step == width - 1)
            cells[:, field] = np.where(last, NULL, self.low[owner, field] + step)
            left //= width
        return cells, owner


def _ranges(feeds: pa.Table, rows: Ints) -> _Ranges:
    place = np.searchsorted(feeds["row"].to_numpy(), rows)
    fields = (feeds.num_columns - 1) // 3
    low = np.zeros((len(rows), max(1, fields)), np.int64)  # without any field there is one partition
    width, null = np.ones(low.shape), np.zeros(low.shape, np.bool_)
    told = np.ones(len(rows), np.bool_)
    for field in range(fields):
        told &= feeds[f"low_{field}"].is_valid().to_numpy()[place]
        low[:, field] = feeds[f"low_{field}"].fill_null(0).to_numpy()[place]
        null[:, field] = feeds[f"null_{field}"].to_numpy()[place]
        high = feeds[f"high_{field}"].fill_null(0).to_numpy()[place].astype(np.float64)
        width[:, field] = high - low[:, field] + 1 + null[:, field]
    return _Ranges(low=low, width=width, null=null, told=told)
