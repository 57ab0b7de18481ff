"""Two of our compactors among writers of every kind, for half a minute: no row is lost or revived in any snapshot that
was looked at. `python -m bench.race` does the same for longer, with Iceberg Java among them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.factories import nursery
from tests.lab import race

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.parametrize("exchanging", [False, True])
def test_no_row_is_lost_or_revived_when_all_work_at_once(tmp_path: Path, exchanging: bool) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.lab.race", str(tmp_path / "lake"), "15"]
    command += ["--deletes"] if exchanging else []
    done = subprocess.run(
        [*command, "--retention", "8"],
        capture_output=True,
        text=True,
        cwd=nursery.ROOT,
        check=False,
        env={**os.environ, "ICEBERG_COMPACTION_CACHE": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout.splitlines()[-1])
    assert verdict["failed"] == [], done.stderr
    assert verdict["wrong"] == []
    assert (verdict["rows_lost"], verdict["rows_revived"]) == (0, 0)
    assert verdict["snapshots_checked"]["reader"] >= 4
    assert set(verdict["commits"]) == {"append", "position", "equality"}
    assert "compacted" in verdict["runs"], verdict
    assert verdict["exchanges"] or not exchanging, verdict  # delete files were merged or converted among all others


def test_the_model_knows_what_order_means() -> None:
    first, again, other = (6, 0, "a"), (6, 0, "b"), (7, 1, "c")
    events = [
        {"op": "append", "sequence": 1, "rows": [first, other]},
        {"op": "append", "sequence": 3, "rows": [again]},
        {"op": "equality", "sequence": 2, "ids": [6], "day": 0},
        {"op": "position", "sequence": 4, "rows": [other, first]},
    ]
    assert race.model(events, until=1) == Counter([first, other])
    assert race.model(events, until=2) == Counter([other])
    assert race.model(events, until=3) == Counter([other, again])
    assert race.model(events) == Counter([again])
