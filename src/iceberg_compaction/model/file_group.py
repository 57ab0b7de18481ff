"""The groups of a plan: columns inside, a sequence of `FileGroup` outside. A large plan has a hundred thousand groups,
so objects and sentences are made on access, and figures of all groups come from the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter
from typing_extensions import assert_never

from iceberg_compaction.model import byte_size, partition_words, plurals
from iceberg_compaction.model.copy_plan import Way
from iceberg_compaction.model.partition_section import SECTIONS, Section
from iceberg_compaction.model.value import Count, Difference, Finite, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from iceberg_compaction.model.copy_plan import Copying
    from iceberg_compaction.model.policies import Sizes


class GroupReason(str, Enum):
    """The reason to rewrite a group. Closed set."""

    SMALL_FILES = "small-files"  # enough files below the minimum size
    LARGE_FILES = "large-files"  # a file above the maximum size is split
    NOT_OPTIMAL = "not-optimal"  # `full`: the partition would fit into fewer files
    REWRITE_ALL = "rewrite-all"  # option rewrite-all, whatever the sizes
    DELETES = "deletes"  # files with many delete files or many deleted rows, whatever the sizes
    UNSORTED = "unsorted"  # rows are not in the order of the outputs
    OVERLAPPING = "overlapping"  # files are in order, but their ranges overlap
    COLD = "cold"  # `time-series`: an old partition, for larger files


class Spread(str, Enum):
    """The precision of the number of partitions that the rows of a group go to. Closed set."""

    NONE = "none"  # rows stay in their partition
    EXACT = "exact"
    ABOUT = "about"  # column bounds limit the values
    LEAST = "at-least"  # metadata of a file has too little information

    @property
    def word(self) -> str:
        """The word in front of a number."""
        return {Spread.ABOUT: "about ", Spread.LEAST: "at least "}.get(self, "")


class FileGroup(Value):
    """Files that are rewritten together: of one partition and spec, or of several if their rows move to another."""

    id: Count
    spec_id: Count  # of the first files, where there are sections
    partition: str  # canonical JSON of the partition tuple, see model.table_view; {} where there are sections
    sections: tuple[Section, ...] = ()  # the partitions of the files, if there are several
    first: Count  # the group's files are rows first … first+files of Plan.files
    files: Count
    bytes: Count
    records: Count
    small_files: Count  # below the minimum size
    large_files: Count  # above the maximum size
    outputs: Count  # expected output files
    spread: Spread = Spread.NONE  # precision of the next
    new_partitions: Count = 0  # partitions of the current spec that rows go to, if they leave theirs
    delete_files: Count = 0  # that apply to the files; one that several files share counts for each of them
    deleted_rows: Count = 0  # of the files, an estimate
    reason: GroupReason
    triggers: str = ""  # names of the triggers that asked for the partition, joined; empty: the policy has none
    sentence: str  # the above in words
    row_groups: Count  # of the files
    untold_files: Count = 0  # files whose number of row groups is assumed, because manifests lack it
    small_row_group_files: Count = 0  # files whose row groups are too small to be copied
    copied_bytes: Count  # expected to be copied; the rest is encoded
    copying: Way
    copy_sentence: str  # the above in words
    # Estimates, see model.plan_cost. Plans of older versions lack them.
    reads: Count = 0  # requests of the rewrite
    writes: Count = 0
    core_seconds: Finite = 0.0
    spared_requests: Difference = 0  # of each scan that reads the group
    spared_seconds: Finite = 0.0  # likewise, of a core
    freed_bytes: Count = 0  # of deleted rows
    gain_days: Finite = 0.0  # how long the gain lasts, at most the horizon
    cost: Finite = 0.0  # dollars
    saving: Finite = 0.0  # dollars in that time
    choice: str = ""  # `adaptive`: the strategy of the partition, and why


_TYPES = dict.fromkeys(("partition", "reason", "triggers", "spread", "copying", "choice"), pa.string())
_TYPES |= {"sections": SECTIONS}
_TYPES |= dict.fromkeys(("core_seconds", "spared_seconds", "gain_days", "cost", "saving"), pa.float64())
_SENTENCES = ("sentence", "copy_sentence")
# One row per group: the fields of FileGroup but for the sentences, which follow from the others.
PLAN_GROUPS = pa.schema(
    [
        pa.field(name, _TYPES.get(name, pa.int64()), nullable=False)
        for name in FileGroup.model_fields
        if name not in _SENTENCES
    ]
)


def sections_of(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The sections of a group, a row of PLAN_GROUPS; one section for a group of one partition."""
    own = {"spec_id": row["spec_id"], "partition": row["partition"], "files": row["files"]}
    return row["sections"] or [own]


