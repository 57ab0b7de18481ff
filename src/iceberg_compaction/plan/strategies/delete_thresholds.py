"""Delete-heavy files: data files with so many deletes that these alone are a reason to rewrite them. Thresholds and the
view of a table come in, a mask over its files goes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model.policies import DEFAULT_DELETE_RATIO

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.table_view import TableView


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteThresholds:
    """A data file is delete-heavy from either threshold on."""

    files: int | None  # delete files that apply to it; None: their number does not count
    ratio: float  # share of its rows that are deleted


def of_policy(policy: Policy) -> DeleteThresholds:
    """The thresholds of the policy, else Iceberg's defaults."""
    ratio = policy.delete_ratio_threshold
    return DeleteThresholds(files=policy.delete_file_threshold, ratio=DEFAULT_DELETE_RATIO if ratio is None else ratio)


def delete_heavy(view: TableView, thresholds: DeleteThresholds) -> NDArray[np.bool_]:
    """The mask of delete-heavy files of the view."""
    if view.delete_files is None or view.deleted_rows is None:
        return np.zeros(view.files.num_rows, np.bool_)
    delete_files, deleted_rows = view.delete_files.to_numpy(), view.deleted_rows.to_numpy()
    records = view.files["record_count"].to_numpy()
    heavy: NDArray[np.bool_] = (delete_files > 0) & (deleted_rows >= thresholds.ratio * records)
    if thresholds.files is not None:
        heavy |= delete_files >= thresholds.files
    return heavy
