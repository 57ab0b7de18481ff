"""Leaves files alone that lie in cold tiers of their store. Rules of a bucket move objects by their age, so two files
of each folder tell whether to list it: the oldest, and the largest, as rules may spare small ones. That is a few
requests for a plan, and none for files of the last day. A task that still meets a cold file says so, and its group is
planned again without the file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.model import partition_key
from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
from iceberg_compaction.storage.s3 import cold_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np
    import numpy.typing as npt
    from pyiceberg.table import Table

    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.table_view import TableView

Build: TypeAlias = "Callable[[TableView], Plan | EmptyPlan]"
_DAY_MS = 24 * 3600 * 1000  # S3 moves nothing before the midnight after it was written
_MOST_FOLDERS = 256  # those with the oldest files; a request or two for each
_MOST_PLANS = 4  # without the cold files of the plan before


def build_warm(table: Table, view: TableView, policy: Policy, now_ms: int, build: Build) -> Plan | EmptyPlan:
    """The plan that `build` makes of the view, without cold files, unless the policy wants them."""
    plan = build(view)
    if policy.rewrite_cold_tiers or not cold_objects.can_tell(table.io, table.location()):
        return plan
    looks = _Looks(table=table, young_from=_young_from(table, now_ms))
    for _ in range(_MOST_PLANS):
        if isinstance(plan, EmptyPlan) or not looks.look(_files_of(plan, view)):
            return plan
        is_cold = pc.is_in(view.files["file_path"], value_set=pa.array(sorted(looks.cold), pa.string()))
        plan = build(replace(view, cold=is_cold.combine_chunks()))
    return plan


def cold_among(table: Table, files: pa.Table, now_ms: int) -> frozenset[str]:
    """The paths of these files (model.table_view.FILES), and of others beside them, that are in cold tiers."""
    if not files.num_rows or not cold_objects.can_tell(table.io, table.location()):
        return frozenset()
    looks = _Looks(table=table, young_from=_young_from(table, now_ms))
    looks.look(files)
    return frozenset(looks.cold)


@dataclass(slots=True, kw_only=True)
class _Looks:
    """What is known of the files of a table."""

    table: Table
    young_from: int  # file sequence number
    seen: set[str] = field(default_factory=set)  # folders
    cold: set[str] = field(default_factory=set)  # paths

    def look(self, files: pa.Table) -> bool:
        """Look at folders of the files that are new. Whether any of the files turns out to be cold."""
        paths = files["file_path"]
        numbers = files["file_sequence_number"].to_numpy()
        sizes = files["file_size_in_bytes"].to_numpy()
        samples = _samples(paths.to_pylist(), numbers, sizes, numbers < self.young_from)
        new = {folder: pair for folder, pair in samples.items() if folder not in self.seen}
        chosen = [(folder, path) for folder, pair in list(new.items())[:_MOST_FOLDERS] for path in sorted(set(pair))]
        answers = cold_objects.of_samples(self.table.io, [path for _, path in chosen])
        self.seen.update(new)
        for folder in sorted({folder for (folder, _), is_cold in zip(chosen, answers, strict=True) if is_cold}):
            self.cold |= cold_objects.in_folder(self.table.io, folder)
        self.cold |= {path for (_, path), is_cold in zip(chosen, answers, strict=True) if is_cold}
        return bool(pc.any(pc.is_in(paths, value_set=pa.array(sorted(self.cold), pa.string()))).as_py())


def _files_of(plan: Plan, view: TableView) -> pa.Table:
    """The files that the plan would read: those of its groups, and those of partitions whose delete files others
    replace, because conversion looks up keys in data files."""
    exchanged = partition_key.lie_in(view.files, {each.key for each in plan.exchanges})
    of_groups = pc.is_in(view.files["file_path"], value_set=plan.files["file_path"].combine_chunks())
    return view.files.filter(pc.or_(of_groups, pa.array(exchanged)))


def _samples(
    paths: Iterable[str], numbers: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], old: npt.NDArray[np.bool_]
) -> dict[str, tuple[str, str]]:
    """The oldest and the largest file of each folder that has old ones; the folders with the oldest come first."""
    best: dict[str, tuple[tuple[int, str], tuple[int, str]]] = {}
    for path, number, size, is_old in zip(paths, numbers.tolist(), sizes.tolist(), old.tolist(), strict=True):
        if not is_old:
            continue
        folder = path.rpartition("/")[0]
        oldest, largest = best.get(folder, ((number, path), (-size, path)))
        best[folder] = (min(oldest, (number, path)), min(largest, (-size, path)))
    ordered = sorted(best.items(), key=lambda item: (item[1][0], item[0]))
    return {folder: (oldest[1], largest[1]) for folder, (oldest, largest) in ordered}


def _young_from(table: Table, now_ms: int) -> int:
    """The file sequence number from which on files are of the last day. In the first version of the format all have
    the same, so that none counts as young."""
    if table.metadata.format_version == 1:
        return 1
    recent = [each.sequence_number or 0 for each in table.metadata.snapshots if each.timestamp_ms > now_ms - _DAY_MS]
    return min(recent, default=table.metadata.last_sequence_number + 1)
