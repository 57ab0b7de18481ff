"""The health and the write pattern of every partition, as columns: what `adaptive` decides by. Candidate files and the
view of the table come in; figures for each packing key go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import table_view
from iceberg_compaction.plan import candidates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.plan_request import PlanRequest

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One item for each packing key. Files that are not free for this run do not count."""

    files: Ints
    bytes: Ints
    small: Ints  # files below the minimum
    small_bytes: Ints
    deleted_in: Ints  # files that a delete applies to
    small_undeleted: Ints  # small files without deletes
    failed: NDArray[np.bool_]  # a run failed at one of its files
    quiet_days: Floats  # since somebody wrote to it, rewrites aside; NaN: unknown
    build_up_days: Floats  # in which its deletes have gathered, on average by bytes; NaN: unknown, or there are none


def measure(files: CandidateFiles, request: PlanRequest) -> PartitionState:
    view, keys, count = request.view, files.packing_key, len(files.numbering)
    small = files.bytes < request.sizes.min
    deletes = np.zeros(len(keys), np.bool_)
    if view.delete_files is not None:
        deletes = view.delete_files.to_numpy()[files.rows] > 0
    failed = np.zeros(count, np.bool_)
    if view.failed is not None:
        failed[keys[view.failed.to_numpy()[files.rows] > 0]] = True
    ages = file_ages(view, request.now_ms)
    return PartitionState(
        files=np.bincount(keys, minlength=count),
        bytes=_sums(keys, files.bytes, count),
        small=np.bincount(keys[small], minlength=count),
        small_bytes=_sums(keys[small], files.bytes[small], count),
        deleted_in=np.bincount(keys[deletes], minlength=count),
        small_undeleted=np.bincount(keys[small & ~deletes], minlength=count),
        failed=failed,
        quiet_days=_quiet_days(files, view, ages),
        build_up_days=_mean(keys[deletes], ages[files.rows][deletes], files.bytes[deletes], count),
    )


def file_ages(view: TableView, now_ms: int) -> Floats:
    """The days since each file of the view was added; at least so many, where its commit is forgotten. NaN: unknown."""
    commits = view.commits
    if commits is None or not commits.num_rows or not now_ms:
        return np.full(view.files.num_rows, np.nan)
    numbers = view.files["file_sequence_number"].to_numpy()
    at = np.searchsorted(commits["sequence_number"].to_numpy(), numbers)
    times = commits["timestamp_ms"].to_numpy()[np.minimum(at, commits.num_rows - 1)]
    ages: Floats = np.maximum(now_ms - times, 0) / _DAY_MS
    return ages


def _quiet_days(files: CandidateFiles, view: TableView, ages: Floats) -> Floats:
    """The age of the newest file of each partition that a writer added, not a rewrite; delete files count, too. A
    partition of rewritten files alone has been quiet for at least as long as the oldest of them exists."""
    count = len(files.numbering)
    rewritten = np.zeros(len(ages), np.bool_)
    if view.commits is not None:
        rewrites = view.commits["rewrites"].to_numpy(zero_copy_only=False)
        ours = view.commits["sequence_number"].to_numpy()[rewrites]
        numbers = view.files["file_sequence_number"].to_numpy()
        rewritten = np.isin(numbers, ours) & (view.files["content"].to_numpy() == table_view.DATA)
    newest = np.full(count, np.nan)
    mine = ages[files.rows]
    written = ~rewritten[files.rows]
    np.fmin.at(newest, files.packing_key[written], mine[written])
    oldest = np.full(count, np.nan)
    np.fmax.at(oldest, files.packing_key, mine)
    deletes = _delete_ages(files, view, ages)
    return np.fmin(np.where(np.isnan(newest), oldest, newest), deletes)


def _delete_ages(files: CandidateFiles, view: TableView, ages: Floats) -> Floats:
    """The age of the newest delete file in each partition of the files; NaN: there is none."""
    newest = np.full(len(files.numbering), np.nan)
    content = view.files["content"].to_numpy()
    rows = np.flatnonzero(content != table_view.DATA)
    if not len(rows):
        return newest
    numbers, _ = candidates.partition_numbers(view.files)  # of delete files, too, as the data files have them
    np.fmin.at(newest, numbers[rows], ages[rows])
    return newest


def _sums(keys: Ints, values: Ints, count: int) -> Ints:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, keys, values)
    return sums


def _mean(keys: Ints, values: Floats, weights: Ints, count: int) -> Floats:
    total = np.bincount(keys, weights=values * weights, minlength=count)
    weight = np.bincount(keys, weights=weights, minlength=count)
    mean: Floats = np.where(weight > 0, total / np.maximum(weight, 1), np.nan)
    return mean
