"""What only Spark can do wrong: retries, kills, lost processes, and pages that show too much or too little."""

from __future__ import annotations

import importlib
import json
import threading
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import engines

from iceberg_compaction import errors
from iceberg_compaction.cancel import CancelToken
from iceberg_compaction.execute.engine_door import Job
from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine
from iceberg_compaction.execute.task_failure import Failure

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from iceberg_compaction.execute.engine_door import Rewrite
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult

pytestmark = pytest.mark.spark


def _page(spark: SparkSession, path: str) -> Any:
    context = spark.sparkContext
    with urllib.request.urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{path}") as answer:
        return json.load(answer)


def _wait_for(condition: Any, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_retry_writes_other_names_and_leaves_nothing_of_the_first_attempt(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Four tasks on two cores travel in pairs: 0 has finished when 1 crashes, and both are done again.
    rewrite = engines.make_rewrite({1: engines.CRASH_ONCE})
    results, _ = engines.perform(SparkEngine(spark, rewrite=rewrite), engines.make_job(4, tmp_path, size=0))
    first_attempt = (tmp_path / "crashed-1").read_text()
    assert first_attempt.split("-")[1] == "0"
    assert (
        len({path.rsplit("-", maxsplit=1)[1] for path in engines.staged(results[:2])}) == 1
    )  # one attempt, both tasks
    assert [result.left_behind for result in results] == [True, True, False, False]  # a crash may leave something
    assert not [path for path in engines.outputs(tmp_path) if first_attempt in path]
    assert engines.outputs(tmp_path) == engines.staged(results)


def test_jobs_are_named_after_table_and_step(spark: SparkSession, tmp_path: Path) -> None:
    job = engines.make_job(3, tmp_path, table="shop.named")
    engines.perform(SparkEngine(spark, rewrite=engines.make_rewrite()), job)

    def named() -> list[str]:
        told = [job.get("description", "") for job in _page(spark, "jobs")]
        return sorted(text for text in told if "shop.named" in text)

    _wait_for(lambda: len(named()) == 3)
    assert named() == [
        "iceberg-compaction: shop.named, rewrite task 1/3 (group 0, 2 files)",
        "iceberg-compaction: shop.named, rewrite task 2/3 (group 0, 2 files)",
        "iceberg-compaction: shop.named, rewrite task 3/3 (group 1, 2 files)",
    ]


def test_no_page_shows_a_credential(spark: SparkSession, tmp_path: Path) -> None:
    engine = SparkEngine(spark, rewrite=engines.make_rewrite({2: engines.CRASH}))
    engines.perform(engine, engines.make_job(3, tmp_path, table="shop.secret"))
    told = json.dumps([_page(spark, path) for path in ("jobs", "stages?details=true", "environment")])
    assert "shop.secret" in told
    assert "collect at" in told  # stages with their code are in it
    assert engines.SECRET not in told
    assert "AKIDEXAMPLE" not in told


def test_a_session_passed_in_stays_open_and_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    with SparkEngine(spark, rewrite=engines.make_rewrite()) as engine:
        engines.perform(engine, engines.make_job(2, tmp_path))
    assert spark.range(3).count() == 3
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


def test_an_active_session_is_used_and_never_stopped(spark: SparkSession, tmp_path: Path) -> None:
    with SparkEngine(conf={"spark.app.name": "ignored"}, rewrite=engines.make_rewrite()) as engine:
        engines.perform(engine, engines.make_job(2, tmp_path))
    assert spark.range(3).count() == 3


def test_cancel_stops_running_tasks_at_once_and_they_clean_up(spark: SparkSession, tmp_path: Path) -> None:
    engine = SparkEngine(spark, rewrite=engines.make_rewrite({1: engines.WAIT, 2: engines.WAIT}))
    cancelled, token = [], CancelToken()

    def cancel() -> None:
        _wait_for(lambda: len(list(tmp_path.glob("started-*"))) == 2)
        cancelled.append(time.monotonic())
        token.cancel("Enough.")

    thread = threading.Thread(target=cancel)
    thread.start()
    work = engine.start(engines.make_job(4, tmp_path, size=0), cancel=token)
    with pytest.raises(errors.CancelledError), work:
        list(work.results())
    took = time.monotonic() - cancelled[0]
    thread.join()
    assert took < 3
    assert [result.task_id for result in work.staged] == [0]  # it had finished in the job that was stopped
    assert engines.outputs(tmp_path) == engines.staged(work.staged)


def test_a_job_killed_by_somebody_else_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    engine = SparkEngine(spark, rewrite=engines.make_rewrite({0: engines.WAIT}))

    def kill() -> None:
        _wait_for(lambda: (tmp_path / "started-0").exists())
        spark.sparkContext.cancelAllJobs()

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(errors.ExecuteError, match=r"rewrite task 1/1 .* failed: .*cancelled") as caught:
        engines.perform(engine, engines.make_job(1, tmp_path))
    thread.join()
    assert "\n" not in str(caught.value)


def test_a_python_process_that_dies_costs_its_own_group(spark: SparkSession, tmp_path: Path) -> None:
    """Four tasks on two cores travel in pairs: 3 dies with 2, and is done again."""
    engine = SparkEngine(spark, rewrite=engines.make_rewrite({2: engines.DIE}))
    tasks = tuple(task.model_copy(update={"group_id": task.id}) for task in engines.make_tasks(4, size=0))
    ends, _ = engines.perform(engine, Job(tasks=tasks, context=engines.make_context(tmp_path)))
    results = [end for end in ends if not isinstance(end, Failure)]
    assert [result.task_id for result in results] == [0, 1, 3]
    (failed,) = [end for end in ends if isinstance(end, Failure)]
    assert (failed.task_id, failed.group_id, failed.left_behind) == (2, 2, True)
    assert failed.sentence.startswith(
        "Spark job 'iceberg-compaction: shop.events, rewrite task 3/4 (group 2, 2 files)'"
    )
    assert "Python worker" in failed.sentence
    assert "\n" not in failed.sentence
    assert [result.left_behind for result in results] == [False, False, True]  # with the process died its clean-up


def test_a_python_without_our_packages_ends_the_run(spark: SparkSession, tmp_path: Path) -> None:
    def rewrite(task: RewriteTask, context: RewriteContext, attempt: str) -> TaskResult:
        raise AssertionError

    engine = SparkEngine(spark, rewrite=_Untravelled(rewrite))
    with pytest.raises(errors.ExecuteError, match="Spark's workers run another Python"):
        engines.perform(engine, engines.make_job(1, tmp_path))


class _Untravelled:
    """Is pickled by the name of a module that workers do not have."""

    def __init__(self, rewrite: Rewrite) -> None:
        self._rewrite = rewrite

    def __call__(self, task: RewriteTask, context: RewriteContext, attempt: str) -> TaskResult:
        return self._rewrite(task, context, attempt)

    def __reduce__(self) -> tuple[Any, ...]:
        return importlib.import_module, ("a_module_that_is_not_there",)
