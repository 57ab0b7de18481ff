"""What every engine promises, whatever it runs on."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from tests.factories import engines
from tests.factories import lake as lakes

from iceberg_compaction import errors
from iceberg_compaction.cancel import CancelToken
from iceberg_compaction.execute.engine_choice import SparkState
from iceberg_compaction.execute.engine_door import Job
from iceberg_compaction.execute.engines.auto_engine import AutoEngine
from iceberg_compaction.execute.engines.fake_engine import FakeEngine
from iceberg_compaction.execute.engines.inline_engine import InlineEngine
from iceberg_compaction.execute.prepare.cut_tasks import build_tasks
from iceberg_compaction.execute.prepare.shared_context import build_context
from iceberg_compaction.execute.task_failure import Failure
from iceberg_compaction.metadata.look import look
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.plan.build import build

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from iceberg_compaction.execute.engine_door import Engine, Rewrite, TaskEnd
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, StagedFile, TaskResult

    EngineOf: TypeAlias = Callable[[Rewrite | None], Engine]

_EVENTS = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "city", StringType(), required=False))


@pytest.fixture(params=["inline", "auto", "fake", pytest.param("spark", marks=pytest.mark.spark)])
def engine_of(request: pytest.FixtureRequest) -> EngineOf:
    if request.param == "inline":
        return lambda rewrite: InlineEngine(rewrite=rewrite)
    if request.param == "auto":
        return lambda rewrite: AutoEngine(
            inline=InlineEngine(rewrite=rewrite), spark=engines.no_engine, state=SparkState, cores=1
        )
    if request.param == "fake":
        return lambda rewrite: FakeEngine(engines.in_pairs, rewrite=rewrite)
    from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

    session = request.getfixturevalue("spark")
    return lambda rewrite: SparkEngine(session, rewrite=rewrite)


def test_an_engine_tells_how_much_it_does_at_a_time(engine_of: EngineOf) -> None:
    assert engine_of(engines.make_rewrite()).cores() >= 1


def test_every_result_comes_once_and_all_of_them_are_staged(engine_of: EngineOf, tmp_path: Path) -> None:
    results, staged = engines.perform(engine_of(engines.make_rewrite()), engines.make_job(7, tmp_path))
    assert [result.task_id for result in results] == list(range(7))
    assert sorted(staged, key=lambda result: result.task_id) == results
    assert engines.outputs(tmp_path) == engines.staged(staged)
    assert results[3].proof.source.rows == 20


def test_real_rewrites_are_the_same_wherever_they_run(engine_of: EngineOf, local_lake: lakes.Lake) -> None:
    by_city = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="city"))
    table = lakes.make_table(local_lake.catalog, local_lake.name("events"), _EVENTS, spec=by_city)
    for number in range(6):
        ids = range(number * 30, number * 30 + 30)
        table.append(pa.table([ids, [f"city {id % 3}" for id in ids]], schema=_EVENTS.as_arrow()))
    view = look(table, name=local_lake.name("events")).view
    plan = build(view, Policy(), plan_id="p", now_ms=0)
    job = Job(tasks=tuple(build_tasks(plan)), context=build_context(table, plan, "run"))
    assert len(job.tasks) == 3

    here, _ = engines.perform(InlineEngine(), job)
    there, _ = engines.perform(engine_of(None), job)

    assert [result.proof for result in there] == [result.proof for result in here]
    assert sum(result.proof.source.rows for result in there) == 180
    for mine, theirs in zip(here, there, strict=True):
        assert [_content(file) for file in mine.staged] == [_content(file) for file in theirs.staged]
        assert {file.file_path for file in mine.staged}.isdisjoint(file.file_path for file in theirs.staged)


def _content(file: StagedFile) -> tuple[pa.Table, StagedFile]:
    path = file.file_path.removeprefix("file://")
    return pq.read_table(path, partitioning=None), file.model_copy(update={"file_path": ""})


def test_two_jobs_never_write_the_same_names(engine_of: EngineOf, tmp_path: Path) -> None:
    engine, job = engine_of(engines.make_rewrite()), engines.make_job(2, tmp_path)
    first, _ = engines.perform(engine, job)
    second, _ = engines.perform(engine, job)
    assert engines.staged(first).isdisjoint(engines.staged(second))


def test_no_tasks_no_work(engine_of: EngineOf, tmp_path: Path) -> None:
    assert engines.perform(engine_of(engines.make_rewrite()), engines.make_job(0, tmp_path)) == ([], [])


def test_a_task_that_fails_is_reported_and_others_go_on(engine_of: EngineOf, tmp_path: Path) -> None:
    engine = engine_of(engines.make_rewrite({3: engines.REFUSE, 6: engines.REFUSE}))
    ends, staged = engines.perform(engine, engines.make_job(12, tmp_path))
    failed = {end.task_id: end for end in ends if isinstance(end, Failure)}
    assert {number: (end.group_id, end.sentence) for number, end in failed.items()} == {
        3: (1, "Task 3 lost a row."),
        6: (3, "Task 6 lost a row."),
    }
    assert type(failed[3].rebuild()) is errors.ProofError
    done = {result.task_id for result in staged}
    assert {0, 1, 2, 4, 5, 8, 9, 10, 11} <= done
    assert done <= set(range(12)) - {3, 6}  # 7 is of the same group as 6, and may be left out
    assert {end.task_id for end in ends} == done | {3, 6}
    assert engines.outputs(tmp_path) == engines.staged(staged)


def test_other_errors_become_one_sentence_without_secrets(engine_of: EngineOf, tmp_path: Path) -> None:
    engine = engine_of(engines.make_rewrite({5: engines.CRASH}))
    ends, staged = engines.perform(engine, engines.make_job(6, tmp_path))
    (sentence,) = [end.sentence for end in ends if isinstance(end, Failure)]
    assert sentence.startswith(
        "Rewriting 2 files of shop.events (group 2, task 5) failed with ZeroDivisionError: went wrong"
    )
    assert engines.SECRET not in sentence
    assert "\n" not in sentence
    assert engines.outputs(tmp_path) == engines.staged(staged)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError])
def test_whatever_is_raised_in_the_loop_every_file_is_of_a_staged_result(
    engine_of: EngineOf, tmp_path: Path, stop: type[BaseException]
) -> None:
    """The last task would take a minute: whoever leaves the work does not wait for it."""
    work = engine_of(engines.make_rewrite({39: engines.WAIT})).start(
        engines.make_job(40, tmp_path), cancel=CancelToken()
    )

    def leave() -> None:
        with work:
            for _ in work.results():
                raise stop

    with pytest.raises(stop):
        leave()
    assert 0 < len(work.staged) < 40
    assert engines.outputs(tmp_path) == engines.staged(work.staged)


def test_a_loop_that_ends_early_stops_the_work(engine_of: EngineOf, tmp_path: Path) -> None:
    engine = engine_of(engines.make_rewrite({3: engines.REFUSE, 39: engines.WAIT}))
    with engine.start(engines.make_job(40, tmp_path), cancel=CancelToken()) as work:
        for end in work.results():
            if isinstance(end, Failure):
                break
    assert 0 < len(work.staged) < 40
    assert engines.outputs(tmp_path) == engines.staged(work.staged)


def test_work_that_nobody_takes_results_of_leaves_no_file_unknown(engine_of: EngineOf, tmp_path: Path) -> None:
    with engine_of(engines.make_rewrite()).start(engines.make_job(4, tmp_path), cancel=CancelToken()) as work:
        pass
    assert engines.outputs(tmp_path) == engines.staged(work.staged)


def test_a_cancel_from_another_thread_leaves_no_file_unknown(engine_of: EngineOf, tmp_path: Path) -> None:
    ends: list[TaskEnd] = []
    cancel = CancelToken()
    work = engine_of(engines.make_rewrite()).start(engines.make_job(40, tmp_path), cancel=cancel)

    def take() -> None:
        with work:
            for end in work.results():
                ends.append(end)
                thread = threading.Thread(target=cancel.cancel, args=["Enough."])
                thread.start()
                thread.join()

    with pytest.raises(errors.CancelledError, match=r"^Enough\.$"):
        take()
    assert 0 < len(ends) < 40
    assert {end.task_id for end in ends} <= {result.task_id for result in work.staged}
    assert engines.outputs(tmp_path) == engines.staged(work.staged)


def test_a_run_that_is_cancelled_does_no_further_work(engine_of: EngineOf, tmp_path: Path) -> None:
    cancel = CancelToken()
    cancel.cancel("Enough.")
    work = engine_of(engines.make_rewrite()).start(engines.make_job(4, tmp_path), cancel=cancel)
    with pytest.raises(errors.CancelledError), work:
        pytest.fail(f"a result: {next(work.results())}")
    assert not engines.outputs(tmp_path)


def test_a_cancel_waits_for_the_end_of_a_shield(engine_of: EngineOf, tmp_path: Path) -> None:
    cancel = CancelToken()
    with engine_of(engines.make_rewrite()).start(engines.make_job(4, tmp_path), cancel=cancel) as work:
        results = work.results()
        next(results)
        with cancel.shield():
            cancel.cancel("Enough.")
            next(results)
        with pytest.raises(errors.CancelledError):
            list(results)


def test_bytes_are_reported_while_a_task_runs(engine_of: EngineOf, tmp_path: Path) -> None:
    """The first task does not end before somebody has heard of it."""

    def rewrite(task: RewriteTask, context: RewriteContext, attempt: str) -> TaskResult:
        import time
        from pathlib import Path

        from iceberg_compaction.storage import task_progress

        task_progress.current().read(task.bytes)
        while task.id == 0 and not (Path(context.table_location) / "heard").exists():
            time.sleep(0.01)
        return fine(task, context, attempt)

    def on_progress(done: Mapping[int, int]) -> None:
        heard.update(done)
        if done.get(0):
            (tmp_path / "heard").touch()

    fine, heard = engines.make_rewrite(), dict[int, int]()
    job = dataclasses.replace(engines.make_job(2, tmp_path), on_progress=on_progress)
    results, _ = engines.perform(engine_of(rewrite), job)
    assert [result.task_id for result in results] == [0, 1]
    assert heard[0] == job.tasks[0].bytes // 2  # all is read, nothing is written
