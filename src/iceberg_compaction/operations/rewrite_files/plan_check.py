"""Checks a plan from a file beyond the types of its fields, so that nonsense in it stops a run before any work. A plan
comes in; ValueError names the contradiction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from iceberg_compaction.model.rewrite_plan import PLAN_FILES

if TYPE_CHECKING:
    import pyarrow as pa

    from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan

# Columns of a group that are at most as large as another one.
_PARTS = {
    "small_files": "files",
    "large_files": "files",
    "untold_files": "files",
    "small_row_group_files": "files",
    "deleted_rows": "records",
    "copied_bytes": "bytes",
}


def check(plan: Plan | EmptyPlan) -> None:
    """Raises ValueError if the plan contradicts itself."""
    _check_files(plan.files)
    groups = plan.groups.columns
    if pc.count_distinct(groups["id"]).as_py() != len(groups):
        raise ValueError("two groups have the same id")
    if len(groups) and pc.min(groups["files"]).as_py() == 0:
        raise ValueError("a group has no files")
    for part, whole in _PARTS.items():
        if pc.any(pc.greater(groups[part], groups[whole])).as_py():
            raise ValueError(f"a group has more {part} than {whole}")
    _check_sections(plan)


def _check_files(files: pa.Table) -> None:
    for name in PLAN_FILES.names:
        if files[name].null_count:
            raise ValueError(f"files: {name} of a file is null")
    for name in PLAN_FILES.names[1:]:
        if files.num_rows and pc.min(files[name]).as_py() < 0:
            raise ValueError(f"files: {name} of a file is negative")
    if pc.count_distinct(files["file_path"]).as_py() != files.num_rows:
        raise ValueError("files: a file is listed twice")


def _check_sections(plan: Plan | EmptyPlan) -> None:
    """Partitions are JSON objects, and the sections of a group have as many files as the group."""
    for row in plan.groups.columns.select(["id", "files", "sections"]).to_pylist():
        if row["sections"] and sum(section["files"] for section in row["sections"]) != row["files"]:
            raise ValueError(f"the sections of group {row['id']} do not have its {row['files']} files")
    sections = plan.groups.sections()
    if sections.num_rows and np.max(sections["spec_id"].to_numpy()) >= 2**31:
        raise ValueError("the id of a partition spec is too large")
    for text in pc.unique(sections["partition"]).to_pylist():
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise ValueError(f"{text!r} is not a partition")
