"""What every engine promises, whatever it runs on."""

from __future__ import annotations

import threading
import time
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
from iceberg_compaction.execute.engines.inline_engine import InlineEngine
from iceberg_compaction.execute.prepare.cut_tasks import build_tasks
from iceberg_compaction.execute.prepare.shared_context import build_context
from iceberg_compaction.execute.task_failure import Failure
from iceberg_compaction.metadata.look import look
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.plan.build import build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from iceberg_compaction.execute.engine_door import Engine, Rewrite, TaskEnd
    from iceberg_compaction.model.rewrite_task import StagedFile, TaskResult

    EngineOf: TypeAlias = Callable[[Rewrite | None], Engine]

_EVENTS = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "city", StringType(), required=False))


@pytest.fixture(params=["inline", pytest.param("spark", marks=pytest.mark.spark)])
def engine_of(request: pytest.FixtureRequest) -> EngineOf:
    if request.param == "inline":
        return lambda rewrite: InlineEngine(rewrite=rewrite)
    from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

    session = request.getfixturevalue("spark")
    return lambda rewrite: SparkEngine(session, rewrite=rewrite)


def test_an_engine_tells_how_much_it_does_at_a_time(engine_of: EngineOf) -> None:
    assert engine_of(engines.make_rewrite()).cores() >= 1


def test_results_come_in_task_order_and_are_reported_once_in_the_calling_thread(
    engine_of: EngineOf, tmp_path: Path
) -> None:
    reported: list[TaskResult] = []
    threads = set()

    def on_result(result: TaskResult) -> None:
        reported.append(result)
        threads.add(threading.current_thread())

    tasks = engines.make_tasks(7)
    results = engine_of(engines.make_rewrite()).run(tasks, engines.make_context(tmp_path), on_result)

    assert [result.task_id for result in results] == list(range(7))
    assert sorted(reported, key=lambda result: result.task_id) == results
    assert threads == {threading.current_thread()}
    assert engines.outputs(tmp_path) == engines.staged(results)
    assert results[3].proof.source.rows == 20


def test_real_rewrites_are_the_same_wherever_they_run(engine_of: EngineOf, local_lake: lakes.Lake) -> None:
    by_city = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="city"))
    table = lakes.make_table(local_lake.catalog, local_lake.name("events"), _EVENTS, spec=by_city)
    for number in range(6):
        ids = range(number * 30, number * 30 + 30)
        table.append(pa.table([ids, [f"city {id % 3}" for id in ids]], schema=_EVENTS.as_arrow()))
    view = look(table, name=local_lake.name("events"))
    plan = build(view, Policy(), plan_id="p", now_ms=0)
    tasks, context = build_tasks(plan), build_context(table, plan, "run")
    assert len(tasks) == 3

    here = InlineEngine().run(tasks, context, lambda result: None)
    there = engine_of(None).run(tasks, context, lambda result: None)

    assert [result.proof for result in there] == [result.proof for result in here]
    assert sum(result.proof.source.rows for result in there) == 180
    for mine, theirs in zip(here, there, strict=True):
        assert [_content(file) for file in mine.staged] == [_content(file) for file in theirs.staged]
        assert {file.file_path for file in mine.staged}.isdisjoint(file.file_path for file in theirs.staged)


def _content(file: StagedFile) -> tuple[pa.Table, StagedFile]:
    path = file.file_path.removeprefix("file://")
    return pq.read_table(path, partitioning=None), file.model_copy(update={"file_path": ""})


def test_two_runs_never_write_the_same_names(engine_of: EngineOf, tmp_path: Path) -> None:
    engine, context = engine_of(engines.make_rewrite()), engines.make_context(tmp_path)
    first = engine.run(engines.make_tasks(2), context, lambda result: None)
    second = engine.run(engines.make_tasks(2), context, lambda result: None)
    assert engines.staged(first).isdisjoint(engines.staged(second))


def test_no_tasks_no_work(engine_of: EngineOf, tmp_path: Path) -> None:
    assert engine_of(engines.make_rewrite()).run([], engines.make_context(tmp_path), pytest.fail) == []


def test_a_task_that_fails_is_reported_and_others_go_on(engine_of: EngineOf, tmp_path: Path) -> None:
    reported: list[TaskEnd] = []
    engine = engine_of(engines.make_rewrite({3: engines.REFUSE, 6: engines.REFUSE}))
    results = engine.run(engines.make_tasks(12), engines.make_context(tmp_path), reported.append)
    failed = {end.task_id: end for end in reported if isinstance(end, Failure)}
    assert {number: (end.group_id, end.sentence) for number, end in failed.items()} == {
        3: (1, "Task 3 lost a row."),
        6: (3, "Task 6 lost a row."),
    }
    assert type(failed[3].rebuild()) is errors.ProofError
    done = {result.task_id for result in results}
    assert {0, 1, 2, 4, 5, 8, 9, 10, 11} <= done
    assert done <= set(range(12)) - {3, 6}  # 7 is of the same group as 6, and may be left out
    assert {end.task_id for end in reported} == done | {3, 6}
    assert engines.outputs(tmp_path) == engines.staged(results)


def test_other_errors_become_one_sentence_without_secrets(engine_of: EngineOf, tmp_path: Path) -> None:
    reported: list[TaskEnd] = []
    engine = engine_of(engines.make_rewrite({5: engines.CRASH}))
    results = engine.run(engines.make_tasks(6), engines.make_context(tmp_path), reported.append)
    (told,) = [end.sentence for end in reported if isinstance(end, Failure)]
    assert told.startswith(
        "Rewriting 2 files of shop.events (group 2, task 5) failed with ZeroDivisionError: went wrong"
    )
    assert engines.SECRET not in told
    assert "\n" not in told
    assert engines.outputs(tmp_path) == engines.staged(results)


def test_a_listener_may_end_the_run_because_of_a_failure(engine_of: EngineOf, tmp_path: Path) -> None:
    reported: list[TaskEnd] = []

    def on_end(end: TaskEnd) -> None:
        reported.append(end)
        if isinstance(end, Failure):
            raise end.rebuild()

    engine = engine_of(engines.make_rewrite({3: engines.REFUSE}))
    with pytest.raises(errors.ProofError, match=r"^Task 3 lost a row\.$"):
        engine.run(engines.make_tasks(12), engines.make_context(tmp_path), on_end)
    done = [end for end in reported if not isinstance(end, Failure)]
    assert engines.outputs(tmp_path) == engines.staged(done)


def test_cancel_from_another_thread_leaves_nothing_unreported(engine_of: EngineOf, tmp_path: Path) -> None:
    reported: list[TaskResult] = []
    engine = engine_of(engines.make_rewrite())

    def on_result(result: TaskResult) -> None:
        reported.append(result)
        thread = threading.Thread(target=engine.cancel)
        thread.start()
        thread.join()

    with pytest.raises(errors.CancelledError, match=r"shop\.events"):
        engine.run(engines.make_tasks(40), engines.make_context(tmp_path), on_result)
    assert 0 < len(reported) < 40
    assert engines.outputs(tmp_path) == engines.staged(reported)
    with pytest.raises(errors.CancelledError):
        engine.run(engines.make_tasks(1), engines.make_context(tmp_path), pytest.fail)


def test_an_error_of_the_listener_ends_the_run(engine_of: EngineOf, tmp_path: Path) -> None:
    def on_result(result: TaskResult) -> None:
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        engine_of(engines.make_rewrite({39: engines.WAIT})).run(
            engines.make_tasks(40), engines.make_context(tmp_path), on_result
        )
    assert time.monotonic() - start < 30
