"""Errors that travel as data come back as what they were, without credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.factories import engines

from iceberg_compaction import errors
from iceberg_compaction.execute import task_failure

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("kind", [errors.ProofError, errors.UnsupportedError, errors.UnreachableError])
def test_our_errors_come_back_as_themselves(kind: type[errors.CompactionError], tmp_path: Path) -> None:
    failed = task_failure.describe(kind("A sentence."), engines.make_tasks(1)[0], engines.make_context(tmp_path))
    rebuilt = task_failure.Failure.model_validate_json(failed.model_dump_json()).rebuild()
    assert (type(rebuilt), str(rebuilt)) == (kind, "A sentence.")
    assert failed.retryable is kind.retryable


def test_an_unforeseen_failure_may_be_tried_again(tmp_path: Path) -> None:
    task, context = engines.make_tasks(1)[0], engines.make_context(tmp_path)
    assert task_failure.describe(errors.ExecuteError("The store hung up."), task, context).retryable
    assert task_failure.describe(OSError("reset"), task, context).retryable


def test_a_name_that_is_no_error_of_ours_becomes_execute_error() -> None:
    for name in ("annotations", "ClassVar", "Nonsense"):
        made = task_failure.Failure(task_id=1, group_id=0, error=name, sentence="So.", retryable=False).rebuild()
        assert type(made) is errors.ExecuteError


def test_secrets_leave_no_trace_and_lines_are_joined(tmp_path: Path) -> None:
    error = OSError(f"denied\nfor {engines.SECRET}")
    told = task_failure.describe(error, engines.make_tasks(1)[0], engines.make_context(tmp_path)).sentence
    assert told.endswith("failed with OSError: denied for ***")
