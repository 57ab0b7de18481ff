"""The measures of every partition that triggers compare with thresholds, as arrays. A view of a table comes in; out go
columns with one item for each partition number. All files of a partition count, whatever a filter selects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from iceberg_compaction.model import table_view
from iceberg_compaction.plan import candidates
from iceberg_compaction.plan.triggers import decision_table

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Sizes
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.model.triggers import Triggers
    from iceberg_compaction.plan.candidates import PartitionNumbers

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMeasures:
    """Columns by partition number; a value that does not exist is NaN, which no trigger fires at."""

    numbering: PartitionNumbers
    partition: Ints  # number of the partition of each row of the view
    has_data: Mask
    columns: dict[str, Floats]  # by the names in `decision_table`
    rewritten_ms: Floats  # last rewrite; NaN: never
    fragment_ratio: Floats  # of the guide: equality and position delete files / data files
    small_ratio: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileColumns:
    """The files of a view as arrays."""

    partition: Ints
    bytes: Ints
    data: Mask
    equality: Mask
    vector: Mask
    partitions: int

    def count(self, mask: Mask) -> Floats:
        """The files of a mask in each partition."""
        return np.bincount(self.partition[mask], minlength=self.partitions).astype(np.float64)

    def most(self, mask: Mask, values: Floats) -> Floats:
        """The largest value of the files of a mask in each partition; NaN: there is none."""
        most = np.full(self.partitions, -np.inf)
        np.maximum.at(most, self.partition[mask], values[mask])
        return np.where(np.isinf(most), np.nan, most)


def measure(view: TableView, sizes: Sizes, triggers: Triggers) -> PartitionMeasures:
    """The measures of all partitions. `sizes`: Amoro's classes of files are parts of their target."""
    partition, numbering = candidates.partition_numbers(view.files)
    files = _file_columns(view, partition, len(numbering))
    data_files = files.count(files.data)
    has_data = data_files > 0
    some_files = np.maximum(data_files, 1)
    size = np.bincount(files.partition[files.data], weights=files.bytes[files.data], minlength=files.partitions)
    small = files.count(files.data & (files.bytes < decision_table.small_file_bytes(triggers)))
    columns = {
        "files": data_files,
        "mean_bytes": size / some_files,
        "delete_ratio": files.count(~files.data) / some_files,
        "small_files": small,
        "commits": _commits(view, files.partitions),
    }
    rewritten_ms = _rewritten_ms(view, files)
    columns |= _by_size_class(view, files, sizes, triggers)
    columns |= _since(view, columns, rewritten_ms)
    return PartitionMeasures(
        numbering=numbering,
        partition=partition,
        has_data=has_data,
        columns={name: np.where(has_data, column, np.nan) for name, column in columns.items()},
        rewritten_ms=rewritten_ms,
        fragment_ratio=files.count(~files.data & ~files.vector) / some_files,
        small_ratio=small / some_files,
    )


def _file_columns(view: TableView, partition: Ints, partitions: int) -> _FileColumns:
    content = view.files["content"].to_numpy()
    vector = np.zeros(len(content), np.bool_)
    if content.any():
        vector = pc.equal(view.files["file_format"].cast("string"), "PUFFIN").to_numpy()
    return _FileColumns(
        partition=partition,
        bytes=view.files["file_size_in_bytes"].to_numpy(),
        data=content == table_view.DATA,
        equality=content == table_view.EQUALITY_DELETES,
        vector=vector & (content != table_view.DATA),
        partitions=partitions,
    )


