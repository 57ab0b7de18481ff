"""The data files that planning looks at, as columns. An inventory comes in; out come the files that may be chosen, in
manifest order and numbered by partition, so that every later step is arithmetic on arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.model import table_view
from iceberg_compaction.model.rewrite_plan import LeftOutReason
from iceberg_compaction.plan import ordering, respec
from iceberg_compaction.plan.strategies import delete_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Policy, Sizes
    from iceberg_compaction.model.table_view import TableView

# Numbers for all pairs of spec and partition text may outnumber the files by this factor before they are made dense.
_SPARSE = 4
_LAST = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """What partition numbers stand for; the arrays have one item per number. Not every number need have files."""

    spec_ids: NDArray[np.int64]
    codes: NDArray[np.int64]  # positions in `texts`
    texts: pa.StringArray  # canonical partition texts, each once

    def __len__(self) -> int:
        return len(self.codes)

    def texts_of(self, keys: NDArray[np.int64]) -> pa.StringArray:
        return self.texts.take(pa.array(self.codes[keys]))

    def with_pool(self) -> Partitions:
        """The same and one more, which stands for no partition and comes after all others."""
        return Partitions(
            spec_ids=np.append(self.spec_ids, self.spec_ids.max() + 1),
            codes=np.append(self.codes, len(self.texts)),
            texts=pa.concat_arrays([self.texts, pa.array(["{}"])]),
        )

    def sort(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions that sort partition numbers by spec id, then by text; equal ones stay in their order."""
        codes, back = np.unique(self.codes[keys], return_inverse=True)
        order = pc.array_sort_indices(self.texts.take(pa.array(codes))).to_numpy()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return np.lexsort((rank[back], self.spec_ids[keys]))


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFiles:
    """Data files; the arrays run in parallel."""

    rows: NDArray[np.int64]  # row numbers of Inventory.files
    bytes: NDArray[np.int64]
    live: NDArray[np.int64]  # bytes of the rows that deletes leave, an estimate; the same array where there are none
    single: NDArray[np.bool_]  # has one row only, which no rewrite divides
    worn: NDArray[np.bool_]  # has so many deletes that this alone is a reason to rewrite it
    homes: NDArray[np.int64]  # numbers of the partitions that files lie in
    keys: NDArray[np.int64]  # the same, but that of the pool for files whose rows move to another partition spec
    partitions: Partitions

    def outside(self, sizes: Sizes) -> NDArray[np.bool_]:
        """Which files are smaller than the minimum or larger than the maximum size."""
        return (self.bytes < sizes.min) | self.large(sizes)

    def large(self, sizes: Sizes) -> NDArray[np.bool_]:
        """Which files are larger than the maximum size and can be divided (R53)."""
        return (self.bytes > sizes.max) & ~self.single

    def take(self, chosen: NDArray[np.bool_]) -> DataFiles:
        """The files of a mask."""
        if chosen.all():
            return self
        size, homes = self.bytes[chosen], self.homes[chosen]
        return DataFiles(
            rows=self.rows[chosen],
            bytes=size,
            live=size if self.live is self.bytes else self.live[chosen],
            single=self.single[chosen],
            worn=self.worn[chosen],
            homes=homes,
            keys=homes if self.keys is self.homes else self.keys[chosen],
            partitions=self.partitions,
        )


