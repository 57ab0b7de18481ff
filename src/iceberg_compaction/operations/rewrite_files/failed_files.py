"""Puts files that earlier runs failed on last, so that a group which fails again, or ends the whole run, does not keep
other groups from being committed. The outcomes in the run store name the files; without a store nothing changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.rewrite_task import RewriteTask
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.record.runs import Run


def mark(view: TableView, run: Run) -> TableView:
    """The same view, with a rank for each file that runs failed on; the later the run, the higher the rank."""
    ranks = _ranks(view.table, run)
    if not ranks:
        return view
    positions = pc.index_in(view.files["file_path"], value_set=pa.array(ranks.keys(), pa.string()))
    values = pa.array(ranks.values(), pa.int64()).take(positions.combine_chunks())
    return replace(view, failed=pc.fill_null(values, 0))


def put_last(tasks: Sequence[RewriteTask], table: str, run: Run) -> list[RewriteTask]:
    """The same tasks; groups that runs failed on come last, and of these the latest failures at the very end."""
    ranks = _ranks(table, run)
    of_group: dict[int, int] = {}
    if ranks:
        for task in tasks:
            rank = max(ranks.get(path, 0) for path in task.file_paths)
            of_group[task.group_id] = max(rank, of_group.get(task.group_id, 0))
    return sorted(tasks, key=lambda task: of_group.get(task.group_id, 0))


def blamed(table: str, run: Run) -> set[str]:
    """Paths of files that made groups of the last runs on the table fail."""
    ends = (end for record in run.history(table) for end in record.outcome.group_outcomes)
    return {end.file_path for end in ends if end.file_path is not None}


def _ranks(table: str, run: Run) -> dict[str, int]:
    """Paths of files that the last runs on the table failed on; the later the run, the higher the rank."""
    ranks: dict[str, int] = {}
    records = run.history(table)
    for age, record in enumerate(records):
        for group in record.outcome.group_outcomes:
            for path in (group.file_path, group.first_file):
                if path is not None:
                    ranks.setdefault(path, len(records) - age)
    return ranks
