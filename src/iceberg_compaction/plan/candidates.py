"""The data files that planning looks at, as columns. A view of a table comes in; out come the files that may be chosen,
in manifest order and numbered by partition, so that every later step is arithmetic on arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.model import table_view
from iceberg_compaction.model.rewrite_plan import LeftOutReason
from iceberg_compaction.model.triggers import DUPLICATE_RATIO, TriggerPreset
from iceberg_compaction.plan import filters, respec
from iceberg_compaction.plan.strategies import delete_thresholds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Sizes
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.plan.plan_request import PlanRequest

# Numbers for all pairs of spec and partition text may outnumber the files by this factor before they are made dense.
_SPARSE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionNumbers:
    """The partition behind each partition number; the arrays have one item per number. A number may have no files."""

    spec_ids: NDArray[np.int64]
    codes: NDArray[np.int64]  # positions in `texts`
    texts: pa.StringArray  # canonical partition texts, each once

    def __len__(self) -> int:
        return len(self.codes)

    def texts_of(self, numbers: NDArray[np.int64]) -> pa.StringArray:
        return self.texts.take(pa.array(self.codes[numbers]))

    def with_pool(self) -> PartitionNumbers:
        """The same and one more number, which stands for no partition and comes after all others."""
        return PartitionNumbers(
            spec_ids=np.append(self.spec_ids, self.spec_ids.max() + 1),
            codes=np.append(self.codes, len(self.texts)),
            texts=pa.concat_arrays([self.texts, pa.array(["{}"])]),
        )

    def sort(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions that sort partition numbers by spec id, then by text; equal ones stay in their order."""
        codes, back = np.unique(self.codes[numbers], return_inverse=True)
        order = pc.array_sort_indices(self.texts.take(pa.array(codes))).to_numpy()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return np.lexsort((rank[back], self.spec_ids[numbers]))


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateFiles:
    """Data files; the arrays run in parallel."""

    rows: NDArray[np.int64]  # row numbers of TableView.files
    bytes: NDArray[np.int64]
    live: NDArray[np.int64]  # estimated bytes of the rows that are not deleted; `bytes` itself without deletes
    single: NDArray[np.bool_]  # the file has one row, which no rewrite divides
    delete_heavy: NDArray[np.bool_]  # the file has so many deletes that they alone are a reason to rewrite it
    partition: NDArray[np.int64]  # number of the partition that holds the file
    packing_key: NDArray[np.int64]  # the same, or the number of the pool if the rows move to another partition spec
    numbering: PartitionNumbers

    def outside(self, sizes: Sizes) -> NDArray[np.bool_]:
        """The mask of files that are smaller than the minimum or larger than the maximum size."""
        return (self.bytes < sizes.min) | self.large(sizes)

    def large(self, sizes: Sizes) -> NDArray[np.bool_]:
        """The mask of files that are larger than the maximum size and can be divided (R53)."""
        return (self.bytes > sizes.max) & ~self.single

    def take(self, mask: NDArray[np.bool_]) -> CandidateFiles:
        """The files of a mask."""
        if mask.all():
            return self
        size, partition = self.bytes[mask], self.partition[mask]
        return CandidateFiles(
            rows=self.rows[mask],
            bytes=size,
            live=size if self.live is self.bytes else self.live[mask],
            single=self.single[mask],
            delete_heavy=self.delete_heavy[mask],
            partition=partition,
            packing_key=partition if self.packing_key is self.partition else self.packing_key[mask],
            numbering=self.numbering,
        )