def partition_keys(row: Mapping[str, Any]) -> tuple[tuple[int, str], ...]:
    """Spec id and canonical JSON of the partitions of a group's files, each once."""
    return tuple(dict.fromkeys((section["spec_id"], section["partition"]) for section in sections_of(row)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKind:
    """Groups of a plan that have the same reason and the same way into new files, as one."""

    reason: GroupReason
    groups: int
    files: int
    bytes: int
    outputs: int
    copied_bytes: int
    cost: float
    saving: float
    sentence: str
    copy_sentence: str
    choice: str


class Groups(Sequence[FileGroup]):
    """The groups of one plan, in the order of work."""

    def __init__(self, columns: pa.Table, sizes: Sizes, copying: Copying) -> None:
        self.columns = columns  # PLAN_GROUPS
        self._copying = copying
        self._low, self._high = byte_size.format_size(sizes.min), byte_size.format_size(sizes.max)

    @classmethod
    def of(cls, groups: Iterable[Any], sizes: Sizes, copying: Copying) -> Groups:
        """From FileGroups or their fields; sentences are made anew."""
        checked = TypeAdapter(list[FileGroup]).validate_python(list(groups))
        columns = {name: [getattr(group, name) for group in checked] for name in PLAN_GROUPS.names}
        columns["sections"] = [[section.model_dump() for section in of_group] for of_group in columns["sections"]]
        return cls(pa.table(columns, schema=PLAN_GROUPS), sizes, copying)

    def total(self, name: str) -> int:
        """The sum of a column."""
        return int(pc.sum(self.columns[name]).as_py() or 0)

    def dump(self) -> list[dict[str, Any]]:
        """As plain values, with sentences."""
        return [row | self._sentences(row) for row in self.columns.to_pylist()]

    def kinds(self) -> tuple[GroupKind, ...]:
        """The groups, those with one reason as one, the largest number of bytes first. There are few kinds, however
        many groups there are."""
        keys = ["reason", "copying", "spread", "spec_id", "choice", "triggers"]
        sums = [name for name in PLAN_GROUPS.names if name not in (*keys, "id", "first", "partition", "sections")]
        measures = [*((name, "sum") for name in sums), ("id", "count"), ("id", "min")]
        merged = self.columns.group_by(keys, use_threads=False).aggregate(measures)
        rows = merged.rename_columns([name.removesuffix("_sum") for name in merged.column_names]).to_pylist()
        return tuple(self._kind(row) for row in sorted(rows, key=lambda row: (-row["bytes"], row["id_min"])))

    def _kind(self, row: dict[str, Any]) -> GroupKind:
        together = row | {"partition": "{}", "sections": []}
        if row["id_count"] == 1:
            (together,) = self.columns.filter(pc.equal(self.columns["id"], row["id_min"])).to_pylist()
        return GroupKind(
            reason=GroupReason(row["reason"]),
            groups=row["id_count"],
            files=row["files"],
            bytes=row["bytes"],
            outputs=row["outputs"],
            copied_bytes=row["copied_bytes"],
            cost=row["cost"],
            saving=row["saving"],
            choice=row["choice"],
            sentence=self._sentence(together),
            copy_sentence=self._copying.sentence_of(together),
        )

    def sections(self) -> pa.Table:
        """The sections of all groups, one after the other: columns spec_id, partition, files."""
        names = SECTIONS.value_type.names
        if not pc.any(pc.greater(pc.list_value_length(self.columns["sections"]), 0)).as_py():
            return self.columns.select(names)
        rows = self.columns.select([*names, "sections"]).to_pylist()
        every_section = [section for row in rows for section in sections_of(row)]
        return pa.Table.from_pylist(every_section, schema=pa.schema(list(SECTIONS.value_type)))

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    @overload
    def __getitem__(self, index: int) -> FileGroup: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[FileGroup, ...]: ...
    def __getitem__(self, index: int | slice) -> FileGroup | tuple[FileGroup, ...]:
        numbers = range(len(self))[index]
        if isinstance(numbers, int):
            return next(self._made(self.columns.slice(numbers, 1)))
        return tuple(self._made(self.columns.take(pa.array(numbers, pa.int64()))))

    def __iter__(self) -> Iterator[FileGroup]:
        return self._made(self.columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Groups) and bool(self.columns.equals(other.columns))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} groups>"

    def _made(self, columns: pa.Table) -> Iterator[FileGroup]:
        for row in columns.to_pylist():
            yield FileGroup(**row, **self._sentences(row))

    def _sentences(self, row: dict[str, Any]) -> dict[str, str]:
        return {"sentence": self._sentence(row), "copy_sentence": self._copying.sentence_of(row)}

    def _sentence(self, row: dict[str, Any]) -> str:
        """What becomes of which files, with figures; no full stop, because sentences are also joined."""
        count = row["files"]
        mean = byte_size.format_size(row["bytes"] / max(1, count))
        what = plurals.count(count, f"file of {mean}", f"files of {mean} on average")
        what += f" in {len(row['sections'])} partitions" if row["sections"] else ""
        name, why = partition_words.text(row["partition"]), f" (trigger: {row['triggers']})" if row["triggers"] else ""
        return f"{name}: {what}{_deletes(row)}{self._rest(row)}{why}".removeprefix(": ")

    def _rest(self, row: dict[str, Any]) -> str:
        count, below, above, outputs = row["files"], row["small_files"], row["large_files"], _outputs(row)
        become = plurals.form(count, "becomes", "become")
        reason = GroupReason(row["reason"])
        match reason:
            case GroupReason.REWRITE_ALL:
                return f", rewritten as asked, {become} {outputs}"
            case GroupReason.DELETES:
                return f", {become} {outputs}"
            case GroupReason.UNSORTED:
                return f", not in order, {become} {outputs}"
            case GroupReason.OVERLAPPING:
                return f" with ranges that overlap, {become} {outputs}"
            case GroupReason.COLD:
                return f", all cold, {become} {outputs}"
            case GroupReason.LARGE_FILES:
                which = "above" if above == count else f"{above} of them above"
                return f", {which} {self._high}, {become} {outputs}"
            case GroupReason.SMALL_FILES | GroupReason.NOT_OPTIMAL:
                if below == count:
                    fit = "fit into" if row["spread"] == Spread.NONE.value else become
                    return f", all below {self._low}, {fit} {outputs}"
                large = f" and {above} above {self._high}" if above else ""
                return f", {below} of them below {self._low}{large}, {become} {outputs}"
            case _:
                assert_never(reason)


def _outputs(row: Mapping[str, Any]) -> str:
    """The expected number of files, and of partitions if rows move."""
    outputs, spread = row["outputs"], Spread(row["spread"])
    if spread is Spread.NONE:
        return str(outputs)
    partitions = plurals.count(row["new_partitions"], "partition")
    return f"{spread.word}{outputs}, as their rows go to {spread.word}{partitions} of the current spec"


def _deletes(row: dict[str, Any]) -> str:
    """The deletes of the files in words, if there are any."""
    if not row["delete_files"]:
        return ""
    if row["files"] > 1:
        deletes = f"{row['delete_files'] / row['files']:.1f} delete files each"
    else:
        deletes = plurals.count(row["delete_files"], "delete file")
    return f", with {deletes} and about {row['deleted_rows'] / max(1, row['records']):.0%} of rows deleted"
