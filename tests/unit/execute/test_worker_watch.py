"""A task that should stop is stopped, even if the request comes a moment before its work begins."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# In a process of its own: signals reach the main thread. The marker is gone before the work begins.
SCRIPT = """
import os, sys, time
from iceberg_compaction.execute.engines.spark import worker_watch

def work():
    time.sleep(30)

def main(infile):
    with worker_watch.stop_on_request(sys.argv[1], work):
        time.sleep(float(sys.argv[2]))
        work()

read, write = os.pipe()
started = time.monotonic()
try:
    main(os.fdopen(read, "rb"))
except worker_watch.Stopped as stopped:
    print(stopped.requested, time.monotonic() - started < 10)
"""


@pytest.mark.parametrize("pause", ["0", "0.5"])
def test_a_request_before_the_work_begins_is_not_lost(tmp_path: Path, pause: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "gone"), pause], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["True", "True"]
