"""A plan as a value: which files become which, and why; pinned to a snapshot. `plan` prints it, `run` performs it, and
it goes to JSON and back unchanged. Files are Arrow columns in group order, so a group is a slice of them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, PlainSerializer, model_validator

from iceberg_compaction.model.policy import Policy, Sizes
from iceberg_compaction.model.table import Pin
from iceberg_compaction.model.value import Value

if TYPE_CHECKING:
    from typing_extensions import Self

FORMAT = 1

# The input files of all groups, in group order and within a group in reading order.
PLAN_FILES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False),
        pa.field("file_size_in_bytes", pa.int64(), nullable=False),
        pa.field("record_count", pa.int64(), nullable=False),
    ]
)


def _to_table(value: Any) -> pa.Table:
    return value if isinstance(value, pa.Table) else pa.table(value, schema=PLAN_FILES)


PlanFiles = Annotated[
    pa.Table, BeforeValidator(_to_table), PlainSerializer(lambda table: table.to_pydict(), when_used="json")
]


class Reason(str, Enum):
    """Why a group is rewritten. Closed set."""

    SMALL_FILES = "small-files"  # enough files below the minimum size
    LARGE_FILES = "large-files"  # a file above the maximum size is split
    NOT_OPTIMAL = "not-optimal"  # `full`: the partition would fit into fewer files
    REWRITE_ALL = "rewrite-all"  # asked for, whatever the sizes


class LeftOutReason(str, Enum):
    """Why files were left alone. Closed set."""

    WELL_SIZED = "well-sized"
    TOO_FEW_FILES = "too-few-files"  # fewer than min-input-files, and not more than one target's worth
    NO_GAIN = "no-gain"  # as many files would come out as go in
    NOT_SELECTED = "not-selected"  # `where` rules them out
    OVER_BUDGET = "over-budget"  # max-files-to-rewrite was reached
    NO_DATA = "no-data"  # the table has no files at all
    UNSUPPORTED = "unsupported"  # the table must not be rewritten


class FileGroup(Value):
    """Files of one partition and spec that are rewritten together."""

    id: int
    spec_id: int
    partition: str  # canonical JSON of the partition tuple, see model.table.FILES
    first: int  # the group's files are rows first … first+files of Plan.files
    files: int
    bytes: int
    records: int
    outputs: int  # expected output files
    reason: Reason
    sentence: str


class LeftOut(Value):
    """Files that the plan does not touch, by reason."""

    reason: LeftOutReason
    files: int
    bytes: int
    sentence: str


class Plan(Value):
    """What will be done to one table, and why."""

    format: int = FORMAT
    id: str
    table: str
    created_ms: int
    pin: Pin | None
    policy: Policy
    sizes: Sizes
    groups: tuple[FileGroup, ...]
    left_out: tuple[LeftOut, ...]
    files: PlanFiles

    @model_validator(mode="after")
    def _groups_tile_files(self) -> Self:
        """Groups are slices of `files`, one after the other; a plan that was edited or damaged is refused."""
        first = 0
        for group in self.groups:
            if group.first != first:
                raise ValueError(f"group {group.id} begins at file {group.first}, but {first} files come before it")
            first += group.files
        sums = (self.files.num_rows, *(pc.sum(self.files[name]).as_py() or 0 for name in PLAN_FILES.names[1:]))
        told = (first, self.input_bytes, sum(group.records for group in self.groups))
        if told != sums:
            raise ValueError(f"the groups hold {told} files, bytes and records, but the plan lists {sums}")
        return self

    @property
    def empty(self) -> bool:
        return not self.groups

    @property
    def input_files(self) -> int:
        return sum(group.files for group in self.groups)

    @property
    def input_bytes(self) -> int:
        return sum(group.bytes for group in self.groups)

    @property
    def output_files(self) -> int:
        return sum(group.outputs for group in self.groups)

    @property
    def sentence(self) -> str:
        """The plan in one sentence, empty or not."""
        if self.empty:
            why = "; ".join(left.sentence for left in self.left_out) or "The table has no data files"
            return f"Nothing to do: {why[0].lower() + why[1:]}."
        files = "1 file" if self.input_files == 1 else f"{self.input_files} files"
        groups = "1 group" if len(self.groups) == 1 else f"{len(self.groups)} groups"
        return f"{files} in {groups} become about {self.output_files}."

    def files_of(self, group: FileGroup) -> pa.Table:
        return self.files.slice(group.first, group.files)