class ReadingOrder:
    """Neighbours side by side: the files of a partition by lower bound of the clustering column, then by sequence
    number, then as the manifests list them. A rewrite keeps this order, so its outputs overlap as little as can be.
    Of pooled files those of one partition are side by side."""

    def __init__(self, view: TableView, files: DataFiles) -> None:
        self._view = view
        self._files = files

    def sort(self, positions: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """`positions` of the files, sorted by their group numbers and each group in reading order."""
        rows, columns = self._files.rows[positions], self._view.files
        unknown, clusters = ordering.nulls_last(columns["cluster_lower"], rows)
        current = None if self._view.pin is None else self._view.pin.spec_id
        by = (
            ordering.from_zero(groups),
            respec.section_ranks(self._files, positions, np.where(unknown, _LAST, clusters), current),
            unknown,
            clusters,
            ordering.from_zero(_numbers(columns, "sequence_number")[rows]),
        )
        return positions[ordering.positions_by(by)]


def data_files(view: TableView, policy: Policy) -> tuple[DataFiles, dict[LeftOutReason, NDArray[np.int64]]]:
    """The selected data files in manifest order, and the sizes of those that are ruled out, by reason."""
    files = view.files
    is_data = selected = _numbers(files, "content") == table_view.DATA
    if view.selected is not None:
        selected = is_data & pc.fill_null(view.selected, False).to_numpy(zero_copy_only=False)
    free = selected
    if view.claimed is not None:
        free = selected & ~view.claimed.to_numpy(zero_copy_only=False)
    size = _numbers(files, "file_size_in_bytes")
    homes, partitions = _partitions(files)
    keys, moving = homes, respec.moving(view, policy)
    if moving is not None:
        keys, partitions = np.where(moving, len(partitions), homes), partitions.with_pool()
    live, worn = _wear(view, policy, size)
    everything = DataFiles(
        rows=np.arange(len(size)),
        bytes=size,
        live=live,
        single=_numbers(files, "record_count") == 1,
        worn=worn,
        homes=homes,
        keys=keys,
        partitions=partitions,
    )
    ruled_out = {LeftOutReason.NOT_SELECTED: size[is_data & ~selected], LeftOutReason.CLAIMED: size[selected & ~free]}
    return everything.take(free), ruled_out


def _wear(view: TableView, policy: Policy, size: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """What deletes leave of every file's bytes, and which files have too many of them."""
    if view.delete_files is None or view.deleted_rows is None:
        return size, np.zeros(len(size), np.bool_)
    met, deleted = view.delete_files.to_numpy(), view.deleted_rows.to_numpy()
    records = _numbers(view.files, "record_count")
    live = size - (size * (deleted / np.maximum(records, 1))).astype(np.int64)
    return live, delete_files.worn(met, deleted, records, policy)


def _numbers(files: pa.Table, name: str) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = files[name].to_numpy()
    return numbers


def _partitions(files: pa.Table) -> tuple[NDArray[np.int64], Partitions]:
    """A number for the spec and partition of every file, and what the numbers mean."""
    codes, texts = _codes(files["partition"])
    if not len(codes):
        return codes, Partitions(spec_ids=codes, codes=codes, texts=texts)
    specs = _numbers(files, "spec_id")
    least, most = int(specs.min()), int(specs.max())
    numbers = codes if least == most else (specs - least).astype(np.int64) * len(texts) + codes
    count = (most - least + 1) * len(texts)
    if count <= _SPARSE * len(numbers):
        pairs = np.arange(count)
    else:
        pairs, numbers = np.unique(numbers, return_inverse=True)
    spec, code = np.divmod(pairs, len(texts))
    return numbers, Partitions(spec_ids=least + spec, codes=code, texts=texts)


def _codes(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.StringArray]:
    """Partition texts as numbers, and the distinct texts. A dictionary that chunks share is looked at once."""
    dictionaries: dict[tuple[int, ...], pa.Array] = {}
    indices, used = [], []
    for chunk in column.chunks:
        dictionary = chunk.dictionary
        same = (len(dictionary), dictionary.offset, *(b.address if b else 0 for b in dictionary.buffers()))
        dictionaries.setdefault(same, dictionary)
        indices.append(chunk.indices.to_numpy())
        used.append(same)
    if not indices:
        return np.zeros(0, np.int64), pa.array([], pa.string())
    # A dictionary may hold a text twice, and another chunk's may hold it too: equal partitions must get equal numbers.
    distinct = pa.concat_arrays(list(dictionaries.values())).dictionary_encode()
    if len(dictionaries) == 1 and len(distinct.dictionary) == len(distinct):
        return np.concatenate(indices).astype(np.int64), distinct.dictionary
    ends = np.cumsum([len(dictionary) for dictionary in dictionaries.values()])[:-1]
    number_of = dict(zip(dictionaries, np.split(distinct.indices.to_numpy(), ends), strict=True))
    numbered = [number_of[same][index] for same, index in zip(used, indices, strict=True)]
    return np.concatenate(numbered).astype(np.int64), distinct.dictionary
