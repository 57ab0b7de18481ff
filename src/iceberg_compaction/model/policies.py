"""The wishes of a user: strategy, sizes, limits. Option names are those of Iceberg's `rewrite_data_files`. A policy
comes from flags, files or code; it goes to the planner and is stored in the plan."""

from __future__ import annotations

import hashlib
from enum import Enum
from typing import TYPE_CHECKING, Annotated

from pydantic import ConfigDict, Field, model_validator

from iceberg_compaction import errors
from iceberg_compaction.model.byte_size import ByteSize, parse_size
from iceberg_compaction.model.value import Count, Value

if TYPE_CHECKING:
    from typing_extensions import Self

GIB = 2**30
DEFAULT_TARGET = 512 * 2**20  # Iceberg's own default of write.target-file-size-bytes
# No file is that large. A larger value, up to the largest long, means no limit; this one leaves room for arithmetic.
NO_LIMIT = 2**56
TARGET_PROPERTY = "write.target-file-size-bytes"
# Beginnings of table properties that are a policy for the rewrite of files: ours, and Amoro's in both of its spellings.
POLICY_PROPERTIES = ("compaction.", "self-optimizing.", "self.optimizing.")

BATCH_SECONDS = 600.0
DEFAULT_MIN_ROW_GROUP = 8 * 2**20
DEFAULT_DELETE_RATIO = 0.3  # Iceberg's own default of delete-ratio-threshold


class Strategy(str, Enum):
    """The name of a strategy. docs/reference/strategies.md states the candidates and the fixed point of each."""

    SMALL_FILES = "small-files"
    FULL = "full"
    DELETE_FILES = "delete-files"


class JobOrder(str, Enum):
    """The order of groups. A budget keeps the first ones."""

    NONE = "none"
    BYTES_ASC = "bytes-asc"
    BYTES_DESC = "bytes-desc"
    FILES_ASC = "files-asc"
    FILES_DESC = "files-desc"


class ProofLevel(str, Enum):
    """The depth of the proof before a commit; every level includes the ones before it."""

    COUNTS = "counts"
    CHECKSUM = "checksum"
    DEEP = "deep"


class CopyMode(str, Enum):
    """The row groups that are copied as bytes instead of being decoded and encoded."""

    AUTO = "auto"  # row groups that need no change, if they are large and well compressed
    ALWAYS = "always"  # all row groups that need no change, whatever their size and codec
    NEVER = "never"


class Others(str, Enum):
    """What to do about other tools that rewrite the same table."""

    REPORT = "report"  # name them, and go on
    YIELD = "yield"  # leave to them what they take care of
    REFUSE = "refuse"  # do nothing


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class Policy(Value):
    """All options of the compaction of one table."""

    model_config = ConfigDict(alias_generator=_kebab)

    strategy: Strategy = Strategy.SMALL_FILES
    target_file_size_bytes: Annotated[
        ByteSize | None,
        Field(description="size of output files; default: the table's write.target-file-size-bytes, else 512 MiB"),
    ] = None
    min_file_size_bytes: Annotated[
        ByteSize | None, Field(description="smaller files are candidates; default 0.75 x target")
    ] = None
    max_file_size_bytes: Annotated[
        ByteSize | None, Field(description="larger files are split; default 1.8 x target")
    ] = None
    min_input_files: Annotated[
        int,
        Field(ge=1, description="a group needs this many files, unless it holds more than one target's worth"),
    ] = 5
    max_file_group_size_bytes: Annotated[ByteSize, Field(gt=0, description="bytes that one group may hold")] = 100 * GIB
    max_file_group_input_files: Annotated[int | None, Field(ge=1, description="files that one group may hold")] = None
    max_files_to_rewrite: Annotated[
        int | None, Field(ge=1, description="stop adding groups after this many input files")
    ] = None
    max_bytes_to_rewrite: Annotated[
        ByteSize | None, Field(gt=0, description="stop adding groups after this many input bytes")
    ] = None
    rewrite_all: Annotated[bool, Field(description="rewrite every file, whatever its size; has no fixed point")] = False
    delete_file_threshold: Annotated[
        int | None,
        Field(
            ge=1,
            description="data files with so many delete files are candidates, even alone; default: no limit, in "
            "delete-files 1 unless delete-ratio-threshold is given",
        ),
    ] = None
    delete_ratio_threshold: Annotated[
        float | None,
        Field(
            gt=0, le=1, description="data files with this share of rows deleted are candidates, even alone; default 0.3"
        ),
    ] = None
    keep_spec: Annotated[
        bool, Field(description="outputs keep the partition spec of their inputs; default: the table's current spec")
    ] = False
    copy_row_groups: Annotated[
        CopyMode, Field(description="copy row groups that need no change as bytes: auto, always or never")
    ] = CopyMode.AUTO
    min_row_group_size_bytes: Annotated[
        ByteSize, Field(gt=0, description="smaller row groups are merged into larger ones, not copied")
    ] = DEFAULT_MIN_ROW_GROUP
    rewrite_job_order: JobOrder = JobOrder.NONE
    partial_progress: Annotated[
        bool | None,
        Field(
            description="commit groups in batches as they are done; default: one commit, and in long runs one for each "
            "tenth of the bytes, not more often than every ten minutes"
        ),
    ] = None
    partial_progress_max_commits: Annotated[
        int, Field(ge=1, description="largest number of batches, unless partial-progress is off")
    ] = 10
    replan_conflicts: Annotated[
        bool,
        Field(
            description="groups in conflict with other commits are planned again at the end of the run, up to 3 times"
        ),
    ] = True
    where: Annotated[str | None, Field(description="only files that may hold rows matching this filter")] = None
    others: Annotated[
        Others, Field(description="other tools that rewrite the table: report them, yield to them, or refuse to work")
    ] = Others.REPORT
    verify: Annotated[ProofLevel, Field(description="proof before the commit")] = ProofLevel.CHECKSUM

    @model_validator(mode="after")
    def _sizes_in_order(self) -> Self:
        if self.target_file_size_bytes is not None:
            resolve_sizes(self, {})
        return self


