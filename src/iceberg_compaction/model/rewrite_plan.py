"""A plan as a value: groups of files to rewrite, with reasons, pinned to a snapshot. `plan` prints it, `run` performs
it, and it survives JSON unchanged. Groups and files are Arrow columns, and a group is a slice of the files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema, model_validator

from iceberg_compaction.model import lease, plurals, policies
from iceberg_compaction.model.copy_plan import Copying
from iceberg_compaction.model.delete_choice import DeleteWay, PartitionDeletes
from iceberg_compaction.model.file_group import PLAN_GROUPS, FileGroup, GroupReason, Groups, Spread
from iceberg_compaction.model.maintainer import Maintainer
from iceberg_compaction.model.output_layout import OutputLayout
from iceberg_compaction.model.partition_score import PartitionScore
from iceberg_compaction.model.past_rows import PastRows
from iceberg_compaction.model.plan_cost import PlanCost
from iceberg_compaction.model.policies import Policy, Sizes
from iceberg_compaction.model.table_view import Pin
from iceberg_compaction.model.value import Count, Value

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "FORMAT",
    "PLAN_FILES",
    "PLAN_GROUPS",
    "Draft",
    "EmptyPlan",
    "FileGroup",
    "GroupReason",
    "Groups",
    "LeftOut",
    "LeftOutReason",
    "Plan",
    "from_json",
    "parse",
]

FORMAT = 5

# The input files of all groups, in group order and within a group in reading order.
PLAN_FILES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False),
        pa.field("file_size_in_bytes", pa.int64(), nullable=False),
        pa.field("record_count", pa.int64(), nullable=False),
    ]
)


def _to_table(value: Any) -> pa.Table:
    if isinstance(value, pa.Table):
        return value
    try:
        table = pa.table(value, schema=PLAN_FILES)
        table.validate(full=True)
    except (TypeError, KeyError, OverflowError, pa.ArrowException) as error:
        names = ", ".join(PLAN_FILES.names)
        raise ValueError(f"its columns must be {names}, text and two of whole numbers, and of one length") from error
    return table


def _to_groups(value: Any, info: ValidationInfo) -> Any:
    fields = info.data
    if isinstance(value, Groups) or not {"sizes", "copying"} <= fields.keys():  # a missing field has its own error
        return value
    if not isinstance(value, Iterable):
        raise ValueError("it must be a list")
    return Groups.of(value, fields["sizes"], fields["copying"])


def _hash_of(fields: dict[str, Any]) -> str:
    """Plans of older versions have none, and a field before it may be the one that is wrong."""
    policy = fields.get("policy")
    return policies.digest(policy) if isinstance(policy, Policy) else ""


_COLUMNS = {"type": "object", "additionalProperties": {"type": "array"}, "description": "columns of input files"}
_GROUPS = {"type": "array", "items": {"type": "object"}, "description": "groups of files, each with its reason"}
PlanFiles = Annotated[
    pa.Table,
    BeforeValidator(_to_table),
    PlainSerializer(lambda table: table.to_pydict(), when_used="json"),
    WithJsonSchema(_COLUMNS),
]
PlanGroups = Annotated[Groups, BeforeValidator(_to_groups), PlainSerializer(Groups.dump), WithJsonSchema(_GROUPS)]


class LeftOutReason(str, Enum):
    """The reason to leave files alone. Closed set."""

    WELL_SIZED = "well-sized"
    REST = "rest"  # small, but at most one in its group: a rewrite would leave such a file again
    INDIVISIBLE = "indivisible"  # large, but of one row
    TOO_FEW_FILES = "too-few-files"  # fewer than min-input-files, and not more than one target's worth
    FEW_DELETES = "few-deletes"  # `delete-files`: no delete file applies, or the thresholds are not reached
    DELETES_EXCHANGED = "deletes-exchanged"  # `delete-files`: their delete files are merged or converted instead
    DELETES_STAY = "deletes-stay"  # `delete-files`: their deletes cost readers less than what could be done about them
    NO_GAIN = "no-gain"  # as many files would come out as go in
    NOT_WORTH = "not-worth-its-cost"  # `cost-optimized`, `adaptive`: the expected saving is below the cost
    NOT_SPLIT = "not-split"  # `cost-optimized`: large, but a split saves nothing
    IN_ORDER = "in-order"  # strategies that sort: rows are in order, and ranges do not overlap
    HOT = "hot"  # `time-series`: rows of the last while, or in a partition that has them
    TOO_LARGE_TO_SORT = "too-large-to-sort"  # files whose ranges overlap have more than max-sort-bytes together
    NOT_SELECTED = "not-selected"  # `where` rules them out
    OTHER_PARTITION = "other-partition"  # `partition` rules them out
    CURRENT_SPEC = "current-spec"  # `only-old-spec` rules them out
    UNCHANGED = "unchanged"  # nothing was added to their partition since `changed-since`
    TOO_YOUNG = "too-young"  # added less than `min-file-age` ago
    LATER_SEQUENCE = "later-sequence-number"  # `max-file-sequence-number` rules them out
    LEASED = "claimed"  # another run is working on their partitions; the word in JSON since the first version
    MAINTAINED = "maintained-by-others"  # `others: yield`, and another tool takes care of their partitions
    COLD = "cold-storage"  # in a cold tier of their store, unless `rewrite-cold-tiers`
    NOT_TRIGGERED = "no-trigger"  # no trigger of the policy asks for their partition
    READ_PARALLELISM = "read-parallelism"  # fewer files would be too few for parallel readers
    OVER_BUDGET = "over-budget"  # max-files-to-rewrite, max-bytes-to-rewrite or max-cost was reached
    NO_DATA = "no-data"  # the table has no files at all
    UNSUPPORTED = "unsupported"  # the table must not be rewritten


class LeftOut(Value):
    """Files that the plan does not touch, by reason."""

    reason: LeftOutReason
    files: Count
    bytes: Count
    sentence: str


class _Planned(Value):
    """The fields of a plan, whether or not there is something to do; so a plan file may be either."""

    format: int = FORMAT
    id: str
    table: str
    created_ms: Count
    pin: Pin | None  # None: the table has no snapshot
    policy: Policy
    sizes: Sizes
    layout: OutputLayout
    copying: Copying
    groups: PlanGroups
    left_out: tuple[LeftOut, ...]
    files: PlanFiles
    maintainers: tuple[Maintainer, ...] = ()  # other tools that rewrite the table
    useless_deletes: Count = 0  # delete files, anywhere in the table, that apply to nothing and are dropped
    past_rows: PastRows | None = None  # rows that leave the table, see `ttl`; None: it keeps its rows
    cost: PlanCost = PlanCost()
    notes: tuple[str, ...] = ()  # sentences about the plan as a whole
    partition_scores: tuple[PartitionScore, ...] = ()  # the highest, if triggers decide; see docs/reference/triggers.md
    deletes: tuple[PartitionDeletes, ...] = ()  # what becomes of deletes, where `delete-files` has chosen
    policy_hash: str = Field(default_factory=_hash_of)  # of `policy`, to tell at a glance which one a plan follows

    @model_validator(mode="before")
    @classmethod
    def _known_format(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("format", FORMAT) != FORMAT:
            raise ValueError(f"the plan has format {given['format']}, not {FORMAT}; make a new plan")
        return given

    @model_validator(mode="before")
    @classmethod
    def _layout_of_older_plans(cls, given: Any) -> Any:
        """Plans used to leave the partition spec of the outputs to the policy."""
        if isinstance(given, dict) and "layout" not in given:
            policy = given.get("policy")
            if isinstance(policy, Policy):
                policy = policy.model_dump()
            stated = policy.get("keep_spec", policy.get("keep-spec", False)) if isinstance(policy, dict) else False
            return {**given, "layout": {"keep_spec": stated}}
        return given

    @model_validator(mode="after")
    def _groups_tile_files(self) -> Self:
        """Groups are slices of `files`, one after the other; a plan that was edited or damaged is refused."""
        columns = self.groups.columns
        files = columns["files"].to_numpy()
        wrong = np.flatnonzero(columns["first"].to_numpy() != np.cumsum(files) - files)
        if len(wrong):
            raise ValueError(f"group {self.groups[wrong[0]].id} does not begin where the files before it end")
        totals = (self.input_files, self.input_bytes, self.input_records)
        sums = (self.files.num_rows, *(pc.sum(self.files[name]).as_py() or 0 for name in PLAN_FILES.names[1:]))
        if totals != sums:
            raise ValueError(f"the groups hold {totals} files, bytes and records, but the plan lists {sums}")
        return self

    @model_validator(mode="after")
    def _hash_is_of_policy(self) -> Self:
        if self.policy_hash != policies.digest(self.policy):
            raise ValueError("its policy is not the one that its policy_hash is of; make a new plan")
        return self

    def __repr__(self) -> str:
        return self._line(self.table, getattr(self, "sentence", ""))

    __str__ = __repr__

    @property
    def input_files(self) -> int:
        return self.groups.total("files")

    @property
    def input_bytes(self) -> int:
        return self.groups.total("bytes")

    @property
    def input_records(self) -> int:
        return self.groups.total("records")

    @property
    def output_files(self) -> int:
        return self.groups.total("outputs")

    @property
    def partitions(self) -> tuple[tuple[int, str], ...]:
        """Spec id and canonical JSON of every partition that the plan touches, each once."""
        lies = self.groups.sections()
        return tuple(dict.fromkeys(zip(lies["spec_id"].to_pylist(), lies["partition"].to_pylist(), strict=True)))

    @property
    def exchanges(self) -> tuple[PartitionDeletes, ...]:
        """The partitions whose delete files are merged or converted."""
        return tuple(each for each in self.deletes if each.exchanged)

    @property
    def resources(self) -> tuple[str, ...]:
        """A run that performs the plan needs a lease of these."""
        partition_keys = (*self.partitions, *(each.key for each in self.exchanges))
        return lease.of_partitions(partition_keys) if partition_keys else (lease.DELETES,)


class EmptyPlan(_Planned):
    """There is nothing to do, for the reasons in `left_out`; the table may even have no snapshot."""

    @model_validator(mode="after")
    def _has_nothing_to_do(self) -> Self:
        if len(self.groups) or self.useless_deletes or self.exchanges:
            raise ValueError("it is an empty plan, but has something to do")
        return self

    @property
    def empty(self) -> Literal[True]:
        return True

    @property
    def sentence(self) -> str:
        """Why there is nothing to do."""
        why = "; ".join(left.sentence for left in self.left_out) or "The table has no data files"
        return f"Nothing to do: {why[0].lower() + why[1:]}."


class Plan(_Planned):
    """What will be done to one table, and why."""

    pin: Pin

    @model_validator(mode="before")
    @classmethod
    def _has_a_snapshot(cls, given: Any) -> Any:
        if isinstance(given, dict) and "pin" in given and given["pin"] is None:
            raise ValueError("it has groups, but no snapshot that they are of")
        return given

    @model_validator(mode="after")
    def _has_something_to_do(self) -> Self:
        if not len(self.groups) and not self.useless_deletes and not self.exchanges:
            raise ValueError("it has nothing to do")
        return self

    @property
    def empty(self) -> Literal[False]:
        return False

    @property
    def sentence(self) -> str:
        """The plan in one sentence."""
        files = plurals.count(self.input_files, "file")
        groups = plurals.count(len(self.groups), "group")
        become = plurals.form(self.input_files, "becomes", "become")
        told = [f"{files} in {groups} {become} {self._about}{self.output_files}"] if len(self.groups) else []
        told += self._exchanged
        if self.useless_deletes:
            apply = plurals.count(self.useless_deletes, "delete file applies", "delete files apply")
            told.append(f"{apply} to nothing and {plurals.form(self.useless_deletes, 'is', 'are')} dropped")
        return f"{'; '.join(told)}.{self._spread}"

    @property
    def _exchanged(self) -> list[str]:
        """Delete files that others replace."""
        words = {DeleteWay.MERGE: "merged", DeleteWay.CONVERT: "replaced by position deletes"}
        told = []
        for way, done in words.items():
            parts = [each for each in self.exchanges if each.way is way]
            count = sum(each.delete_files for each in parts)
            where = plurals.count(len(parts), "partition")
            if parts:
                told.append(f"{plurals.count(count, 'delete file is', 'delete files are')} {done} in {where}")
        return told

    @property
    def _about(self) -> str:
        return "at least " if pc.any(pc.equal(self.groups.columns["spread"], Spread.LEAST.value)).as_py() else "about "

    @property
    def _spread(self) -> str:
        """Why there are so many files, if rows move to another partition spec."""
        moved = self.groups.columns.filter(pc.not_equal(self.groups.columns["spread"], Spread.NONE.value))
        if not moved.num_rows:
            return ""
        files, outputs = pc.sum(moved["files"]).as_py(), pc.sum(moved["outputs"]).as_py()
        lies, current = self.groups.sections(), self.pin.spec_id
        older = pc.sum(lies["files"].filter(pc.not_equal(lies["spec_id"], current))).as_py()
        verb = plurals.form(older, "is", "are")
        many = "" if outputs <= files else f", so that there are more than before ({files} become {outputs})"
        return (
            f" {older} of them {verb} of an older partition spec: rows go to the partitions of the current one{many}."
        )

    def files_of(self, group: FileGroup) -> pa.Table:
        return self.files.slice(group.first, group.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """All that a plan is made of: the one way to make one, by the planner and of what is left of an older plan."""

    id: str
    table: str
    created_ms: int
    pin: Pin | None
    policy: Policy
    sizes: Sizes
    layout: OutputLayout
    copying: Copying  # its totals are those of the groups, whatever they were
    groups: pa.Table  # PLAN_GROUPS
    files: pa.Table  # PLAN_FILES
    left_out: tuple[LeftOut, ...]
    useless_deletes: int
    maintainers: tuple[Maintainer, ...] = ()
    past_rows: PastRows | None = None
    cost: PlanCost = field(default_factory=PlanCost)  # its totals are those of the groups, too
    notes: tuple[str, ...] = ()
    partition_scores: tuple[PartitionScore, ...] = ()
    deletes: tuple[PartitionDeletes, ...] = ()

    def plan(self) -> Plan | EmptyPlan:
        copying = self.copying.of(self.groups)
        made = {each.name: getattr(self, each.name) for each in fields(self)}
        made["cost"] = self.cost.of(self.groups)
        return parse(made | {"copying": copying, "groups": Groups(self.groups, self.sizes, copying)})


def parse(content: dict[str, Any]) -> Plan | EmptyPlan:
    """The plan of its fields, as read from JSON."""
    groups = content.get("groups")
    empty = isinstance(groups, Groups | list | tuple) and not len(groups) and not content.get("useless_deletes")
    return (EmptyPlan if empty and not _has_exchanges(content) else Plan).model_validate(content)


def _has_exchanges(content: dict[str, Any]) -> bool:
    """Whether the plan merges or converts delete files, by fields that may be wrong still."""
    deletes = content.get("deletes")
    ways = {DeleteWay.MERGE.value, DeleteWay.CONVERT.value}
    return isinstance(deletes, list | tuple) and any(
        each.exchanged if isinstance(each, PartitionDeletes) else isinstance(each, dict) and each.get("way") in ways
        for each in deletes
    )


def from_json(text: str | bytes) -> Plan | EmptyPlan:
    """The plan that `model_dump_json` wrote."""
    return parse(json.loads(text))
