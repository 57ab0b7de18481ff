"""A writer made of arithmetic: performs a plan on an inventory and says which files there would be afterwards. It rolls
as the worker does, learns the compression ratio as it goes, and every input file deviates from that ratio a little."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from tests.factories import inventories

from iceberg_compaction.execute import tasks as rewrite_tasks
from iceberg_compaction.model import sizing

if TYPE_CHECKING:
    from iceberg_compaction.model.plan import Plan
    from iceberg_compaction.model.policy import Sizes
    from iceberg_compaction.model.table import Inventory
    from iceberg_compaction.model.task import RewriteTask

PIECES = 64  # a writer notices that a file is full within a 64th of the target


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """How the bytes behave when they are written anew."""

    ratio: float = 1.0  # output bytes / input bytes
    noise: float = 0.05  # by how much a single input file deviates from that
    seed: int = 0
    asks_again: bool = True  # whether the writer asks for the roll size as a file grows, or only when it begins


def write(task: RewriteTask, sizes: Sizes, data: Data) -> list[int]:
    """The sizes of a task's output files."""
    dice = random.Random(data.seed * 1_000_003 + task.id)
    done: list[int] = []
    consumed = written = current = 0.0
    roll = sizing.roll_size(task.bytes, sizes)
    for size in task.file_sizes:
        factor = data.ratio * (1 + dice.uniform(-data.noise, data.noise))
        pieces = max(1, size * PIECES // sizes.target)
        for _ in range(pieces):
            if current >= roll:
                done.append(int(current))
                current = 0.0
            consumed += size / pieces
            written += size / pieces * factor
            current += size / pieces * factor
            if data.asks_again or current == size / pieces * factor:
                to_come = (task.bytes - consumed) * written / consumed
                roll = sizing.roll_size(int(current + to_come), sizes)
    return [*done, max(1, int(current))]


def perform(plan: Plan, inventory: Inventory, data: Data) -> Inventory:
    """The inventory after the plan's commit."""
    kept = inventory.files.filter(pc.invert(pc.is_in(inventory.files["file_path"], plan.files["file_path"])))
    added = []
    for task in rewrite_tasks.build_tasks(plan):
        outputs = write(task, plan.sizes, data)
        rows = inventories.files(
            outputs,
            partitions=task.partition,
            specs=task.spec_id,
            sequence=[inventories.PIN.sequence_number] * len(outputs),
            prefix=f"out-{task.id}",
        )
        added.append(rows)
    return replace(inventory, files=pa.concat_tables([kept, *added]))
