"""What metadata knows about the order of rows: which files are sorted, and which range of the leading column each has.
Files and a request come in, columns about them go out. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from iceberg_compaction.model import row_order_terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.plan_request import PlanRequest

_NO_ORDER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadingRanges:
    """The least and the greatest value of the leading column in each file, as numbers of the same order."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    bounded: NDArray[np.bool_]  # both are known


def ranges(files: CandidateFiles, request: PlanRequest) -> LeadingRanges:
    """The ranges of files; none is known if the view has bounds of another column than the leading one."""
    measured = None if request.rows is None else request.rows.measured
    if measured is None or request.view.clustering_column != measured:
        nothing = np.zeros(len(files.rows), np.int64)
        return LeadingRanges(lower=nothing, upper=nothing, bounded=np.zeros(len(files.rows), np.bool_))
    lower, upper = (request.view.files[name] for name in ("cluster_lower", "cluster_upper"))
    bounded = (pc.and_(lower.is_valid(), upper.is_valid())).to_numpy()[files.rows]
    return LeadingRanges(
        lower=pc.fill_null(lower, 0).to_numpy()[files.rows],
        upper=pc.fill_null(upper, 0).to_numpy()[files.rows],
        bounded=bounded,
    )


def is_sorted(files: CandidateFiles, request: PlanRequest) -> NDArray[np.bool_]:
    """The mask of files whose rows are in the order of the outputs: their entry names a sort order of the table that
    begins with it, or the snapshot that added them says so. An order that the table does not have can only be told by
    snapshots; once they have expired, the files count as sorted, else every run would sort them again. Rows that move
    to another partition spec have no order there."""
    terms, shape = request.layout.sort_terms, request.view.shape
    key = row_order_terms.key(terms)
    orders = {} if shape is None else shape.sort_orders
    ids = [order_id for order_id, own in orders.items() if row_order_terms.key(own[: len(terms)]) == key]
    named = pc.fill_null(request.view.files["sort_order_id"], _NO_ORDER).to_numpy()[files.rows]
    is_stated, marked = _by_snapshots(files, request, key)
    ordered = np.isin(named, ids) | marked | (np.logical_not(is_stated) & (not ids))
    stays: NDArray[np.bool_] = files.packing_key == files.partition
    return ordered & stays


def _by_snapshots(files: CandidateFiles, request: PlanRequest, key: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The masks of files whose snapshot the table still has, and of those whose snapshot says that they are sorted."""
    commits = request.view.commits
    if commits is None or not commits.num_rows:
        return np.zeros(len(files.rows), np.bool_), np.zeros(len(files.rows), np.bool_)
    numbers = request.view.files["file_sequence_number"].to_numpy()[files.rows]
    known_numbers = commits["sequence_number"].to_numpy()
    sorting = pc.fill_null(pc.equal(commits["sorted_by"], key), False).to_numpy()
    return np.isin(numbers, known_numbers), np.isin(numbers, known_numbers[sorting])
