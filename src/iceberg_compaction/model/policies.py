"""The wishes of a user: strategy, sizes, limits. Option names are those of Iceberg's `rewrite_data_files`. A policy
comes from flags, files or code; it goes to the planner and is stored in the plan."""

from __future__ import annotations

import hashlib
import re
from enum import Enum
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from iceberg_compaction import errors
from iceberg_compaction.model import partition_filter, row_order_terms, writer_options
from iceberg_compaction.model.byte_size import ByteSize, parse_size
from iceberg_compaction.model.durations import Duration
from iceberg_compaction.model.prices import AnyPrices, Prices
from iceberg_compaction.model.triggers import Triggers
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

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # of a strategy
BATCH_SECONDS = 600.0
DEFAULT_MIN_ROW_GROUP = 8 * 2**20
ASSUMED_SCANS_PER_DAY = 24.0  # one in an hour, where nobody declares them
DEFAULT_SORT_BYTES = 8 * GIB
DEFAULT_DELETE_RATIO = 0.3  # Iceberg's own default of delete-ratio-threshold


class Strategy(str, Enum):
    """The name of a strategy. docs/reference/strategies.md states the candidates and the fixed point of each."""

    SMALL_FILES = "small-files"
    FULL = "full"
    DELETE_FILES = "delete-files"
    SORT = "sort"
    TIME_SERIES = "time-series"
    DIMENSIONAL = "dimensional"
    COST_OPTIMIZED = "cost-optimized"
    ADAPTIVE = "adaptive"


def _strategy_name(value: object) -> object:
    """Our own strategies as members; others as the names that installed packages give them."""
    if isinstance(value, Strategy):
        return value
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError("it must be the name of a strategy, of letters, digits, dots and dashes")
    return next((each for each in Strategy if each.value == value), value)


StrategyName = Annotated[Strategy | str, Field(union_mode="left_to_right"), BeforeValidator(_strategy_name)]


def name_of(strategy: Strategy | str) -> str:
    """The name of a strategy as text, be it ours or of another package."""
    return strategy.value if isinstance(strategy, Strategy) else strategy


class JobOrder(str, Enum):
    """The order of groups. A budget keeps the first ones."""

    NONE = "none"
    BYTES_ASC = "bytes-asc"
    BYTES_DESC = "bytes-desc"
    FILES_ASC = "files-asc"
    FILES_DESC = "files-desc"

    @classmethod
    def _missing_(cls, value: object) -> JobOrder | None:
        """In any case, as Iceberg reads it."""
        return next((each for each in cls if isinstance(value, str) and each.value == value.strip().lower()), None)


class DeleteAction(str, Enum):
    """What the strategy `delete-files` does about deletes."""

    CHEAPEST = "cheapest"  # in each partition what costs least, with what readers pay until the horizon
    APPLY = "apply"  # data files are rewritten without the deleted rows
    MERGE = "merge"  # position deletes become one file for each data file
    CONVERT = "convert"  # equality deletes become position deletes


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


def _in_a_row(value: object) -> object:
    """One text, or several."""
    return (value,) if isinstance(value, str) else value


