"""Which engine a piece of work is worth, for those who leave the choice to us. Figures of the work, the cores of this
process and the state of Spark come in; an engine and the reason go out. Pure, so that every outside chooses alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from iceberg_compaction.model import plurals
from iceberg_compaction.model.byte_size import format_size

SMALL_SECONDS = 30.0  # of this process, up to which a start of Spark costs more than it brings
SMALL_SECONDS_READY = 5.0  # the same if Spark has started already
READ_RATE = 200e6  # bytes that a core reads and measures in a second, where a plan has no estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFigures:
    """The size of a piece of work, as its plan expects it."""

    files: int
    bytes: int
    core_seconds: float  # of one core

    @classmethod
    def reading(cls, files: int, size: int) -> WorkFigures:
        """The figures of work that reads files and writes little."""
        return cls(files=files, bytes=size, core_seconds=size / READ_RATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkState:
    """Spark as this process could use it. `missing`: why it cannot, as the end of a sentence; None: it can."""

    name: str = "Spark"
    missing: str | None = None
    ready: bool = False  # a session is open


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """An engine, and the reason in one sentence for people."""

    engine: Literal["inline", "spark"]
    sentence: str


def choose(work: WorkFigures, *, cores: int, spark: SparkState) -> EngineChoice:
    """`cores`: of this process."""
    seconds = work.core_seconds / max(1, cores)
    limit = SMALL_SECONDS_READY if spark.ready else SMALL_SECONDS
    amount = (
        f"{plurals.count(work.files, 'file')} ({format_size(work.bytes)}) take about {_span(seconds)} on "
        f"{plurals.count(cores, 'core')} of this process"
    )
    if work.files == 1:
        amount = amount.replace(" take ", " takes ", 1)
    if seconds <= limit:
        return EngineChoice(engine="inline", sentence=f"Engine inline: {amount}, so that {spark.name} is not needed.")
    if spark.missing is not None:
        return EngineChoice(
            engine="inline", sentence=f"Engine inline: {amount}, but Spark cannot be used: {spark.missing}."
        )
    started = "which runs already" if spark.ready else "which is worth its start"
    return EngineChoice(engine="spark", sentence=f"Engine spark: {amount}; they go to {spark.name}, {started}.")


def _span(seconds: float) -> str:
    return f"{math.ceil(seconds):,} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
