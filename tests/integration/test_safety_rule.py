"""The safety rule of the product: stage, commit, sweep. Staged files go when their commit surely did not land, stay
when that is unknown, and nothing else is ever deleted; for a commit of everything, and for each batch alone (R14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import storage, work

from iceberg_compaction import Kind, Policy, errors
from iceberg_compaction.execute.engines.fake_engine import FakeEngine
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.outcome import GroupEnd
from iceberg_compaction.operations.rewrite_files import commit_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import TaskResult

OPTIONS = {"min-input-files": 2, "max-file-group-input-files": 2}
POLICY = Policy.model_validate(OPTIONS | {"partial-progress": False})
BATCHES = Policy.model_validate(OPTIONS | {"partial-progress": True})


def all_at_once(then: Callable[[list[Any]], Iterable[Any]] = list) -> FakeEngine:
    """All tasks are done before the first is reported, and then something else happens to their results."""
    return FakeEngine(lambda ends: then(list(ends)))


def broken(error: BaseException) -> FakeEngine:
    """Two results are reported; the third task is done, too, when the engine fails."""
    return all_at_once(lambda ends: [*ends[:2], error])


@pytest.fixture
def prepared(local_lake: lakes.Lake) -> tuple[lakes.Lake, Plan]:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 6)
    return local_lake, work.plan_table(local_lake.catalog, "db.t", POLICY, wiring.new_run())


def files(lake: lakes.Lake) -> set[str]:
    return storage.files_under(lake.catalog.load_table("db.t"))


def fail(error: BaseException) -> Callable[..., Any]:
    def raiser(*given: Any) -> Any:
        raise error

    return raiser


@pytest.mark.parametrize("error", [errors.ExecuteError("no"), errors.ProofError("no")])
def test_a_failed_task_sweeps_what_other_tasks_staged(prepared: Any, error: errors.ExecuteError) -> None:
    lake, plan = prepared
    before = files(lake)
    outcome = work.apply_plan(lake.catalog, plan, broken(error), wiring.new_run())
    assert (outcome.kind, outcome.sentence) == (Kind.FAILED, "no")
    assert files(lake) == before


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), errors.CancelledError("stopped"), RuntimeError("bug")])
def test_whatever_stops_the_rewrite_leaves_nothing_behind(prepared: Any, stop: BaseException) -> None:
    lake, plan = prepared
    before = files(lake)
    with pytest.raises(type(stop)):
        work.apply_plan(lake.catalog, plan, broken(stop), wiring.new_run())
    assert files(lake) == before


def test_a_lost_result_is_no_proof(prepared: Any) -> None:
    lake, plan = prepared
    before = rows(lake)
    outcome = work.apply_plan(lake.catalog, plan, all_at_once(lambda ends: ends[1:]), wiring.new_run())
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

    outcome = work.apply_plan(lake.catalog, plan, all_at_once(forge), wiring.new_run())
    assert outcome.kind is Kind.FAILED
    assert "20 rows were read but the writer got 19" in outcome.sentence
    assert files(lake) == before


def test_an_unknown_commit_state_deletes_nothing(prepared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, plan = prepared
    before = files(lake)
    monkeypatch.setattr(commit_batch.replace_files, "replace", fail(errors.StateUnknownError("?")))
    outcome = work.apply_plan(lake.catalog, plan, wiring.engine_factory("inline"), wiring.new_run())
    assert outcome.kind is Kind.FAILED
    staged = files(lake) - before
    assert len(staged) == 3
    assert all(path.endswith(".parquet") for path in staged)


def test_another_table_of_the_same_name_is_not_touched(prepared: Any) -> None:
    lake, plan = prepared
    lake.catalog.drop_table("db.t")
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 2)
    outcome = work.apply_plan(lake.catalog, plan, wiring.engine_factory("inline"), wiring.new_run())
    assert outcome.kind is Kind.CONFLICT
    assert "uuid" in outcome.sentence


@pytest.fixture
def batches(prepared: Any) -> tuple[lakes.Lake, Plan]:
    """The same table, of which every group is a commit of its own."""
    lake, _ = prepared
    return lake, work.plan_table(lake.catalog, "db.t", BATCHES, wiring.new_run())


def names(paths: Iterable[str]) -> set[str]:
    return {path.rpartition("/")[2] for path in paths}


def live(lake: lakes.Lake, plan: Plan) -> set[str]:
    """Data files that the table's head refers to, and the plan does not."""
    found = lake.catalog.load_table("db.t").inspect.data_files()["file_path"].to_pylist()
    return names(found) - names(plan.files["file_path"].to_pylist())


