"""The safety rule of the product: stage, commit, sweep. Staged files go when their commit surely did not land, stay
when that is unknown, and nothing else is ever deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import storage

from iceberg_compaction import Kind, Policy, errors
from iceberg_compaction.execute.inline import InlineEngine
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.record.sqlite import RunStore
from iceberg_compaction.workflow import apply, tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from iceberg_compaction.model.plan import Plan
    from iceberg_compaction.model.task import RewriteContext, RewriteTask, TaskResult

POLICY = Policy.model_validate({"min-input-files": 2, "max-file-group-input-files": 2})


class Then:
    """An engine that does real work and then something else."""

    def __init__(self, then: Callable[[list[TaskResult]], list[TaskResult]]) -> None:
        self._then = then

    def __call__(self) -> Then:
        return self

    def __enter__(self) -> Then:
        return self

    def __exit__(self, *stop: object) -> None:
        """Nothing to close."""

    def cancel(self) -> None:
        """Nothing runs."""

    def cores(self) -> int:
        return 1

    def run(
        self, tasks: Sequence[RewriteTask], context: RewriteContext, on_result: Callable[[TaskResult], None]
    ) -> list[TaskResult]:
        results = InlineEngine().run(tasks, context, lambda result: None)
        kept = self._then(results)
        for result in kept:
            on_result(result)
        return kept


@pytest.fixture
def prepared(local_lake: lakes.Lake) -> tuple[lakes.Lake, Plan]:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 6)
    return local_lake, tables.plan_table(local_lake.catalog, "db.t", POLICY, wiring.new_run())


def files(lake: lakes.Lake) -> set[str]:
    return storage.files_under(lake.catalog.load_table("db.t"))


def fail(error: BaseException) -> Callable[[list[TaskResult]], list[TaskResult]]:
    def raiser(results: list[TaskResult]) -> list[TaskResult]:
        raise error

    return raiser


class Broken(Then):
    """Reports some results and then fails, as an engine does when a later task goes wrong."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def run(
        self, tasks: Sequence[RewriteTask], context: RewriteContext, on_result: Callable[[TaskResult], None]
    ) -> list[TaskResult]:
        InlineEngine().run(tasks[:2], context, on_result)
        raise self._error


@pytest.mark.parametrize("error", [errors.ExecuteError("no"), errors.ProofError("no")])
def test_a_failed_task_sweeps_what_other_tasks_staged(prepared: Any, error: errors.ExecuteError) -> None:
    lake, plan = prepared
    before = files(lake)
    outcome = tables.apply_plan(lake.catalog, plan, Broken(error), wiring.new_run())
    assert (outcome.kind, outcome.sentence) == (Kind.FAILED, "no")
    assert files(lake) == before


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), errors.CancelledError("stopped"), RuntimeError("bug")])
def test_whatever_stops_the_rewrite_leaves_nothing_behind(prepared: Any, stop: BaseException) -> None:
    lake, plan = prepared
    before = files(lake)
    with pytest.raises(type(stop)):
        tables.apply_plan(lake.catalog, plan, Broken(stop), wiring.new_run())
    assert files(lake) == before


def test_a_lost_result_is_no_proof(prepared: Any) -> None:
    lake, plan = prepared
    before = rows(lake)
    outcome = tables.apply_plan(lake.catalog, plan, Then(lambda results: results[1:]), wiring.new_run())
    assert outcome.kind is Kind.FAILED
    assert "2 results came back for 3 tasks" in outcome.sentence
    assert rows(lake) == before


def test_a_result_with_a_failed_proof_is_not_committed(prepared: Any) -> None:
    lake, plan = prepared
    before = files(lake)

    def forge(results: list[TaskResult]) -> list[TaskResult]:
        first = results[0]
        sink = first.proof.sink.model_copy(update={"rows": first.proof.sink.rows - 1})
        return [
            first.model_copy(update={"proof": first.proof.model_copy(update={"sink": sink})}),
            *results[1:],
        ]

    outcome = tables.apply_plan(lake.catalog, plan, Then(forge), wiring.new_run())
    assert outcome.kind is Kind.FAILED
    assert "20 rows were read but the writer got 19" in outcome.sentence
    assert files(lake) == before


def test_an_unknown_commit_state_deletes_nothing(prepared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, plan = prepared
    before = files(lake)
    monkeypatch.setattr(apply.replace, "replace", lambda *given, **more: fail(errors.StateUnknownError("?"))([]))
    outcome = tables.apply_plan(lake.catalog, plan, wiring.engine_factory("inline"), wiring.new_run())
    assert outcome.kind is Kind.FAILED
    staged = files(lake) - before
    assert len(staged) == 3
    assert all(path.endswith(".parquet") for path in staged)


def test_another_table_of_the_same_name_is_not_touched(prepared: Any) -> None:
    lake, plan = prepared
    lake.catalog.drop_table("db.t")
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 2)
    outcome = tables.apply_plan(lake.catalog, plan, wiring.engine_factory("inline"), wiring.new_run())
    assert outcome.kind is Kind.CONFLICT
    assert "uuid" in outcome.sentence


def test_a_run_is_remembered_whatever_its_end(prepared: Any, tmp_path: Path) -> None:
    lake, plan = prepared
    store = RunStore(tmp_path / "state" / "runs.db")
    failed = tables.apply_plan(lake.catalog, plan, Broken(errors.ExecuteError("no")), wiring.new_run(store=store))
    done = tables.apply_plan(lake.catalog, plan, wiring.engine_factory("inline"), wiring.new_run(store=store))
    assert {record.run_id: record.outcome for record in store.history("db.t")} == {
        failed.run_id: failed,
        done.run_id: done,
    }
    assert store.history("db.other") == []


def test_a_store_that_cannot_be_written_does_not_fail_the_run(prepared: Any, tmp_path: Path) -> None:
    lake, plan = prepared
    (tmp_path / "file").write_text("in the way")
    run = wiring.new_run(store=RunStore(tmp_path / "file" / "runs.db"))
    assert tables.apply_plan(lake.catalog, plan, wiring.engine_factory("inline"), run).kind is Kind.COMPACTED


def rows(lake: lakes.Lake) -> Any:
    return storage.row_multiset(lake.catalog.load_table("db.t").scan().to_arrow())
