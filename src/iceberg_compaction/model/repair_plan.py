"""Damage of a table's metadata: what is wrong, and the plan that mends it. Files in storage are the truth; manifests
are corrected by them, never the other way round."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from iceberg_compaction.model.table_view import Pin
from iceberg_compaction.model.upkeep_plan import UpkeepPlan
from iceberg_compaction.model.value import Count, Value

MOST_FINDINGS = 10_000  # of one plan: a table with more is mended in several runs


class Damage(str, Enum):
    """What may be wrong. Closed set."""

    SIZE = "file-size"  # a manifest says another size than storage
    RECORDS = "record-count"  # a manifest says another number of rows than the file
    TWICE = "listed-twice"  # more than one live entry for a file, or one manifest twice in the list
    MISSING = "missing-file"
    UNREADABLE = "unreadable-file"  # of another size than the manifest says, or without a footer
    COUNTS = "manifest-counts"  # the manifest list says other counts or another length than the manifest has
    LOST_MANIFEST = "lost-manifest"  # missing, cut short or damaged


class Remedy(str, Enum):
    """What helps. Closed set."""

    FIX = "fix"
    DROP_MISSING = "drop-missing"
    RESTORE = "restore"  # no command can do it: the file must come back
    CHOOSE = "choose"  # no answer is right for sure, so that a person must give it


class Finding(Value):
    """One damage."""

    damage: Damage
    remedy: Remedy
    path: str  # of the file or manifest
    manifest: str  # that lists the file
    stated: str  # by metadata, in words
    actual: str
    value: Count | None = None  # the true size or number of rows
    entry: Count | None = None  # its number in the manifest, if that is one too many
    records: Count = 0  # rows of the file, as metadata says

    @property
    def key(self) -> tuple[str, str, str, int | None, int | None]:
        return (self.damage.value, self.path, self.manifest, self.value, self.entry)


class RepairGoal(Value):
    """What is looked for, and what may be done about it."""

    deep: bool = False  # read the footer of every Parquet file, to count its rows
    drop_missing: bool = False  # data files that are missing leave the table, and their rows with them
    even_most: bool = False  # go on if more than half of the data files are missing


class RepairPlan(UpkeepPlan):
    """All that was found. Performing it mends what `steps` names."""

    operation: Literal["repair"] = "repair"
    goal: RepairGoal
    pin: Pin | None  # None: the table has no snapshot
    findings: tuple[Finding, ...] = ()

    @property
    def sick(self) -> bool:
        return bool(self.findings)

    def with_remedy(self, remedy: Remedy) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.remedy is remedy)
