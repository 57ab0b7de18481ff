"""The contract of an engine, checked with real tasks on small files in a folder. A factory of the engine comes in;
AssertionError says which promise it breaks. execute/engine_door.py states the promises."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from iceberg_compaction import errors
from iceberg_compaction.cancel import CancelToken
from iceberg_compaction.execute.engine_door import Job
from iceberg_compaction.execute.task_failure import Failure
from iceberg_compaction.model.policies import ProofLevel, Sizes
from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from iceberg_compaction.execute.engine_door import Engine

    EngineFactory = Callable[[], Engine | AbstractContextManager[Engine]]

_ROWS = 50  # of each input file
_TASKS = 6


def check_engine(factory: EngineFactory, folder: Path) -> None:
    """Checks the engines that a factory makes. AssertionError: one breaks a promise. `folder`: a local folder that the
    engine's workers can read and write; files stay in it."""
    made: Any = factory()
    with made if hasattr(made, "__enter__") else nullcontext(made) as engine:
        assert engine.cores() >= 1, "cores must be at least 1"
        _check_results(engine, folder / "results")
        _check_names(engine, folder / "names")
        _check_failure(engine, folder / "failure")
        _check_leaving(engine, folder / "leaving")
        _check_cancelling(engine, folder / "cancelling")


def _check_results(engine: Engine, folder: Path) -> None:
    ends, staged = _perform(engine, _job(folder, _TASKS))
    done = sorted(end.task_id for end in ends if isinstance(end, TaskResult))
    assert done == list(range(_TASKS)), f"of {_TASKS} tasks these had a result: {done}"
    assert sorted(result.task_id for result in staged) == done, "staged has other results than there were"
    wrong = [result.task_id for result in staged if result.proof.failures or result.proof.rows != 2 * _ROWS]
    assert not wrong, f"tasks {wrong} have no proof of their rows"
    assert _outputs(folder) == _paths(staged), "there are other files than those of the results"
    assert _perform(engine, _job(folder / "none", 0)) == ([], []), "a job without tasks has results"


def _check_names(engine: Engine, folder: Path) -> None:
    job = _job(folder, 2)
    (_, first), (_, second) = _perform(engine, job), _perform(engine, job)
    assert not _paths(first) & _paths(second), "a second attempt at a task writes to the files of the first"


def _check_failure(engine: Engine, folder: Path) -> None:
    job = _job(folder, _TASKS)
    (folder / "in-1-0.parquet").unlink()
    ends, staged = _perform(engine, job)
    failed = [end for end in ends if isinstance(end, Failure)]
    assert [failure.task_id for failure in failed] == [1], "a task that cannot read its file is not reported as failed"
    assert "\n" not in failed[0].sentence, "the sentence of a failure has several lines"
    assert {result.task_id for result in staged} == set(range(_TASKS)) - {1}, (
        "a failed task stops those of other groups"
    )
    assert _outputs(folder) == _paths(staged), "a failed task leaves files behind"


def _check_leaving(engine: Engine, folder: Path) -> None:
    work = engine.start(_job(folder, _TASKS), cancel=CancelToken())
    with work:
        for _ in work.results():
            break
    assert work.staged, "a task was done, but staged does not have it"
    assert _outputs(folder) == _paths(work.staged), "whoever leaves early finds files that no result names"


def _check_cancelling(engine: Engine, folder: Path) -> None:
    token = CancelToken()
    token.cancel("the suite cancels it")
    raised = False
    work = engine.start(_job(folder, _TASKS), cancel=token)
    try:
        with work:
            for _ in work.results():
                pass
    except errors.CancelledError:
        raised = True
    assert raised, "a cancelled job does not raise CancelledError"
    assert _outputs(folder) == _paths(work.staged), "a cancelled job leaves files behind"


def _perform(engine: Engine, job: Job) -> tuple[list[Any], list[TaskResult]]:
    with engine.start(job, cancel=CancelToken()) as work:
        ends = list(work.results())
    return ends, list(work.staged)


def _job(folder: Path, count: int) -> Job:
    """Tasks of two files each, every one a group by itself."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = Schema(NestedField(1, "id", LongType()))
    context = RewriteContext(
        run_id="suite",
        table="testing.table",
        table_location=f"file://{folder}",  # a URI with escapes would name another folder
        table_schema=schema.model_dump_json(),
        partition_specs={0: UNPARTITIONED_PARTITION_SPEC.model_dump_json()},
        properties={},
        sizes=Sizes(target=1 << 20, min=1 << 19, max=1 << 21),
        verify=ProofLevel.CHECKSUM,
    )
    return Job(tasks=tuple(_task(folder, number, schema) for number in range(count)), context=context)


def _task(folder: Path, number: int, schema: Schema) -> RewriteTask:
    paths = [folder / f"in-{number}-{at}.parquet" for at in range(2)]
    for at, path in enumerate(paths):
        ids = range((2 * number + at) * _ROWS, (2 * number + at + 1) * _ROWS)
        pq.write_table(pa.table([list(ids)], schema=schema.as_arrow()), path)
    return RewriteTask(
        id=number,
        group_id=number,
        spec_id=0,
        partition="{}",
        file_paths=tuple(f"file://{path}" for path in paths),
        file_sizes=tuple(path.stat().st_size for path in paths),
        record_counts=(_ROWS, _ROWS),
    )


def _paths(results: Iterable[TaskResult]) -> set[str]:
    return {file.file_path.rpartition("/")[2] for result in results for file in result.staged}


def _outputs(folder: Path) -> set[str]:
    """The names of all files below the folder that are no inputs."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.name for path in files if not path.name.startswith("in-")}
