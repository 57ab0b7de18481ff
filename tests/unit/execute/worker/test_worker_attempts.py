"""A task that meets a passing fault begins anew under other names, and has an end; nothing of an attempt stays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from tests.factories import flaky
from tests.factories import tasks as factory

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import execute_task
from iceberg_compaction.storage import passing_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask

SCHEMA = Schema(NestedField(1, "id", LongType()))
HUNG_UP = OSError("AWS Error NETWORK_CONNECTION during UploadPart operation: curlCode: 55")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    found: list[float] = []
    monkeypatch.setattr(passing_faults, "USUAL", passing_faults.Patience(sleep=lambda seconds: None))
    monkeypatch.setattr(execute_task, "ATTEMPTS", passing_faults.Patience(retries=3, first=1.0, sleep=found.append))
    flaky.calm()
    yield found
    flaky.calm()


@pytest.fixture
def work(tmp_path: Path) -> tuple[RewriteTask, RewriteContext]:
    paths = [
        factory.write_input(tmp_path / f"in-{number}.parquet", [{"id": number}, {"id": number + 10}], SCHEMA)
        for number in range(2)
    ]
    context = factory.make_context(tmp_path, SCHEMA)
    return factory.make_task(paths), context.model_copy(update={"io_properties": {"py-io-impl": flaky.FILE_IO}})


def test_a_write_that_breaks_off_is_made_anew_under_another_name(
    work: tuple[RewriteTask, RewriteContext], waits: list[float], tmp_path: Path
) -> None:
    flaky.writes[:] = [HUNG_UP, TimeoutError("slow")]
    result = execute_task.rewrite(*work, "0-abc")
    assert factory.read_rows(result) == factory.comparable([{"id": id} for id in (0, 10, 1, 11)])
    assert len(waits) == 2
    assert len({Path(path).name for path in flaky.created}) == 3
    assert [str(path) for path in factory.files_below(tmp_path)] == [file.file_path for file in result.staged]


def test_a_task_is_not_tried_for_ever_and_says_how_often(
    work: tuple[RewriteTask, RewriteContext], tmp_path: Path
) -> None:
    flaky.writes[:] = [HUNG_UP] * 9
    with pytest.raises(errors.ExecuteError, match=r"curlCode: 55.*tried 4 times"):
        execute_task.rewrite(*work, "0-abc")
    assert len(flaky.created) == 4
    assert factory.files_below(tmp_path) == []


@pytest.mark.parametrize(
    "error", [PermissionError("no"), OSError(28, "No space left on device")], ids=["denied", "full"]
)
def test_what_does_not_pass_is_not_tried_again(
    work: tuple[RewriteTask, RewriteContext], tmp_path: Path, error: Exception
) -> None:
    flaky.writes[:] = [error]
    with pytest.raises(errors.ExecuteError):
        execute_task.rewrite(*work, "0-abc")
    assert len(flaky.created) == 1
    assert factory.files_below(tmp_path) == []


def test_what_an_attempt_could_not_remove_is_told_and_ends_the_task(
    work: tuple[RewriteTask, RewriteContext], tmp_path: Path
) -> None:
    flaky.writes[:], flaky.removals[:] = [HUNG_UP], [PermissionError("no")]
    with pytest.raises(errors.ExecuteError, match="could not be removed") as caught:
        execute_task.rewrite(*work, "0-abc")
    assert len(flaky.created) == 1
    assert list(caught.value.left) == [str(path) for path in factory.files_below(tmp_path)]