def _by_size_class(view: TableView, files: _FileColumns, sizes: Sizes, triggers: Triggers) -> dict[str, Floats]:
    """Amoro's measures. Fragments are at most target / fragment_size_divisor, undersized files at most
    min_target_size_ratio x target; the others have reached the target."""
    fragment = files.data & (files.bytes <= sizes.target // triggers.fragment_size_divisor)
    undersized = files.data & ~fragment & (files.bytes <= triggers.min_target_size_ratio * sizes.target)
    full_size = files.data & ~fragment & ~undersized
    equality = files.count(files.equality)
    total = np.bincount(files.partition[undersized], weights=files.bytes[undersized], minlength=files.partitions)
    columns = {
        "fragments": files.count(fragment) + equality,
        "undersized_targets": np.where(_two_fit(files, undersized, sizes.target), total / sizes.target, 0.0),
        "position_deletes": np.zeros(files.partitions),
        "duplicate_ratio": np.zeros(files.partitions),
        "_waits": (files.count(~files.data) > 0) | (files.count(fragment) > 1) | (files.count(undersized) > 1),
    }
    if view.delete_files is not None and view.deleted_rows is not None:
        # The view counts delete files of all kinds. Equality deletes reach files of their own partition, and those
        # without a partition reach all: at least the rest are position deletes.
        everywhere = equality[_unpartitioned(files, view)].sum()
        others = view.delete_files.to_numpy() - np.minimum(equality + everywhere, equality.sum())[files.partition]
        columns["position_deletes"] = files.most(full_size, np.maximum(others, 0.0))
        records = np.maximum(view.files["record_count"].to_numpy(), 1)
        columns["duplicate_ratio"] = files.most(files.data & ~fragment, view.deleted_rows.to_numpy() / records)
    return columns


def _unpartitioned(files: _FileColumns, view: TableView) -> Mask:
    """The mask of partition numbers that stand for a whole table."""
    mask = np.zeros(files.partitions, np.bool_)
    whole = pc.equal(view.files["partition"].cast("string"), "{}").to_numpy()
    mask[files.partition[whole]] = True
    return mask


def _two_fit(files: _FileColumns, mask: Mask, target: int) -> Mask:
    """Whether the two smallest files of a mask fit into one target, in each partition."""
    rows = np.flatnonzero(mask)
    rows = rows[np.lexsort((files.bytes[rows], files.partition[rows]))]
    partition, size = files.partition[rows], files.bytes[rows]
    starts = np.flatnonzero(np.append(True, partition[1:] != partition[:-1])[: len(rows)])
    pairs = starts[(starts + 1 < len(rows)) & (partition[np.minimum(starts + 1, len(rows) - 1)] == partition[starts])]
    fit = np.zeros(files.partitions, np.bool_)
    fit[partition[pairs]] = size[pairs] + size[pairs + 1] <= target
    return fit


def _rewritten_ms(view: TableView, files: _FileColumns) -> Floats:
    """The last rewrite of each partition; NaN: never."""
    past = view.past
    if past is None:
        return np.full(files.partitions, np.nan)
    if past.partition_ms is None:
        return np.full(files.partitions, np.nan if past.table_ms is None else float(past.table_ms))
    moments: pa.Int64Array = past.partition_ms
    has_one = moments.is_valid().to_numpy(zero_copy_only=False)
    return files.most(has_one, pc.fill_null(moments, 0).to_numpy().astype(np.float64))


def _since(view: TableView, columns: dict[str, Floats], rewritten_ms: Floats) -> dict[str, Floats]:
    """Seconds since the last rewrite, for all partitions, and for those with something that waits for one."""
    now_ms = 0 if view.past is None else view.past.now_ms
    since = np.where(np.isnan(rewritten_ms), np.inf, (now_ms - rewritten_ms) / 1000)
    waits = columns.pop("_waits").astype(np.bool_)
    return {
        "since_rewrite": since,
        "since_rewrite_of_fragments": np.where(columns["fragments"] > 1, since, np.nan),
        "since_rewrite_of_work": np.where(waits, since, np.nan),
    }


def _commits(view: TableView, partitions: int) -> Floats:
    commits = None if view.past is None else view.past.commits
    return np.full(partitions, np.nan if commits is None else float(commits))
