"""What a table looks like and whether it is sick, from metadata alone: an inventory and the plan of a default run come
in, `TableHealth` goes out. docs/health.md states the score's formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.inspect import advice, histogram, score
from iceberg_compaction.model import table as table_model

if TYPE_CHECKING:
    from iceberg_compaction.model.plan import Plan
    from iceberg_compaction.model.policy import Sizes
    from iceberg_compaction.model.table import Inventory

WORST = 10


def assess(inventory: Inventory, plan: Plan) -> table_model.TableHealth:
    """Health of a table. `plan` is what would be done about it; an empty plan means that nothing would."""
    is_data = pc.equal(inventory.files["content"], table_model.DATA)
    data = inventory.files.filter(is_data)
    size = data["file_size_in_bytes"].to_numpy()
    partitions = _partitions(data, plan.sizes)
    total, small = int(size.sum()), int((size < plan.sizes.min).sum())
    figures = score.Figures(
        data_files=len(size),
        delete_files=inventory.files.num_rows - len(size),
        lone_small_files=int(np.count_nonzero(partitions["small"].to_numpy())),
        small_files=small,
        large_files=int((size > plan.sizes.max).sum()),
        manifests=inventory.manifests,
    )
    mean = total // len(size) if len(size) else 0
    return table_model.TableHealth(
        table=inventory.table,
        snapshot_id=inventory.pin.snapshot_id if inventory.pin else None,
        data_files=figures.data_files,
        delete_files=figures.delete_files,
        records=pc.sum(data["record_count"]).as_py() or 0,
        bytes=total,
        mean_file_bytes=mean,
        target_file_bytes=plan.sizes.target,
        small_files=small,
        small_ratio=round(small / len(size), 4) if len(size) else 0.0,
        large_files=figures.large_files,
        partitions=partitions.num_rows,
        manifests=inventory.manifests,
        snapshots=inventory.snapshots,
        histogram=histogram.histogram(size, plan.sizes),
        worst_partitions=_worst(partitions),
        score=score.score(figures, sick=not plan.empty, supported=not inventory.unsupported),
        sick=not plan.empty,
        advice=advice.advice(inventory, plan, figures, mean),
        unsupported=inventory.unsupported,
    )


def _partitions(data: pa.Table, sizes: Sizes) -> pa.Table:
    """One row per spec and partition: files, bytes, small and large files."""
    size = data["file_size_in_bytes"]
    columns = {
        "spec_id": data["spec_id"],
        "partition": data["partition"].unify_dictionaries(),
        "bytes": size,
        "small": pc.less(size, sizes.min).cast(pa.int64()),
        "large": pc.greater(size, sizes.max).cast(pa.int64()),
    }
    grouped = pa.table(columns).group_by(["spec_id", "partition"], use_threads=False)
    sums = grouped.aggregate([([], "count_all"), ("bytes", "sum"), ("small", "sum"), ("large", "sum")])
    return sums.rename_columns(["spec_id", "partition", "files", "bytes", "small", "large"])


def _worst(partitions: pa.Table) -> tuple[table_model.PartitionHealth, ...]:
    """The partitions with the most small files; equal ones in a fixed order, so that reports can be compared."""
    sick = partitions.filter(pc.greater(partitions["small"], 1))
    plain = sick.set_column(1, "partition", sick["partition"].cast(pa.string()))
    order = pc.sort_indices(
        plain, sort_keys=[("small", "descending"), ("spec_id", "ascending"), ("partition", "ascending")]
    )
    return tuple(
        table_model.PartitionHealth(
            spec_id=row["spec_id"],
            partition=row["partition"],
            files=row["files"],
            bytes=row["bytes"],
            small_files=row["small"],
            large_files=row["large"],
        )
        for row in plain.take(order[:WORST]).to_pylist()
    )
