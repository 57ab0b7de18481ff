"""The account of staged files: all that was staged goes at the end, except for files that a commit holds (R14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from tests.factories import engines

from iceberg_compaction.cancel import CancelToken
from iceberg_compaction.execute.engines.fake_engine import FakeEngine
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.operations.rewrite_files import staged_files, task_rounds

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import TaskResult


def rounds(folder: Path, count: int = 4) -> task_rounds.Rounds:
    """Work of which all tasks are done before the first is reported."""
    engine = FakeEngine(lambda ends: list(ends), rewrite=engines.make_rewrite())
    return task_rounds.Rounds(engine, engines.make_job(count, folder), cancel=CancelToken(), renew=None)


def removing(work: task_rounds.Rounds) -> Any:
    run = wiring.new_run()
    return staged_files.removing(staged_files.StagedFiles(PyArrowFileIO(), run), work, run)


def names(results: list[TaskResult]) -> set[str]:
    return engines.staged(results)


def test_results_that_were_not_even_yielded_are_removed(tmp_path: Path) -> None:
    work = rounds(tmp_path)
    with removing(work), work:
        next(work.results())
        assert len(engines.outputs(tmp_path)) == 4
    assert engines.outputs(tmp_path) == set()
    assert work.left_behind  # tasks may have been stopped, as far as this process knows


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError])
def test_files_that_a_commit_holds_stay_whatever_happens(tmp_path: Path, stop: type[BaseException]) -> None:
    work = rounds(tmp_path)

    def leave() -> None:
        with removing(work) as staged, work:
            first = next(work.results())
            staged.hold(first.staged)
            staged.remove(first.staged)
            raise stop

    with pytest.raises(stop):
        leave()
    assert engines.outputs(tmp_path) == names([result for result in work.staged if result.task_id == 0])


def test_files_that_a_commit_releases_are_removed_at_once(tmp_path: Path) -> None:
    work = rounds(tmp_path)
    with removing(work) as staged, work:
        for result in work.results():
            staged.hold(result.staged)
            if result.task_id == 2:
                staged.release(result.staged)
                assert len(engines.outputs(tmp_path)) == 3
    assert engines.outputs(tmp_path) == names([result for result in work.staged if result.task_id != 2])
    assert not work.left_behind
