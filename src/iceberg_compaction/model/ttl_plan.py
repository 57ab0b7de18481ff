"""Rows past their time: the goal of `ttl`, and the plan of which files go as a whole."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

from pydantic import Field

from iceberg_compaction.model.table_view import Pin
from iceberg_compaction.model.upkeep_plan import UpkeepPlan
from iceberg_compaction.model.value import Count, Value


class TimeUnit(str, Enum):
    """What a column of whole numbers counts since 1970."""

    DAYS = "days"
    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"

    @property
    def micros(self) -> int:
        return {"days": 86_400_000_000, "s": 1_000_000, "ms": 1000, "us": 1}[self.value]


class Since(str, Enum):
    """The moment that an age is counted from."""

    NOW = "now"
    LAST_WRITE = "last-write"  # the newest commit that brought or changed rows: housekeeping does not count


class RestRows(str, Enum):
    """What becomes of rows past their time that share a file with others."""

    KEEP = "keep"
    REWRITE = "rewrite"  # their files are written anew without them


class TtlGoal(Value):
    """Which rows are past their time."""

    column: Annotated[str, Field(min_length=1, description="a date, a timestamp, or a whole number with a unit")]
    older_than_ms: Annotated[Count | None, Field(description="age of the rows that go")] = None
    before_micros: Annotated[int | None, Field(description="rows before this moment go, instead of an age")] = None
    unit: TimeUnit | None = None
    since: Since = Since.NOW
    whole_partitions: Annotated[bool, Field(description="a partition goes only if all of its files do")] = False
    rows: Annotated[RestRows, Field(description="rows past their time in files with others")] = RestRows.KEEP
    even_everything: Annotated[bool, Field(description="go on if no row of the table would be left")] = False


class TtlPlan(UpkeepPlan):
    """The data files all of whose rows are past their time, and those that may hold some."""

    operation: Literal["ttl"] = "ttl"
    goal: TtlGoal
    pin: Pin | None  # None: the table has no snapshot
    before: str  # the moment in words
    before_micros: int
    file_paths: tuple[str, ...] = ()
    rewritten_paths: tuple[str, ...] = ()  # files that are written anew without such rows