def digest(policy: Policy) -> str:
    """The same for equal policies. Values that are defaults do not count, so that a new option changes nothing."""
    text = policy.model_dump_json(by_alias=True, exclude_defaults=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class BatchRule(Value):
    """The finished groups that are worth a commit while others are under way: all three must be reached."""

    groups: Count
    bytes: Count = 0  # of their input files
    seconds: float = 0.0  # since the commit before, or the beginning

    def is_due(self, *, groups: int, bytes: int, seconds: float) -> bool:
        return groups >= self.groups and bytes >= self.bytes and seconds >= self.seconds


def batch_rule(policy: Policy, *, groups: int, bytes: int) -> BatchRule:
    """The rule for a plan with so many groups and bytes. Where the policy does not say, a run has one commit, unless it
    is long: a crash then costs a tenth of the work or ten minutes, whichever is more."""
    if policy.partial_progress is None:
        return BatchRule(groups=1, bytes=-(-bytes // policy.partial_progress_max_commits), seconds=BATCH_SECONDS)
    in_batch = -(-groups // policy.partial_progress_max_commits) if policy.partial_progress else groups
    return BatchRule(groups=max(1, in_batch))


class Sizes(Value):
    """The resolved sizes for planning and writing; min < target < max."""

    target: Count
    min: Count
    max: Count

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.min < self.target < self.max:
            raise ValueError(f"the target {self.target} must be above the minimum {self.min} and below {self.max}")
        return self

    @property
    def write_max(self) -> int:
        """The size at which the writer closes a file at the latest: halfway between target and max, as in Iceberg."""
        return self.target + (self.max - self.target) // 2


def resolve_sizes(policy: Policy, table_properties: dict[str, str]) -> Sizes:
    """Sizes from the policy, else from the table's properties, else Iceberg's defaults."""
    target = policy.target_file_size_bytes
    if target is None:
        target = _stated_target(table_properties)
    low = policy.min_file_size_bytes if policy.min_file_size_bytes is not None else target * 3 // 4
    high = policy.max_file_size_bytes if policy.max_file_size_bytes is not None else target * 9 // 5
    if target <= 0:
        raise ValueError("target-file-size-bytes must be above 0")
    if not low < target < high:
        raise ValueError(
            f"target-file-size-bytes ({target}) must be above min-file-size-bytes ({low}) "
            f"and below max-file-size-bytes ({high})"
        )
    return Sizes(target=min(target, NO_LIMIT), min=min(low, NO_LIMIT * 3 // 4), max=min(high, NO_LIMIT * 2))


def _stated_target(table_properties: dict[str, str]) -> int:
    text = table_properties.get(TARGET_PROPERTY)
    if text is None:
        return DEFAULT_TARGET
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"the table's {TARGET_PROPERTY} is {text[:40]!r}, not a number of bytes above 0")
    try:
        return parse_size(text)
    except errors.ConfigError as error:
        raise ValueError(f"the table's {TARGET_PROPERTY} is not usable: {str(error).rstrip('.')}") from None