def staged(lake: lakes.Lake, plan: Plan) -> set[str]:
    """Data files in the table's folder that the plan does not refer to."""
    return names(path for path in files(lake) if path.endswith(".parquet")) - names(plan.files["file_path"].to_pylist())


def ends(outcome: Any) -> list[GroupEnd]:
    return [one.outcome for one in outcome.group_outcomes]


def test_what_landed_before_a_failure_stays_and_is_told(batches: Any) -> None:
    lake, plan = batches
    before = rows(lake)
    outcome = work.apply_plan(lake.catalog, plan, broken(errors.ExecuteError("No.")), wiring.new_run())
    assert outcome.kind is Kind.FAILED
    assert outcome.sentence.startswith("No. Before that 2 of 3 groups landed and stay: 4 files")
    assert ends(outcome) == [GroupEnd.COMMITTED, GroupEnd.COMMITTED, GroupEnd.NOT_REACHED]
    assert (outcome.groups, outcome.groups_landed, len(outcome.snapshot_ids)) == (3, 2, 2)
    assert staged(lake, plan) == live(lake, plan)
    assert rows(lake) == before


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), errors.CancelledError("Stopped."), RuntimeError("bug")])
def test_a_stopped_run_is_remembered_with_what_landed(batches: Any, stop: BaseException, tmp_path: Path) -> None:
    lake, plan = batches
    store = wiring.run_store(tmp_path / "runs.db")
    before = rows(lake)
    with pytest.raises(type(stop)) as caught:
        work.apply_plan(lake.catalog, plan, broken(stop), wiring.new_run(store=store))
    if isinstance(stop, errors.CancelledError):
        assert str(caught.value).startswith("Stopped. Before that 2 of 3 groups landed and stay")
    (record,) = store.history("db.t")
    assert (record.outcome.kind, record.outcome.groups_landed) == (Kind.FAILED, 2)
    assert "2 of 3 groups landed and stay" in record.outcome.sentence
    assert staged(lake, plan) == live(lake, plan)
    assert rows(lake) == before


def test_an_unknown_batch_keeps_its_files_and_no_others(batches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, plan = batches
    before, real, told = rows(lake), commit_batch.replace_files.replace, []

    def unsure(table: Any, request: Any, run: Any) -> Any:
        told.append(request)
        if len(told) == 2:
            raise errors.StateUnknownError("Nobody knows.")
        return real(table, request, run)

    monkeypatch.setattr(commit_batch.replace_files, "replace", unsure)
    outcome = work.apply_plan(lake.catalog, plan, wiring.engine_factory("inline"), wiring.new_run())
    assert outcome.kind is Kind.FAILED
    assert outcome.sentence.startswith("Nobody knows. Before that 1 of 3 groups landed and stay")
    assert ends(outcome) == [GroupEnd.COMMITTED, GroupEnd.UNKNOWN, GroupEnd.NOT_REACHED]
    assert len(told) == 2
    unsure_files = names(file.file_path for file in told[1].added)
    assert staged(lake, plan) == unsure_files | live(lake, plan)
    assert unsure_files.isdisjoint(live(lake, plan))
    assert rows(lake) == before


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), MemoryError()])
def test_a_commit_that_breaks_off_for_no_reason_of_ours_deletes_nothing_of_it(
    batches: Any, monkeypatch: pytest.MonkeyPatch, stop: BaseException
) -> None:
    lake, plan = batches
    before, real = rows(lake), commit_batch.replace_files.replace

    def lands_and_breaks(table: Any, request: Any, run: Any) -> Any:
        real(table, request, run)
        raise stop

    monkeypatch.setattr(commit_batch.replace_files, "replace", lands_and_breaks)
    with pytest.raises(type(stop)):
        work.apply_plan(lake.catalog, plan, wiring.engine_factory("inline"), wiring.new_run())
    assert staged(lake, plan) <= live(lake, plan)
    assert rows(lake) == before


