"""An engine that several threads use at once: it must not start twice, so that they ask one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.execute.engine_door import ChoosesByWork, StartsLate

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from iceberg_compaction.cancel import CancelToken
    from iceberg_compaction.execute.engine_choice import EngineChoice, WorkFigures
    from iceberg_compaction.execute.engine_door import Engine, Job, RunningJob


def share(engine: Engine, lock: AbstractContextManager[object]) -> Engine:
    """The engine for many threads."""
    return (_SharedChoice if isinstance(engine, ChoosesByWork) else _SharedEngine)(engine, lock)


class _SharedEngine:
    """Asked for its cores under a lock, which starts it."""

    def __init__(self, engine: Engine, lock: AbstractContextManager[object]) -> None:
        self._engine = engine
        self._lock = lock

    @property
    def starting(self) -> str | None:
        return self._engine.starting if isinstance(self._engine, StartsLate) else None

    def cores(self) -> int:
        with self._lock:
            return self._engine.cores()

    def start(self, job: Job, *, cancel: CancelToken) -> RunningJob:
        return self._engine.start(job, cancel=cancel)


class _SharedChoice(_SharedEngine):
    """The same for an engine that chooses another one for each piece of work."""

    def for_work(self, work: WorkFigures) -> tuple[Engine, EngineChoice]:
        assert isinstance(self._engine, ChoosesByWork)
        with self._lock:
            engine, choice = self._engine.for_work(work)
        return _SharedEngine(engine, self._lock), choice
