"""The engine `auto`: small work is done in this process, other work on Spark. It is asked for an engine before each
piece of work; Spark starts when a piece needs it, and serves the later ones that are worth it."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from typing import TYPE_CHECKING

from iceberg_compaction.execute import engine_choice, engine_door

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType

    from typing_extensions import Self

    from iceberg_compaction.cancel import CancelToken
    from iceberg_compaction.execute.engine_choice import EngineChoice, SparkState, WorkFigures
    from iceberg_compaction.execute.engine_door import Engine, Job, RunningJob


class AutoEngine:
    """Used as a context manager, like Spark: its session ends with the `with`. `spark`: how to get that engine;
    `state`: what is known of it."""

    def __init__(
        self,
        *,
        inline: Engine,
        spark: Callable[[], AbstractContextManager[Engine]],
        state: Callable[[], SparkState],
        cores: int,
    ) -> None:
        self._inline = inline
        self._factory = spark
        self._state = state
        self._cores = cores
        self._spark: Engine | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spark = None
        self._open.close()

    def for_work(self, work: WorkFigures) -> tuple[Engine, EngineChoice]:
        """The engine for a piece of work, and why."""
        choice = engine_choice.choose(work, cores=self._cores, spark=self._known_state())
        if choice.engine == "inline":
            return self._inline, choice
        if self._spark is None:
            self._spark = self._open.enter_context(self._factory())
        return self._spark, choice

    def cores(self) -> int:
        """Of the engine that does small work; others are asked themselves."""
        return self._inline.cores()

    def start(self, job: Job, *, cancel: CancelToken) -> RunningJob:
        """The work on a job of which nobody gave figures before."""
        files, size = sum(len(task.file_paths) for task in job.tasks), sum(task.bytes for task in job.tasks)
        engine, _ = self.for_work(engine_choice.WorkFigures.reading(files, size))
        return engine.start(job, cancel=cancel)

    def _known_state(self) -> SparkState:
        state = self._state()
        if isinstance(self._spark, engine_door.StartsLate) and self._spark.starting is None:
            return dataclasses.replace(state, ready=True)
        return state
