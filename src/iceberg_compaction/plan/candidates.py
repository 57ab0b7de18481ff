"""The data files that planning looks at, as columns in reading order. An inventory comes in; out come the files that
`where` selects, numbered by partition, so that every later step is arithmetic on arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.model import table as table_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policy import Sizes
    from iceberg_compaction.model.table import Inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFiles:
    """Data files by spec, partition, sequence number and manifest order. The four arrays run in parallel."""

    rows: NDArray[np.int64]  # row numbers of Inventory.files
    bytes: NDArray[np.int64]
    records: NDArray[np.int64]
    keys: NDArray[np.int64]  # one number per (spec, partition), ascending; see `partition_of`
    texts: pa.StringArray  # the distinct partition texts, sorted

    def partition_of(self, key: int) -> tuple[int, str]:
        """Spec id and canonical partition text of a key."""
        spec_id, text = divmod(key, len(self.texts))
        return spec_id, self.texts[text].as_py()

    def outside(self, sizes: Sizes) -> NDArray[np.bool_]:
        """Which files are smaller than the minimum or larger than the maximum size."""
        return (self.bytes < sizes.min) | (self.bytes > sizes.max)

    def take(self, chosen: NDArray[Any]) -> DataFiles:
        """The files of a mask, or of positions in their order."""
        return DataFiles(
            rows=self.rows[chosen],
            bytes=self.bytes[chosen],
            records=self.records[chosen],
            keys=self.keys[chosen],
            texts=self.texts,
        )

    def in_reading_order(self, inventory: Inventory) -> DataFiles:
        """Neighbours side by side: files of one partition by sequence number, then as the manifests list them."""
        sequence = _numbers(inventory.files, "sequence_number")[self.rows]
        return self.take(np.lexsort((sequence, self.keys)))


def data_files(inventory: Inventory) -> tuple[DataFiles, NDArray[np.int64]]:
    """The selected data files in manifest order, and the sizes of those that `where` rules out."""
    files = inventory.files
    is_data = _numbers(files, "content") == table_model.DATA
    selected = is_data
    if inventory.selected is not None:
        selected = is_data & pc.fill_null(inventory.selected, False).to_numpy(zero_copy_only=False)
    size = _numbers(files, "file_size_in_bytes")
    rows = np.flatnonzero(selected)
    codes, texts = _partitions(files)
    keys = _numbers(files, "spec_id").astype(np.int64) * len(texts) + codes
    chosen = DataFiles(
        rows=rows, bytes=size[rows], records=_numbers(files, "record_count")[rows], keys=keys[rows], texts=texts
    )
    return chosen, size[is_data & ~selected]


def _numbers(files: pa.Table, name: str) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = files[name].to_numpy()
    return numbers


def _partitions(files: pa.Table) -> tuple[NDArray[np.int64], pa.StringArray]:
    """Partition texts as numbers that sort as the texts do, and the sorted texts."""
    if not files.num_rows:
        return np.zeros(0, np.int64), pa.array([], pa.string())
    column = files["partition"].unify_dictionaries().combine_chunks()
    # A dictionary may hold the same text twice; equal partitions must get equal numbers.
    distinct = column.dictionary.dictionary_encode()
    order = pc.array_sort_indices(distinct.dictionary).to_numpy().astype(np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    codes = rank[distinct.indices.to_numpy()][column.indices.to_numpy()]
    return codes, distinct.dictionary.take(pa.array(order))
