"""The decision table of triggers: a row for each threshold, with its default, its unit, and the measure of a partition
that it is compared with. docs/reference/triggers.md prints this table, and a test runs every row of it."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from iceberg_compaction.model import byte_size
from iceberg_compaction.model.triggers import DUPLICATE_RATIO, TriggerPreset

if TYPE_CHECKING:
    from iceberg_compaction.model.triggers import Triggers

MIB = 2**20
SMALL_FILE = 32 * MIB  # the guide's small_file_threshold
HOUR = 3600.0


class Unit(str, Enum):
    """What a measure counts. Closed set."""

    FILES = "files"
    BYTES = "bytes"
    RATIO = "ratio"
    DURATION = "seconds"
    COMMITS = "commits"
    TARGETS = "targets"

    def text(self, value: float) -> str:
        """A value in words."""
        match self:
            case Unit.BYTES:
                return byte_size.format_size(value)
            case Unit.DURATION:
                return duration_text(value)
            case Unit.FILES | Unit.COMMITS:
                return f"{value:,.0f}"
            case Unit.RATIO | Unit.TARGETS:
                return f"{value:.3g}"


class TriggeredWork(str, Enum):
    """The kind of work that the guide and Amoro call for. Closed set."""

    MINOR = "minor"  # merge small files
    MAJOR = "major"  # apply deletes, and merge files below the target
    FULL = "full"  # everything


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRule:
    """One row: the trigger fires where `measure sign threshold` holds."""

    name: str  # of the threshold in `Triggers`
    measure: str  # of `PartitionMeasures`
    sign: str  # >, >= or <
    unit: Unit
    work: TriggeredWork
    label: str  # the measure in a word or two
    what: str  # and in full
    guide: float | None = None  # default in each preset; None: off
    amoro: float | None = None
    amoro_property: str | None = None  # Amoro's own name

    @property
    def is_timed(self) -> bool:
        """Whether the measure grows as time passes, even if nobody writes to the table."""
        return self.unit is Unit.DURATION

    def default(self, preset: TriggerPreset) -> float | None:
        """The threshold of a preset."""
        if preset is TriggerPreset.STRATEGY:
            return None
        return self.guide if preset is TriggerPreset.GUIDE else self.amoro

    def fires(self, values: Any, threshold: float) -> Any:
        """Whether the trigger fires, for a value or for an array of values. A value that does not exist never fires."""
        return SIGNS[self.sign](values, threshold)

    def words(self, value: float, threshold: float) -> str:
        """The comparison that fired."""
        return f"{self.label} {self.unit.text(value)} {self.sign} {self.name} {self.unit.text(threshold)}"


SIGNS = MappingProxyType({">": operator.gt, ">=": operator.ge, "<": operator.lt})

TABLE = (
    TriggerRule(
        name="max_file_count_per_partition",
        measure="files",
        sign=">",
        unit=Unit.FILES,
        work=TriggeredWork.MINOR,
        label="files",
        what="data files of the partition",
        guide=100,
    ),
    TriggerRule(
        name="small_file_threshold",
        measure="mean_bytes",
        sign="<",
        unit=Unit.BYTES,
        work=TriggeredWork.MINOR,
        label="mean size",
        what="mean size of its data files",
        guide=SMALL_FILE,
    ),
    TriggerRule(
        name="max_delete_ratio",
        measure="delete_ratio",
        sign=">",
        unit=Unit.RATIO,
        work=TriggeredWork.MAJOR,
        label="delete ratio",
        what="delete files, deletion vectors included, for each data file",
        guide=0.1,
    ),
    TriggerRule(
        name="max_small_file_count",
        measure="small_files",
        sign=">",
        unit=Unit.FILES,
        work=TriggeredWork.MINOR,
        label="small files",
        what="data files below small_file_threshold",
        guide=12,
    ),
    TriggerRule(
        name="min_files_to_compact",
        measure="small_files",
        sign=">=",
        unit=Unit.FILES,
        work=TriggeredWork.MINOR,
        label="small files",
        what="data files below small_file_threshold",
    ),
    TriggerRule(
        name="rewrite_interval",
        measure="since_rewrite",
        sign=">=",
        unit=Unit.DURATION,
        work=TriggeredWork.MINOR,
        label="last rewrite",
        what="time since the last rewrite of the partition; never rewritten: at once",
    ),
    TriggerRule(
        name="commits_since_rewrite",
        measure="commits",
        sign=">=",
        unit=Unit.COMMITS,
        work=TriggeredWork.MINOR,
        label="commits",
        what="commits to the table since its last rewrite",
    ),
    TriggerRule(
        name="minor_trigger_file_count",
        measure="fragments",
        sign=">=",
        unit=Unit.FILES,
        work=TriggeredWork.MINOR,
        label="fragments",
        what="fragments and equality delete files",
        amoro=12,
        amoro_property="minor.trigger.file-count",
    ),
    TriggerRule(
        name="minor_trigger_interval",
        measure="since_rewrite_of_fragments",
        sign=">",
        unit=Unit.DURATION,
        work=TriggeredWork.MINOR,
        label="last rewrite",
        what="time since the last rewrite, if the partition has two or more of those",
        amoro=HOUR,
        amoro_property="minor.trigger.interval",
    ),
    TriggerRule(
        name="minor_trigger_position_delete_files",
        measure="position_deletes",
        sign=">",
        unit=Unit.FILES,
        work=TriggeredWork.MINOR,
        label="position deletes",
        what="position delete files on a data file above min_target_size_ratio of the target",
        amoro=1,
    ),
    TriggerRule(
        name="major_trigger_duplicate_ratio",
        measure="duplicate_ratio",
        sign=">",
        unit=Unit.RATIO,
        work=TriggeredWork.MAJOR,
        label="deleted rows",
        what="share of rows deleted from a data file that is no fragment",
        amoro=DUPLICATE_RATIO,
        amoro_property="major.trigger.duplicate-ratio",
    ),
    TriggerRule(
        name="major_trigger_undersized_targets",
        measure="undersized_targets",
        sign=">=",
        unit=Unit.TARGETS,
        work=TriggeredWork.MAJOR,
        label="undersized targets",
        what="bytes of undersized files / target, if the two smallest of them fit into one target",
        amoro=1,
    ),
    TriggerRule(
        name="full_trigger_interval",
        measure="since_rewrite_of_work",
        sign=">",
        unit=Unit.DURATION,
        work=TriggeredWork.FULL,
        label="last rewrite",
        what="time since the last rewrite, if there is a delete file, or two fragments, or two undersized files",
        amoro_property="full.trigger.interval",
    ),
)


def active(triggers: Triggers) -> tuple[tuple[TriggerRule, float], ...]:
    """The rules that are on, each with its threshold."""
    thresholds = ((rule, triggers.threshold(rule.name, rule.default(triggers.preset))) for rule in TABLE)
    return tuple((rule, threshold) for rule, threshold in thresholds if threshold is not None)


def small_file_bytes(triggers: Triggers) -> int:
    """The size below which a file counts as small."""
    return int(triggers.threshold("small_file_threshold", SMALL_FILE) or SMALL_FILE)


def duration_text(seconds: float) -> str:
    """A time as people say it: 90 s, 45 min, 7.5 h, 3 d."""
    if math.isinf(seconds):
        return "never"
    for size, unit in ((86_400.0, "d"), (HOUR, "h"), (60.0, "min")):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