def _columns(value: object) -> object:
    """Names of columns, or one text with commas."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _checked_order(value: str) -> str:
    row_order_terms.parse(value)
    return value


def _checked_filters(value: tuple[str, ...]) -> tuple[str, ...]:
    for text in value:
        partition_filter.parse(text)
    return value


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class Policy(Value):
    """All options of the compaction of one table."""

    model_config = ConfigDict(alias_generator=_kebab)

    strategy: Annotated[
        StrategyName, Field(description="how files are chosen and laid out: one of ours, or of an installed package")
    ] = Strategy.SMALL_FILES
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
    max_cost: Annotated[
        float | None,
        Field(
            gt=0,
            allow_inf_nan=False,
            description="dollars that one run may cost by the prices; it plans and stops by them",
        ),
    ] = None
    hourly_cost_limit: Annotated[
        float | None,
        Field(
            gt=0,
            allow_inf_nan=False,
            description="dollars that all runs of the tenant in the run store may cost within an hour",
        ),
    ] = None
    tenant: Annotated[str | None, Field(min_length=1, description="whose hourly-cost-limit runs count against")] = None
    scans_per_day: Annotated[
        float | None,
        Field(
            ge=0, allow_inf_nan=False, description="scans that read a file on a day, for savings; default: 24, assumed"
        ),
    ] = None
    horizon_days: Annotated[
        float, Field(gt=0, le=3650, description="days over which savings are weighed against costs")
    ] = 30.0
    prices: Annotated[
        AnyPrices,
        Field(description="dollars of requests, computing and storage: a price file, or NAME=DOLLARS pairs"),
    ] = Prices()
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
    delete_action: Annotated[
        DeleteAction,
        Field(
            description="delete-files: rewrite data files without deleted rows (apply), merge position deletes, "
            "convert equality deletes to position deletes, or the cheapest of these in each partition"
        ),
    ] = DeleteAction.CHEAPEST
    keep_spec: Annotated[
        bool, Field(description="outputs keep the partition spec of their inputs; default: the table's current spec")
    ] = False
    output_spec_id: Annotated[
        int | None,
        Field(ge=0, description="partition spec of outputs; only the table's current one can be written"),
    ] = None
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
    partition: Annotated[
        tuple[str, ...],
        BeforeValidator(_in_a_row),
        AfterValidator(_checked_filters),
        Field(
            description="only partitions with these values, such as day=2026-01-*; several for one field: any of them, "
            "for several fields: all of them"
        ),
    ] = ()
    min_file_age: Annotated[
        Duration | None, Field(description="only files that were added at least so long ago, such as 2h")
    ] = None
    changed_since: Annotated[
        str | None,
        Field(
            min_length=1,
            description="only partitions that files were added to after this snapshot id or moment; rewrites do not "
            "count",
        ),
    ] = None
    only_old_spec: Annotated[bool, Field(description="only files of older partition specs")] = False
    max_file_sequence_number: Annotated[
        int | None, Field(ge=0, description="only files whose file sequence number is at most this")
    ] = None
    rewrite_cold_tiers: Annotated[
        bool,
        Field(
            description="also files in cold tiers of S3, such as GLACIER; archived ones must have been restored before"
        ),
    ] = False
    sort_order: Annotated[
        Annotated[str, AfterValidator(_checked_order)] | None,
        Field(description="sort: what rows are sorted by, as day DESC NULLS LAST, id; default: the table's sort order"),
    ] = None
    cluster_by: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...],
        BeforeValidator(_columns),
        Field(
            description="dimensional: columns that rows are clustered by, the most important one first; default: those "
            "that partitioning and sort order suggest"
        ),
    ] = ()
    max_sort_bytes: Annotated[
        ByteSize, Field(gt=0, description="bytes of the largest group that is sorted as a whole, by one task")
    ] = DEFAULT_SORT_BYTES
    max_overlap_depth: Annotated[
        int,
        Field(ge=1, description="files in order may overlap so deep: so many hold one value of the leading column"),
    ] = 1
    time_column: Annotated[
        str | None,
        Field(
            min_length=1,
            description="time-series: the date or timestamp that counts; default: of the partitioning, else of the "
            "sort order, else the first of the schema",
        ),
    ] = None
    hot_window: Annotated[
        Duration, Field(description="time-series: what has rows of this last while is left alone")
    ] = "1d"
    cold_after: Annotated[
        Duration, Field(description="time-series: partitions all of whose rows are older are cold")
    ] = "30d"
    cold_target_file_size_bytes: Annotated[
        ByteSize | None,
        Field(gt=0, description="time-series: size of output files in cold partitions; default: as elsewhere"),
    ] = None
    others: Annotated[
        Others, Field(description="other tools that rewrite the table: report them, yield to them, or refuse to work")
    ] = Others.REPORT
    verify: Annotated[ProofLevel, Field(description="proof before the commit")] = ProofLevel.CHECKSUM
    triggers: Annotated[
        Triggers,
        Field(description="thresholds from which on a partition is planned at all: strategy (none), guide, amoro"),
    ] = Triggers()
    read_parallelism: Annotated[
        int,
        Field(ge=0, lt=2**31, description="files or row groups to leave for parallel readers at least; 0: no limit"),
    ] = 0
    write_options: Annotated[
        tuple[str, ...],
        BeforeValidator(writer_options.parse),
        Field(
            description="parameters of the writer that override the table's properties, such as "
            "write.parquet.compression-codec=zstd"
        ),
    ] = ()
    snapshot_properties: Annotated[
        tuple[str, ...],
        BeforeValidator(writer_options.parse_entries),
        Field(description="further entries NAME=VALUE in the summary of every snapshot that the rewrite commits"),
    ] = ()

    @model_validator(mode="after")
    def _sizes_in_order(self) -> Self:
        if self.target_file_size_bytes is not None:
            resolve_sizes(self, {})
        return self

    @model_validator(mode="after")
    def _written_as_asked(self) -> Self:
        if self.copy_row_groups is CopyMode.ALWAYS and self.write_options:
            raise ValueError("copy-row-groups always keeps row groups as they are, whatever write-options say")
        return self

    @property
    def copies(self) -> CopyMode:
        """`copy_row_groups`, unless the options of the writer forbid it."""
        return CopyMode.NEVER if writer_options.needs_encoding(self.write_options) else self.copy_row_groups


def chooses_deletes(policy: Policy) -> bool:
    """Whether the planner compares ways to get rid of deletes, or takes another one than a rewrite."""
    compares = policy.delete_action is not DeleteAction.APPLY and not policy.rewrite_all
    return policy.strategy is Strategy.DELETE_FILES and compares


def without_budgets(policy: Policy) -> Policy:
    """The same wishes, whatever a single run may cost."""
    return policy.model_copy(update={"max_cost": None, "hourly_cost_limit": None})


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
