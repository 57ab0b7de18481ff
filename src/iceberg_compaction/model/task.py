"""What travels to a worker and back. A task is a slice of one group; what all tasks of a run share is the context,
which travels once beside the code so that credentials never become rows that an engine's pages would show."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from iceberg_compaction.model.policy import ProofLevel, Sizes
from iceberg_compaction.model.proof import Proof
from iceberg_compaction.model.value import Value


class RewriteTask(Value):
    """Input files of one partition and spec to be written anew. The three file columns run in parallel."""

    id: int
    group_id: int
    spec_id: int
    partition: str  # canonical JSON, see model.table.FILES
    file_paths: tuple[str, ...]
    file_sizes: tuple[int, ...]
    record_counts: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return sum(self.file_sizes)


class RewriteContext(Value):
    """What every task of a run needs to know."""

    run_id: str
    table: str
    table_location: str
    table_schema: str  # the table schema to write, Iceberg JSON
    partition_specs: dict[int, str]  # the partition specs of the tasks, by id, Iceberg JSON
    properties: dict[str, str]  # table properties: write.*, schema.name-mapping.default
    sizes: Sizes
    verify: ProofLevel
    io_properties: Annotated[dict[str, str], Field(repr=False)] = {}  # FileIO only, never the catalog's


class StagedFile(Value):
    """A data file that is written but not yet part of the table, with all that its manifest entry needs."""

    file_path: str
    file_size_in_bytes: int
    record_count: int
    spec_id: int
    partition: str
    column_sizes: dict[int, int] = {}
    value_counts: dict[int, int] = {}
    null_value_counts: dict[int, int] = {}
    nan_value_counts: dict[int, int] = {}
    lower_bounds: dict[int, bytes] = {}
    upper_bounds: dict[int, bytes] = {}
    split_offsets: tuple[int, ...] = ()
    sort_order_id: int | None = None


class TaskResult(Value):
    """What one task did, with its proof."""

    task_id: int
    group_id: int
    staged: tuple[StagedFile, ...]
    proof: Proof
    bytes_read: int
    bytes_written: int
    seconds: float
