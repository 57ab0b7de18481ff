"""Results that were made elsewhere, compared with a plan. A group counts only if its results stand for each of its
files exactly once, and if every file that they name is there. Reads storage, changes nothing."""

from __future__ import annotations

from collections import defaultdict
from concurrent import futures
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.metadata import fetch
from iceberg_compaction.storage import passing_faults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO

    from iceberg_compaction.model.portable_task import PortableResult
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import StagedFile, TaskResult

_READERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The results of complete groups, and for the other groups the reason why they are not."""

    results: list[TaskResult] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)  # by group


def match(io: FileIO, plan: Plan, results: Sequence[PortableResult]) -> Matched:
    """ConfigError: a result is of another plan."""
    if strangers := sorted({result.plan_id for result in results} - {plan.id}):
        raise errors.ConfigError(f"These results are of the plan {strangers[0]}, and not of {plan.id}.")
    of_group: dict[int, list[PortableResult]] = defaultdict(list)
    for result in results:
        of_group[result.result.group_id].append(result)
    paths = plan.files["file_path"].to_pylist()
    missing = missing_files(io, [file for result in results for file in result.result.staged])
    matched = Matched()
    for row in plan.groups.columns.to_pylist():
        planned = set(paths[row["first"] : row["first"] + row["files"]])
        chosen = _distinct(of_group.get(row["id"], []))
        covered = [path for result in chosen for path in result.file_paths]
        absent = [file.file_path for result in chosen for file in result.result.staged if file.file_path in missing]
        if len(covered) != len(set(covered)) or not planned >= set(covered):
            matched.reasons[row["id"]] = "Its results name a file twice, or a file of another group."
        elif planned != set(covered):
            matched.reasons[row["id"]] = f"There are results for {len(covered)} of its {len(planned)} files."
        elif absent:
            matched.reasons[row["id"]] = f"The file {absent[0]} is missing, or is not as its result says."
        else:
            matched.results.extend(result.result for result in chosen)
    return matched


def _distinct(results: Sequence[PortableResult]) -> list[PortableResult]:
    """One result for each set of inputs: a scheduler may have performed a task twice."""
    return list({frozenset(result.file_paths): result for result in reversed(results)}.values())


def missing_files(io: FileIO, files: Sequence[StagedFile]) -> set[str]:
    """Paths of files that do not exist with the size that they should have."""
    if not files:
        return set()
    with futures.ThreadPoolExecutor(min(_READERS, len(files)), thread_name_prefix="results") as pool:
        there = pool.map(lambda file: _is_there(io, file), files)
        return {file.file_path for file, is_there in zip(files, there, strict=True) if not is_there}


def _is_there(io: FileIO, file: StagedFile) -> bool:
    with fetch.storage_errors(f"File {file.file_path}", io, file.file_path):
        try:
            return passing_faults.patiently(lambda: len(io.new_input(file.file_path))) == file.file_size_in_bytes
        except FileNotFoundError:
            return False
