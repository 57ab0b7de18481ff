"""The cost of deletes for readers: counts and ratios from a census, and the number of delete files that apply to a data
file, if it was counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.model.table_health import DeleteHealth

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from iceberg_compaction.inspect.file_census import Census


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedCounts:
    """Counts of the delete index."""

    per_data_file: NDArray[np.int64]  # delete files that apply to each data file
    dangling: int  # delete files that apply to none


def deletes(census: Census, applied: AppliedCounts | None) -> DeleteHealth:
    """Figures of all delete files; those that need `applied` are None without it."""
    position, equality, vectors = census.deletes
    if not any(len(part) for part in census.deletes):
        return DeleteHealth(per_data_file_mean=0.0, per_data_file_max=0, dangling_files=0)
    rows = {"position": int(position.records.sum()), "vector": int(vectors.records.sum())}
    keys, records = int(equality.records.sum()), census.records
    health = DeleteHealth(
        position_files=len(position),
        position_rows=rows["position"],
        equality_files=len(equality),
        equality_rows=keys,
        vectors=len(vectors),
        vector_rows=rows["vector"],
        bytes=sum(int(part.bytes.sum()) for part in (position, equality, vectors)),
        file_ratio=ratio(len(position) + len(equality) + len(vectors), len(census.sizes)),
        fragment_ratio=ratio(len(position) + len(equality), len(census.sizes)),
        deleted_row_ratio=min(1.0, ratio(rows["position"] + rows["vector"], records)),
        equality_row_ratio=ratio(keys, records),
    )
    if applied is None:
        return health
    counts = applied.per_data_file
    return health.model_copy(
        update={
            "per_data_file_mean": round(float(counts.mean()), 4) if len(counts) else 0.0,
            "per_data_file_max": int(counts.max()) if len(counts) else 0,
            "dangling_files": applied.dangling,
        }
    )


def ratio(part: int, whole: int) -> float:
    """A ratio for people: four digits, and the part itself if the whole is 0."""
    return round(part / max(1, whole), 4)