@pytest.mark.parametrize(
    "place",
    [
        "iceberg_compaction.operations.rewrite_files.change.validate_replace.check_request",
        "iceberg_compaction.operations.rewrite_files.change.dangling_deletes.dangling",
        "iceberg_compaction.record.runs.Run.publishing",
    ],
)
def test_a_defect_of_ours_before_anything_is_published_leaves_nothing_behind(
    prepared: Any, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    lake, plan = prepared
    before = files(lake)

    def defective(*given: Any, **more: Any) -> Any:
        raise TypeError("of ours")

    monkeypatch.setattr(place, defective)
    outcome = work.apply_plan(lake.catalog, plan, wiring.engine_factory("inline"), wiring.new_run())
    assert outcome.kind is Kind.FAILED
    assert "A defect in iceberg-compaction ended the work on db.t" in outcome.sentence
    assert "(TypeError: of ours); nothing was committed." in outcome.sentence
    assert set(ends(outcome)) == {GroupEnd.NOT_REACHED}
    assert files(lake) == before


def test_what_the_engine_reports_after_a_failed_commit_is_swept_and_not_committed(
    batches: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, plan = batches
    before, commits = files(lake), []

    def refused(table: Any, request: Any, run: Any) -> Any:
        commits.append(request)
        raise errors.CommitError("The catalog refuses.")

    monkeypatch.setattr(commit_batch.replace_files, "replace", refused)
    outcome = work.apply_plan(lake.catalog, plan, all_at_once(), wiring.new_run())
    assert (outcome.kind, outcome.sentence) == (Kind.FAILED, "The catalog refuses.")
    assert len(commits) == 1
    assert files(lake) == before


def test_a_listener_that_raises_stops_the_run_and_nothing_is_left(batches: Any) -> None:
    lake, plan = batches
    before = rows(lake)

    kinds = []

    def listen(event: Any) -> None:
        kinds.append(event.kind)
        if event.kind == "committing" and kinds.count("committed") == 1:
            raise RuntimeError("not me")

    with pytest.raises(RuntimeError, match="not me"):
        work.apply_plan(lake.catalog, plan, wiring.engine_factory("inline"), wiring.new_run(on_event=listen))
    assert staged(lake, plan) == live(lake, plan)
    assert rows(lake) == before


def test_a_run_is_remembered_whatever_its_end(prepared: Any, tmp_path: Path) -> None:
    lake, plan = prepared
    store = wiring.run_store(tmp_path / "state" / "runs.db")
    failed = work.apply_plan(lake.catalog, plan, broken(errors.ExecuteError("no")), wiring.new_run(store=store))
    done = work.apply_plan(lake.catalog, plan, wiring.engine_factory("inline"), wiring.new_run(store=store))
    assert {record.run_id: record.outcome for record in store.history("db.t")} == {
        failed.run_id: failed,
        done.run_id: done,
    }
    assert store.history("db.other") == []


def test_a_store_that_cannot_be_written_does_not_fail_the_run(prepared: Any, tmp_path: Path) -> None:
    lake, plan = prepared
    (tmp_path / "file").write_text("in the way")
    run = wiring.new_run(store=wiring.run_store(tmp_path / "file" / "runs.db"))
    assert work.apply_plan(lake.catalog, plan, wiring.engine_factory("inline"), run).kind is Kind.COMPACTED


def rows(lake: lakes.Lake) -> Any:
    return storage.row_multiset(lake.catalog.load_table("db.t").scan().to_arrow())
