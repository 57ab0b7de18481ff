"""Figures that are kept with a run: the forecast of its plan, the time of each stage, and the table's health before and
after it. They are few, so that a store may hold them for many runs and tables."""

from __future__ import annotations

from enum import Enum

from iceberg_compaction.model.table_health import SizeBucket
from iceberg_compaction.model.value import Count, Value


class Stage(str, Enum):
    """A part of a run's time. Closed set, in the order of a run."""

    PLANNING = "planning"
    RECOVERING = "recovering"
    STARTING = "starting"  # the engine
    REWRITING = "rewriting"
    VERIFYING = "verifying"  # all bytes are read; files are closed, read again and compared
    COMMITTING = "committing"
    ENDING = "ending"  # after the last commit: removing files, stopping the engine


class StageTime(Value):
    """The time that a run spent in one stage, all batches together."""

    stage: Stage
    seconds: float


class PlanForecast(Value):
    """The expectations of a plan, to be compared with the figures of its run."""

    files: Count
    bytes: Count
    groups: Count
    output_files: Count
    copied_bytes: Count = 0
    core_seconds: float = 0.0  # of workers, by the rates of earlier runs
    measured: bool = False  # these rates were measured, not assumed
    cost: float | None = None  # in money, by the price list
    saving: float | None = None  # of readers, over the policy's horizon
    currency: str = ""


class PartitionExtremes(Value):
    """What the partitions of a table come to at the most: the extreme of each measure of `plan.triggers.decision_table`
    over all of them, and what it is measured by. A trigger fires in some partition exactly if it fires at the extreme,
    so that a table can be checked without its metadata."""

    small_file_bytes: Count  # what counted as small
    target_bytes: Count  # what classes of files are parts of
    fragment_size_divisor: Count
    min_target_size_ratio: float
    values: dict[str, float]  # by measure: the most, or the least where less is worse; absent: there is none
    oldest_ms: dict[str, int | None]  # by measure of time: the oldest last rewrite; None: there is a partition without


class TableFigures(Value):
    """The health of a table at one moment, in few figures. None: it was not measured."""

    snapshot_id: int | None
    data_files: Count
    small_files: Count
    large_files: Count = 0
    bytes: Count
    records: Count = 0
    delete_files: Count = 0
    snapshots: Count = 0
    target_file_bytes: Count = 0
    row_groups: Count | None = None  # of all data files
    score: int | None = None  # 0 (sick) to 100 (healthy)
    sick: bool | None = None
    histogram: tuple[SizeBucket, ...] = ()
    extremes: PartitionExtremes | None = None  # of its partitions, for triggers

    @property
    def mean_file_bytes(self) -> int:
        return self.bytes // self.data_files if self.data_files else 0


class HealthEntry(Value):
    """The figures of a table at one moment, in the run store."""

    at_ms: int
    catalog: str  # its identity; empty: it is not known
    table: str
    run_id: str | None = None  # of the run that wrote it; None: `doctor` did
    figures: TableFigures
