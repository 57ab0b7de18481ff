"""The job that lists folders of a table. Folders and what is known of their files come in; tasks that share them evenly
go out, each with folders of one root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.execute import engine_door
from iceberg_compaction.execute.prepare import shared_context
from iceberg_compaction.model import listing_task
from iceberg_compaction.model.rewrite_task import RewriteTask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.metadata.reach.known_paths import KnownPaths
    from iceberg_compaction.model.listing_task import FolderPart

TASKS_PER_CORE = 8  # folders differ in size


def prepare(
    table: Table, parts: Mapping[str, Sequence[FolderPart]], referenced: KnownPaths, run_id: str, cores: int
) -> engine_door.Job:
    """Tasks for the parts of each root."""
    measuring = shared_context.measuring_context(table, run_id, table.schema(), ())
    context = measuring.model_copy(update={"known_hashes": referenced.to_value()})
    total = sum(map(len, parts.values()))
    tasks: list[RewriteTask] = []
    for root, here in parts.items():
        count = max(1, min(len(here), cores * TASKS_PER_CORE * len(here) // max(1, total)))
        for number in range(count if here else 0):
            # Neighbours are often of one size, and those of one size should not all be in one task.
            folders = listing_task.FoldersToList(root=root, parts=tuple(here[number::count]))
            tasks.append(_task(len(tasks), folders))
    return engine_door.Job(tasks=tuple(tasks), context=context)


def _task(number: int, folders: listing_task.FoldersToList) -> RewriteTask:
    names = tuple(f"{folders.root}{part.below}" for part in folders.parts)
    return RewriteTask(
        id=number,
        group_id=number,
        spec_id=0,
        partition="",
        file_paths=names,
        file_sizes=(1,) * len(names),  # one is as much work as another, as far as anybody knows
        record_counts=(0,) * len(names),
        folders=folders,
    )
