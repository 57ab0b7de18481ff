"""Files whose rows move to another partition spec. The old partition of a file says nothing about the new partitions of
its rows, and many old partitions may feed one new partition. So such files are packed as one pool, as Iceberg does,
with those of each old partition side by side, and a group of them names its partitions as sections."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from iceberg_compaction.model.file_group import Spread
from iceberg_compaction.model.partition_section import SECTIONS
from iceberg_compaction.model.table_view import NULL
from iceberg_compaction.plan import output_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.output_layout import OutputLayout
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.selection import Selection

    Ints = NDArray[np.int64]

_MOST_CELLS = 1 << 20  # combinations that are counted one by one; beyond, partitions are only estimated


def moving(view: TableView, layout: OutputLayout) -> NDArray[np.bool_] | None:
    """The mask of the view's files whose spec is not that of the outputs; None: there are none."""
    if layout.keep_spec or view.pin is None:
        return None
    moves: NDArray[np.bool_] = view.files["spec_id"].to_numpy() != view.pin.spec_id
    return moves if moves.any() else None


def with_neighbours(files: CandidateFiles, request: PlanRequest) -> CandidateFiles:
    """The same files, with small ones of the current spec in the pool, too, if rows of pooled files go to their
    partition. Else a run would leave one more small file beside them, and the next run would join the two. They stay
    out of a pool that does not fit into one group: in another group than those rows they would be rewritten in vain."""
    policy, feeds = request.policy, request.view.feeds
    if files.partition is files.packing_key or feeds is None:
        return files
    pooled = files.packing_key != files.partition
    small = np.flatnonzero(~pooled & (files.bytes < request.sizes.min))
    ranges = _ranges(feeds, files.rows[pooled])
    volume = np.prod(ranges.width, axis=1)
    if not len(small) or not ranges.complete.all() or volume.sum() > _MOST_CELLS:
        return files
    cells, _ = ranges.cells(volume.astype(np.int64))
    small_cells = _ranges(feeds, files.rows[small]).low
    numbers = np.unique(np.concatenate([cells, small_cells]), axis=0, return_inverse=True)[1].reshape(-1)
    neighbours = small[np.isin(numbers[len(cells) :], numbers[: len(cells)])]
    pooled[neighbours] = True
    most = policy.max_file_group_input_files or len(pooled)
    if pooled.sum() > most or files.bytes[pooled].sum() > policy.max_file_group_size_bytes:
        return files
    packing_key = files.packing_key.copy()
    packing_key[neighbours] = len(files.numbering) - 1
    return replace(files, packing_key=packing_key)


def with_fed_partitions(files: CandidateFiles, request: PlanRequest) -> CandidateFiles:
    """The same files; those of the current spec are in the pool, too, if rows of pooled files go to their partition, or
    may go there as far as metadata knows. So a group has all rows of the partitions that it writes, and sorts them as
    a whole."""
    pooled = files.packing_key != files.partition
    if not pooled.any():
        return files
    fed = np.flatnonzero(~pooled)
    feeds = request.view.feeds
    if feeds is not None and len(fed):
        ranges = _ranges(feeds, files.rows[pooled])
        volume = np.prod(ranges.width, axis=1)
        if ranges.complete.all() and volume.sum() <= _MOST_CELLS:
            cells, _ = ranges.cells(volume.astype(np.int64))
            own = _ranges(feeds, files.rows[fed]).low
            numbers = np.unique(np.concatenate([cells, own]), axis=0, return_inverse=True)[1].reshape(-1)
            fed = fed[np.isin(numbers[len(cells) :], numbers[: len(cells)])]
    pooled[fed] = True
    return replace(files, packing_key=np.where(pooled, len(files.numbering) - 1, files.packing_key))


def section_ranks(files: CandidateFiles, positions: Ints, bounds: Ints, spec_id: int | None) -> Ints:
    """Numbers that sort pooled files by partition, those partitions first that have the lowest values of the clustering
    column, since they are likely to feed the same new partitions. `bounds`: that value of each file. Partitions of the
    current spec, `spec_id`, come last: a budget is spent on rows that move, else it might never reach them."""
    ranks = np.zeros(len(positions), np.int64)
    if files.partition is files.packing_key:
        return ranks
    pooled = np.flatnonzero(files.partition[positions] != files.packing_key[positions])
    partitions, back = np.unique(files.partition[positions[pooled]], return_inverse=True)
    least = np.full(len(partitions), np.iinfo(np.int64).max)
    np.minimum.at(least, back, bounds[pooled])
    by_text = files.numbering.sort(partitions)
    stays = files.numbering.spec_ids[partitions] == spec_id
    order = by_text[np.lexsort((least[by_text], stays[by_text]))]
    rank = np.empty(len(partitions), np.int64)
    rank[order] = np.arange(len(partitions))
    ranks[pooled] = rank[back]
    return ranks


