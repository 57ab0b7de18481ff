"""The engine for a piece of work, where the engine of the run is free to choose; the choice is told. An engine and the
figures of the work come in, the engine that does it goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.execute import engine_choice, engine_door
from iceberg_compaction.model import events
from iceberg_compaction.operations import run_facts

if TYPE_CHECKING:
    from iceberg_compaction.execute.engine_choice import WorkFigures
    from iceberg_compaction.execute.engine_door import Engine, Job
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run


def for_plan(engine: Engine, plan: Plan, run: Run, ledger: Ledger) -> Engine:
    """The engine for a plan; the outcome will tell which and why."""
    work = figures_of(plan)
    return _chosen(engine, work, plan.table, run, ledger)


def for_jobs(engine: Engine, jobs: list[Job], table: str, run: Run) -> Engine:
    """The engine for jobs that read files, and write little or nothing."""
    tasks = [task for job in jobs for task in job.tasks]
    files, size = sum(len(task.file_paths) for task in tasks), sum(task.bytes for task in tasks)
    return for_reading(engine, files, size, table, run)


def for_reading(engine: Engine, files: int, size: int, table: str, run: Run) -> Engine:
    """The same for files of which only number and size are known."""
    return _chosen(engine, engine_choice.WorkFigures.reading(files, size), table, run, None)


def figures_of(plan: Plan) -> WorkFigures:
    """The figures of a plan. Older plan files have no cost."""
    return engine_choice.WorkFigures(
        files=plan.input_files,
        bytes=plan.input_bytes,
        core_seconds=plan.cost.core_seconds or plan.copying.core_seconds,
    )


def _chosen(engine: Engine, work: WorkFigures, table: str, run: Run, ledger: Ledger | None) -> Engine:
    if not isinstance(engine, engine_door.ChoosesByWork):
        return engine
    chosen, choice = engine.for_work(work)
    run.emit(events.EngineChosen(table=table, run_id=run.run_id, engine=choice.engine, sentence=choice.sentence))
    if ledger is not None:
        ledger.note(run_facts.ChosenEngine(sentence=choice.sentence))
    return chosen
