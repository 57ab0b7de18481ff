"""One task from delete files to staged position deletes with a proof: every row that the deletes take is named by what
was written, or by a delete file that stays, and no other row is."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from iceberg_compaction import errors
from iceberg_compaction.execute.worker.output import locations
from iceberg_compaction.execute.worker.position_deletes import find_positions, write_positions
from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.model import proof

if TYPE_CHECKING:
    from iceberg_compaction.execute.worker import budgets
    from iceberg_compaction.execute.worker.memory import memory_budget
    from iceberg_compaction.model import rewrite_task


def write(
    task: rewrite_task.RewriteTask,
    context: rewrite_task.RewriteContext,
    attempt: str,
    limits: budgets.Budgets,
    reservation: memory_budget.Reservation,
) -> tuple[proof.Proof, tuple[rewrite_task.StagedFile, ...]]:
    """Finds, writes and compares. If this raises, no file stays behind but those that the error names."""
    assert context.position_deletes is not None
    taken = find_positions.find(task, context, limits, reservation)
    spec = PartitionSpec.model_validate_json(context.partition_specs[task.spec_id])
    path = partition_tuples.path(task.partition, spec, Schema.model_validate_json(context.table_schema))
    output = locations.output_locations(task, context, attempt, path)
    writer = write_positions.PositionWriter(
        task=task,
        taken=taken,
        output=dataclasses.replace(output, names=dataclasses.replace(output.names, deletes=True)),
        granularity=context.position_deletes,
        properties=context.properties,
    )
    try:
        writer.write()
        expected = sum(taken.count(number) for number in range(len(task.file_paths)))
        written = proof.Side(rows=sum(file.record_count for file in writer.staged))
        proved = proof.Proof(
            level=context.verify,
            expected_rows=expected,
            source=proof.Side(rows=expected),
            sink=written,
            footers=proof.Side(rows=writer.read_back()),
        )
        if proved.failures:
            raise errors.ProofError(f"{proved.sentence} Task {task.id} was undone.")
    except BaseException as error:
        left = writer.abort()
        if left and isinstance(error, Exception):
            failed = errors.ExecuteError(f"{error} These files could not be removed: {', '.join(left)}.")
            failed.left = left
            raise failed from error
        raise
    return proved, tuple(writer.staged)