class ReadingOrder:
    """Neighbours side by side: the files of a partition by lower bound of the clustering column, then by sequence
    number, then as the manifests list them. A rewrite keeps this order, so its outputs overlap as little as possible.
    Pooled files of one partition are side by side."""

    def __init__(self, view: TableView, files: CandidateFiles) -> None:
        self._view = view
        self._files = files

    def sort(self, positions: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """`positions` of the files, sorted by their group numbers and each group in reading order."""
        rows, columns = self._files.rows[positions], self._view.files
        lower = columns["cluster_lower"]
        unbounded = lower.is_null().to_numpy()[rows]
        bounds = pc.fill_null(lower, np.iinfo(np.int64).max).to_numpy()[rows]
        current = None if self._view.pin is None else self._view.pin.spec_id
        sections = respec.section_ranks(self._files, positions, bounds, current)
        sequence_numbers = columns["sequence_number"].to_numpy()[rows]
        keys = [key for key in (bounds, unbounded, sections, groups) if key.any()]  # zeros would only take time
        return positions[np.lexsort((sequence_numbers, *keys))]


def data_files(request: PlanRequest) -> tuple[CandidateFiles, dict[LeftOutReason, NDArray[np.int64]]]:
    """The selected data files in manifest order, and the sizes of the files that are ruled out, by reason."""
    view, files = request.view, request.view.files
    is_data = selected = files["content"].to_numpy() == table_view.DATA
    if view.selected is not None:
        selected = is_data & pc.fill_null(view.selected, False).to_numpy(zero_copy_only=False)
    free = selected
    if view.leased is not None:
        free = selected & ~view.leased.to_numpy(zero_copy_only=False)
    yielded = np.zeros(len(free), np.bool_)
    if view.yielded is not None:
        yielded = free & view.yielded.to_numpy(zero_copy_only=False)
    size, records = files["file_size_in_bytes"].to_numpy(), files["record_count"].to_numpy()
    filtered, left = {}, free & ~yielded
    for reason, mask in filters.excluded(request):
        filtered[reason], left = size[left & mask], left & ~mask
    partition, numbering = partition_numbers(files)
    packing_key, moving = partition, respec.moving(view, request.layout)
    if moving is not None:
        packing_key, numbering = np.where(moving, len(numbering), partition), numbering.with_pool()
    every_file = CandidateFiles(
        rows=np.arange(len(size)),
        bytes=size,
        live=live_bytes(view, size),
        single=records == 1,
        delete_heavy=delete_thresholds.delete_heavy(view, _delete_thresholds(request)),
        partition=partition,
        packing_key=packing_key,
        numbering=numbering,
    )
    ruled_out = {
        LeftOutReason.NOT_SELECTED: size[is_data & ~selected],
        LeftOutReason.LEASED: size[selected & ~free],
        LeftOutReason.MAINTAINED: size[yielded],
    }
    return every_file.take(left), ruled_out | filtered


def _delete_thresholds(request: PlanRequest) -> delete_thresholds.DeleteThresholds:
    """The strategy's thresholds. Where Amoro's triggers decide and the policy has no ratio, theirs is the ratio: else a
    partition that they ask for would be left alone."""
    policy = request.policy
    thresholds = request.strategy.delete_thresholds(policy)
    if policy.triggers.preset is not TriggerPreset.AMORO or policy.delete_ratio_threshold is not None:
        return thresholds
    ratio = policy.triggers.threshold("major_trigger_duplicate_ratio", DUPLICATE_RATIO)
    return thresholds if ratio is None else replace(thresholds, ratio=min(ratio, thresholds.ratio))


def live_bytes(view: TableView, size: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bytes of each file, of these sizes, without its deleted rows, an estimate."""
    if view.deleted_rows is None:
        return size
    records = view.files["record_count"].to_numpy()
    deleted: NDArray[np.int64] = (size * (view.deleted_rows.to_numpy() / np.maximum(records, 1))).astype(np.int64)
    return size - deleted


def partition_numbers(files: pa.Table) -> tuple[NDArray[np.int64], PartitionNumbers]:
    """A number for the spec and partition of every file, and the meaning of the numbers."""
    codes, texts = _codes(files["partition"])
    if not len(codes):
        return codes, PartitionNumbers(spec_ids=codes, codes=codes, texts=texts)
    specs = files["spec_id"].to_numpy()
    least, most = int(specs.min()), int(specs.max())
    numbers = codes if least == most else (specs - least).astype(np.int64) * len(texts) + codes
    count = (most - least + 1) * len(texts)
    if count <= _SPARSE * len(numbers):
        pairs = np.arange(count)
    else:
        pairs, numbers = np.unique(numbers, return_inverse=True)
    spec, code = np.divmod(pairs, len(texts))
    return numbers, PartitionNumbers(spec_ids=least + spec, codes=code, texts=texts)


def _codes(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.StringArray]:
    """Partition texts as numbers, and the distinct texts. A dictionary that chunks share is processed once."""
    dictionaries: dict[tuple[int, ...], pa.Array] = {}
    indices, addresses = [], []
    for chunk in column.chunks:
        dictionary = chunk.dictionary
        address = (len(dictionary), dictionary.offset, *(b.address if b else 0 for b in dictionary.buffers()))
        dictionaries.setdefault(address, dictionary)
        indices.append(chunk.indices.to_numpy())
        addresses.append(address)
    if not indices:
        return np.zeros(0, np.int64), pa.array([], pa.string())
    # A dictionary may hold a text twice, and another chunk's may hold it too: equal partitions must get equal numbers.
    distinct = pa.concat_arrays(list(dictionaries.values())).dictionary_encode()
    if len(dictionaries) == 1 and len(distinct.dictionary) == len(distinct):
        return np.concatenate(indices).astype(np.int64), distinct.dictionary
    ends = np.cumsum([len(dictionary) for dictionary in dictionaries.values()])[:-1]
    number_of = dict(zip(dictionaries, np.split(distinct.indices.to_numpy(), ends), strict=True))
    numbered = [number_of[address][index] for address, index in zip(addresses, indices, strict=True)]
    return np.concatenate(numbered).astype(np.int64), distinct.dictionary
