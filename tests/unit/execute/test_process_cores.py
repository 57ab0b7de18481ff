"""How many cores a process may use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from iceberg_compaction.execute.engines import process_cores

if TYPE_CHECKING:
    from pathlib import Path

BOUND = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", BOUND), ("100000 100000", 1), ("50000 100000", 1), ("6400000 100000", BOUND), ("", BOUND)],
)
def test_a_containers_quota_limits_the_cores(tmp_path: Path, quota: str, cores: int) -> None:
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert process_cores.available(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", BOUND), ("100000", 1)])
def test_so_does_the_quota_of_older_containers(tmp_path: Path, quota: str, cores: int) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert process_cores.available(tmp_path) == cores


def test_without_a_container_all_cores_are_there(tmp_path: Path) -> None:
    assert process_cores.available(tmp_path) == BOUND


def test_a_process_that_is_bound_to_one_core_has_one(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert process_cores.available(tmp_path) == 1
    finally:
        os.sched_setaffinity(0, before)
