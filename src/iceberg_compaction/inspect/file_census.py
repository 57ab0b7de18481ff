"""The columns that health is made of, as arrays numbered by partition, so that every figure is arithmetic over whole
columns. The view of a table comes in; its data files and its delete files go out. Nothing is sorted, and no column of a
million files is copied without need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.table_view import TableView

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionKeys:
    """Partitions as numbers 0, 1, ..., each a spec and a partition text. A partition may hold no file."""

    texts: pa.StringArray  # all different
    pairs: Ints  # spec id x number of texts + number of the text

    def __len__(self) -> int:
        return len(self.pairs)

    def key(self, partition: int) -> tuple[int, str]:
        """Spec id and canonical partition text."""
        spec_id, text = divmod(int(self.pairs[partition]), len(self.texts))
        return spec_id, self.texts[text].as_py()

    def specs(self) -> Ints:
        """The spec id of every partition."""
        return self.pairs // max(1, len(self.texts))

    def texts_of(self, partitions: Ints) -> pa.StringArray:
        """The texts of these partitions."""
        return self.texts.take(pa.array(self.pairs[partitions] % max(1, len(self.texts))))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteColumns:
    """Delete files of one kind. The arrays run in parallel."""

    bytes: Ints
    records: Ints  # that they delete; 0 for a file that applies to nothing
    partition: Ints  # number of the partition

    def __len__(self) -> int:
        return len(self.bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """A table's files, divided as health needs them."""

    files: pa.Table
    is_data: Mask | None  # the rows that are data files; None: all
    sizes: Ints  # of data files
    partition: NDArray[Any]  # number of the partition of each data file
    records: int  # of all data files
    partition_keys: PartitionKeys
    position: DeleteColumns
    equality: DeleteColumns
    vectors: DeleteColumns

    @property
    def deletes(self) -> tuple[DeleteColumns, DeleteColumns, DeleteColumns]:
        """Delete files of all kinds."""
        return self.position, self.equality, self.vectors

    def data(self, name: str) -> NDArray[Any]:
        """A column without nulls, of the data files."""
        column: NDArray[Any] = self.files[name].to_numpy()
        return column if self.is_data is None else column[self.is_data]


def take(view: TableView) -> Census:
    """The census of all files of the view, whatever a `where` selects."""
    files = view.files
    partition, partition_keys = _partitions(files)
    content = files["content"].to_numpy()
    kinds = _delete_kinds(files, content)
    is_data = content == table_view.DATA if kinds else None
    sizes, records = files["file_size_in_bytes"].to_numpy(), files["record_count"]
    nothing: Ints = np.zeros(0, np.int64)
    no_deletes = DeleteColumns(bytes=nothing, records=nothing, partition=nothing)

    def deletes(kind: str) -> DeleteColumns:
        rows = kinds.get(kind)
        if rows is None:
            return no_deletes
        deleted = records.take(pa.array(rows)).to_numpy()
        if view.dangling is not None:
            deleted = np.where(view.dangling.take(pa.array(rows)).to_numpy(zero_copy_only=False), 0, deleted)
        return DeleteColumns(bytes=sizes[rows], records=deleted, partition=partition[rows])

    return Census(
        files=files,
        is_data=is_data,
        sizes=sizes if is_data is None else sizes[is_data],
        partition=partition if is_data is None else partition[is_data],
        records=pc.sum(records if is_data is None else records.filter(pa.array(is_data))).as_py() or 0,
        partition_keys=partition_keys,
        position=deletes("position"),
        equality=deletes("equality"),
        vectors=deletes("vector"),
    )


def _delete_kinds(files: pa.Table, content: NDArray[Any]) -> dict[str, Ints]:
    """Row numbers of the delete files by kind; empty if there are none, which is the common case."""
    rows = np.flatnonzero(content)
    if not len(rows):
        return {}
    puffin = pc.equal(files["file_format"].take(pa.array(rows)).cast(pa.string()), "PUFFIN").to_numpy()
    equality = content[rows] == table_view.EQUALITY_DELETES
    return {
        "equality": rows[equality],
        "vector": rows[~equality & puffin],
        "position": rows[~equality & ~puffin],
    }


def _partitions(files: pa.Table) -> tuple[NDArray[Any], PartitionKeys]:
    """The partition number of every file, and the keys behind the numbers."""
    if not files.num_rows:
        return np.zeros(0, np.int64), PartitionKeys(texts=pa.array([], pa.string()), pairs=np.zeros(0, np.int64))
    column = files["partition"]
    column = column.chunk(0) if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()
    codes: NDArray[Any] = column.indices.to_numpy()
    # A dictionary may hold the same text twice; equal partitions must get equal numbers.
    distinct = column.dictionary.dictionary_encode()
    if len(distinct.dictionary) < len(column.dictionary):
        codes = distinct.indices.to_numpy()[codes]
    texts = distinct.dictionary
    specs = pc.min_max(files["spec_id"])
    first, last = specs["min"].as_py(), specs["max"].as_py()
    if first == last:
        return codes, PartitionKeys(texts=texts, pairs=first * len(texts) + np.arange(len(texts)))
    pairs = files["spec_id"].to_numpy() * np.int64(len(texts)) + codes
    used = np.zeros((last + 1) * len(texts), np.bool_)
    used[pairs] = True
    return (np.cumsum(used) - 1)[pairs], PartitionKeys(texts=texts, pairs=np.flatnonzero(used))
