"""What deletes cost readers: counts and ratios from a census, and how many delete files a data file meets, if the
delete index was asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.model.table_health import DeleteHealth

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from iceberg_compaction.inspect.file_census import Census


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What the delete index knows: which deletes meet which data."""

    per_data_file: NDArray[np.int64]  # delete files that apply to each data file
    dangling: int  # delete files that apply to none


def deletes(census: Census, applied: Applied | None) -> DeleteHealth:
    """Figures of all delete files; those of `applied` stay unknown without it."""
    position, equality, vectors = census.deletes
    if not any(len(part) for part in census.deletes):
        return DeleteHealth(per_data_file_mean=0.0, per_data_file_max=0, dangling_files=0)
    rows = {"position": int(position.records.sum()), "vector": int(vectors.records.sum())}
    keys, records = int(equality.records.sum()), census.records
    found = DeleteHealth(
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
        return found
    met = applied.per_data_file
    return found.model_copy(
        update={
            "per_data_file_mean": round(float(met.mean()), 4) if len(met) else 0.0,
            "per_data_file_max": int(met.max()) if len(met) else 0,
            "dangling_files": applied.dangling,
        }
    )


def ratio(part: int, whole: int) -> float:
    """A ratio for people: four digits, and the part itself where the whole is nothing."""
    return round(part / max(1, whole), 4)
