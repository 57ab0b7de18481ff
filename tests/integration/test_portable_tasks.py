"""Plan here, execute anywhere, commit here: tasks and results cross borders as JSON, and a commit takes only groups
whose results stand for each of their files exactly once. It never removes a file of a result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes
from tests.factories import storage

import iceberg_compaction
from iceberg_compaction import Compactor, Kind, PortableResult, PortableTask, errors
from iceberg_compaction.execute.engines.fake_engine import FakeEngine
from iceberg_compaction.model.outcome import GroupEnd

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from iceberg_compaction import Outcome, Plan

OPTIONS = {"min-input-files": 2, "max-file-group-input-files": 2}


@pytest.fixture
def compactor(local_lake: lakes.Lake, tmp_path: Path) -> Compactor:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 6)
    return Compactor(local_lake.catalog, options=OPTIONS, engine="inline", state=tmp_path / "runs.db")


def executed(compactor: Compactor, plan: Plan) -> list[PortableResult]:
    """The results of all tasks, each of which came from JSON and went to JSON."""
    results = []
    for task in compactor.tasks(plan):
        there = PortableTask.model_validate_json(task.model_dump_json())
        results.append(PortableResult.model_validate_json(iceberg_compaction.execute_task(there).model_dump_json()))
    return results


def rows(compactor: Compactor) -> Counter[str]:
    return storage.row_multiset(compactor.catalog.load_table("db.t").scan().to_arrow())


def files(compactor: Compactor) -> set[str]:
    table = compactor.catalog.load_table("db.t")
    return {path for path in storage.files_under(table) if path.endswith(".parquet")}


def ends(outcome: Outcome) -> list[GroupEnd]:
    return [group.outcome for group in outcome.group_outcomes]


def staged(results: Sequence[PortableResult]) -> set[str]:
    return {file.file_path.removeprefix("file://") for result in results for file in result.result.staged}


def test_tasks_executed_elsewhere_are_committed_as_a_run_is(compactor: Compactor) -> None:
    before, plan = rows(compactor), compactor.plan_table("db.t")
    outcome = compactor.commit(plan, executed(compactor, plan))
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert (outcome.groups_landed, outcome.files_removed, outcome.files_added) == (3, 6, 3)
    assert rows(compactor) == before
    assert compactor.plan_table("db.t").empty or compactor.plan_table("db.t").input_files < 6


def test_the_public_functions_do_the_same(compactor: Compactor) -> None:
    before, plan = rows(compactor), compactor.plan_table("db.t")
    results = [iceberg_compaction.execute_task(task) for task in iceberg_compaction.tasks(plan, compactor.catalog)]
    assert iceberg_compaction.commit_tasks(plan, results, compactor.catalog).groups_landed == 3
    assert rows(compactor) == before


def test_a_group_without_all_results_is_left_out_and_its_files_stay_for_later(compactor: Compactor) -> None:
    before, plan = rows(compactor), compactor.plan_table("db.t")
    results = executed(compactor, plan)
    outcome = compactor.commit(plan, results[1:])
    assert ends(outcome) == [GroupEnd.FAILED, GroupEnd.COMMITTED, GroupEnd.COMMITTED]
    assert "There are results for 0 of its 2 files." in outcome.sentence
    assert staged(results) <= files(compactor)
    again = compactor.commit(plan, results[:1])
    assert again.groups_landed == 1, again.sentence
    assert rows(compactor) == before


def test_the_same_results_twice_commit_once_and_remove_nothing(compactor: Compactor) -> None:
    before, plan = rows(compactor), compactor.plan_table("db.t")
    results = executed(compactor, plan)
    assert compactor.commit(plan, [*results, *results]).groups_landed == 3
    after = files(compactor)
    outcome = compactor.commit(plan, results)
    assert outcome.kind is Kind.CONFLICT, outcome.sentence
    assert files(compactor) == after
    assert rows(compactor) == before


def test_a_task_performed_twice_counts_once(compactor: Compactor) -> None:
    before, plan = rows(compactor), compactor.plan_table("db.t")
    outcome = compactor.commit(plan, [*executed(compactor, plan), *executed(compactor, plan)])
    assert (outcome.groups_landed, outcome.files_added) == (3, 3)
    assert rows(compactor) == before


def test_results_of_another_plan_are_refused(compactor: Compactor) -> None:
    plan = compactor.plan_table("db.t")
    strange = [result.model_copy(update={"plan_id": "other"}) for result in executed(compactor, plan)]
    with pytest.raises(errors.ConfigError, match=r"of the plan other, and not of plan-"):
        compactor.commit(plan, strange)


def test_a_result_for_a_file_of_another_group_is_refused(compactor: Compactor) -> None:
    before, plan = rows(compactor), compactor.plan_table("db.t")
    results = executed(compactor, plan)
    forged = results[0].model_copy(update={"file_paths": results[1].file_paths})
    outcome = compactor.commit(plan, [forged, *results[1:]])
    assert ends(outcome)[0] is GroupEnd.FAILED
    assert "a file of another group" in outcome.sentence
    assert rows(compactor) == before


def test_a_result_whose_file_is_gone_is_not_committed(compactor: Compactor) -> None:
    before, plan = rows(compactor), compactor.plan_table("db.t")
    results = executed(compactor, plan)
    Path(next(iter(staged(results[:1])))).unlink()
    outcome = compactor.commit(plan, results)
    assert ends(outcome)[0] is GroupEnd.FAILED
    assert "is missing, or is not as its result says" in outcome.sentence
    assert rows(compactor) == before


def test_a_result_with_a_failed_proof_is_not_committed(compactor: Compactor) -> None:
    before, plan = rows(compactor), compactor.plan_table("db.t")
    first, *others = executed(compactor, plan)
    sink = first.result.proof.sink.model_copy(update={"rows": 1})
    proof = first.result.proof.model_copy(update={"sink": sink})
    forged = first.model_copy(update={"result": first.result.model_copy(update={"proof": proof})})
    outcome = compactor.commit(plan, [forged, *others])
    assert outcome.kind is Kind.FAILED
    assert "but the writer got 1" in outcome.sentence
    assert rows(compactor) == before


def test_a_task_that_fails_raises_and_leaves_nothing(compactor: Compactor) -> None:
    plan = compactor.plan_table("db.t")
    task = compactor.tasks(plan)[0]
    Path(task.task.file_paths[0].removeprefix("file://")).unlink()
    before = files(compactor)
    with pytest.raises(errors.DamagedFileError):
        iceberg_compaction.execute_task(task)
    assert files(compactor) == before


def test_a_compactor_works_with_a_fake_engine(compactor: Compactor) -> None:
    engine = FakeEngine(failures={0: errors.DamagedFileError("Torn.")})
    outcome = Compactor(compactor.catalog, options=OPTIONS, engine=engine).apply(compactor.plan_table("db.t"))
    assert (outcome.groups_landed, outcome.groups_failed) == (2, 1)
    assert "Torn." in outcome.sentence


def test_a_builder_makes_the_same_compactor(compactor: Compactor) -> None:
    built = (
        Compactor.builder()
        .catalog(compactor.catalog)
        .strategy("small-files")
        .target_file_size("1GB")
        .options(OPTIONS)
        .engine("inline")
        .build()
    )
    assert built.policy.target_file_size_bytes == 10**9
    assert built.compact_table("db.t").kind is Kind.COMPACTED
    with pytest.raises(AttributeError, match="no argument colour"):
        _ = Compactor.builder().colour
    with pytest.raises(errors.ConfigError, match="needs a catalog"):
        Compactor.builder().build()


def test_a_run_that_reaches_its_deadline_is_cancelled(local_lake: lakes.Lake) -> None:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 4)
    late = Compactor(local_lake.catalog, options=OPTIONS, engine="inline", deadline=1e-9)
    with pytest.raises(errors.CancelledError, match="at its deadline"):
        late.compact_table("db.t")
    patient = Compactor(local_lake.catalog, options=OPTIONS, engine="inline", deadline="2h")
    assert patient.compact_table("db.t").kind is Kind.COMPACTED
