"""Reports of tasks that one thread performs one after the other."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.factories import engines

from iceberg_compaction.execute.engines import progress_reports
from iceberg_compaction.storage import task_progress

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import RewriteTask

MOST_S = 30.0


@pytest.fixture
def task(tmp_path: Path) -> RewriteTask:
    return engines.make_job(1, tmp_path).tasks[0]


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_reports, "EVERY_SECONDS", 0.01)


def wait_for(heard: list[int], count: int) -> None:
    end = time.monotonic() + MOST_S
    while len(heard) < count and time.monotonic() < end:
        time.sleep(0.005)
    assert len(heard) >= count


def test_a_task_is_reported_while_it_lasts_and_not_after_its_end(task: RewriteTask) -> None:
    heard: list[int] = []
    with progress_reports.Reporter() as reporter:
        for _ in range(2):
            with reporter.reporting(task, heard.append, wait=True):
                task_progress.current().read(task.bytes)
                wait_for(heard, 2)
            count = len(heard)
            time.sleep(0.05)
            assert len(heard) == count
            assert set(heard) == {task.bytes // 2}  # all is read, nothing is written
            heard.clear()


def test_all_tasks_share_one_thread_and_short_ones_send_nothing(
    task: RewriteTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_reports, "EVERY_SECONDS", MOST_S)
    heard: list[int] = []
    before = threading.active_count()
    with progress_reports.Reporter() as reporter:
        for _ in range(20):
            with reporter.reporting(task, heard.append, wait=True):
                assert threading.active_count() <= before + 1
    assert heard == []


def test_a_report_that_cannot_be_sent_is_not_tried_again_before_the_next_task(task: RewriteTask) -> None:
    tried: list[int] = []

    def send(done: int) -> None:
        tried.append(done)
        raise OSError("nobody listens")

    with progress_reports.Reporter() as reporter:
        for number in (1, 2):
            with reporter.reporting(task, send):
                wait_for(tried, number)
                time.sleep(0.05)
            assert len(tried) == number