def sections(files: CandidateFiles, positions: Ints, first: Ints) -> pa.ListArray:
    """The sections of groups, which are slices of these positions and begin at `first`; none for a group of one
    partition."""
    partitions = files.partition[positions]
    group = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(positions))))
    begins = np.flatnonzero(np.append(True, (partitions[1:] != partitions[:-1]) | (group[1:] != group[:-1])))
    begins = begins[: len(positions)]
    owner = group[begins]
    several = np.bincount(owner, minlength=len(first)) > 1
    kept = several[owner]
    counts = np.diff(np.append(begins, len(positions)))[kept]
    numbers = partitions[begins[kept]]
    values = pa.StructArray.from_arrays(
        [pa.array(files.numbering.spec_ids[numbers]), files.numbering.texts_of(numbers), pa.array(counts)],
        fields=list(SECTIONS.value_type),
    )
    edges = np.append(0, np.cumsum(np.bincount(owner[kept], minlength=len(first)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(edges), values, type=SECTIONS)


def expect(files: CandidateFiles, chosen: Selection, request: PlanRequest) -> dict[str, list[Any]]:
    """For each group the number of partitions that its rows go to, its precision, and the number of output files."""
    spread, partitions = [Spread.NONE.value] * len(chosen.first), [0] * len(chosen.first)
    outputs = chosen.outputs.tolist()
    first_files = chosen.positions[chosen.first]
    pooled = files.packing_key[first_files] != files.partition[first_files]
    for group in np.flatnonzero(pooled).tolist():
        positions = chosen.positions[chosen.first[group] : chosen.first[group] + chosen.count[group]]
        precision, partitions[group], count = _count(files, positions, request)
        spread[group] = precision.value
        outputs[group] = max(count, 1 if precision is Spread.EXACT else outputs[group])
    return {"outputs": outputs, "spread": spread, "new_partitions": partitions}


def _count(files: CandidateFiles, positions: Ints, request: PlanRequest) -> tuple[Spread, int, int]:
    """The number of partitions that rows of these files go to, with its precision, and the number of output files, if
    the rows of each file are spread evenly over its ranges."""
    view, sizes = request.view, request.sizes
    rows, size = files.rows[positions], files.live[positions]
    records = np.maximum(view.files["record_count"].to_numpy()[rows], 1)
    if view.feeds is None:
        return Spread.LEAST, 1, 1
    ranges = _ranges(view.feeds, rows)
    if not ranges.complete.all():
        # The lowest values of the files exist, and each needs a partition.
        many = max(len(np.unique(column)) for column in ranges.low.T)
        return Spread.LEAST, many, many
    volume = np.prod(ranges.width, axis=1)
    spread = Spread.EXACT if (volume == 1).all() else Spread.ABOUT
    if volume.sum() > _MOST_CELLS:
        box = np.prod((ranges.low + ranges.width).max(axis=0) - ranges.low.min(axis=0))
        many = int(min(box, np.minimum(volume, records).sum()))
        each = output_counts.output_counts(size.sum(keepdims=True) // many, sizes)
        return spread, many, many * int(each[0])
    cells, owner = ranges.cells(volume.astype(np.int64))
    numbers = np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1)
    share = 1 / volume[owner]
    rows_each = np.bincount(numbers, weights=share * records[owner])
    bytes_each = np.bincount(numbers, weights=share * size[owner]).astype(np.int64)
    occupied = np.minimum(rows_each + 1e-6, 1.0)
    counts = output_counts.output_counts(bytes_each, sizes)
    return spread, max(1, round(occupied.sum())), max(1, round((occupied * counts).sum()))


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRanges:
    """The range of values of each partition field; a row for each file, a column for each field."""

    low: Ints
    width: NDArray[np.float64]  # number of values, null among them
    null: NDArray[np.bool_]  # null is one of them
    complete: NDArray[np.bool_]  # all ranges of the file are known; an unknown range counts as one value for all files

    def cells(self, volume: Ints) -> tuple[Ints, Ints]:
        """Every combination of values of each file, and the number of that file."""
        owner = np.repeat(np.arange(len(volume)), volume)
        rest = np.arange(len(owner)) - np.repeat(np.cumsum(volume) - volume, volume)
        cells = np.zeros((len(owner), self.low.shape[1]), np.int64)
        for field in range(self.low.shape[1]):
            width = self.width[owner, field].astype(np.int64)
            step = rest % width
            last = self.null[owner, field] & (step == width - 1)
            cells[:, field] = np.where(last, NULL, self.low[owner, field] + step)
            rest //= width
        return cells, owner


def _ranges(feeds: pa.Table, rows: Ints) -> FieldRanges:
    positions = np.searchsorted(feeds["row"].to_numpy(), rows)
    fields = (feeds.num_columns - 1) // 3
    low = np.zeros((len(rows), max(1, fields)), np.int64)  # without any field there is one partition
    width, null = np.ones(low.shape), np.zeros(low.shape, np.bool_)
    complete = np.ones(len(rows), np.bool_)
    for field in range(fields):
        complete &= feeds[f"low_{field}"].is_valid().to_numpy()[positions]
        low[:, field] = feeds[f"low_{field}"].fill_null(0).to_numpy()[positions]
        null[:, field] = feeds[f"null_{field}"].to_numpy()[positions]
        high = feeds[f"high_{field}"].fill_null(0).to_numpy()[positions].astype(np.float64)
        width[:, field] = high - low[:, field] + 1 + null[:, field]
    return FieldRanges(low=low, width=width, null=null, complete=complete)
