"""Examples that take their time: a cluster of their own, or Spark started from nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.e2e.test_examples import run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_cluster(tmp_path: Path) -> None:
    output = run("cluster", "--folder", str(tmp_path / "work"))
    assert "--conf spark.master=spark://127.0.0.1:" in output
    assert "became 1 (" in output
    assert list((tmp_path / "work" / "executors").rglob("stderr")), "nothing ran on the worker"


def test_the_library_on_spark(tmp_path: Path) -> None:
    assert "is undone" in run("library", "--folder", str(tmp_path / "work"))


@pytest.mark.server
def test_a_rest_catalog_on_spark(tmp_path: Path) -> None:
    assert "are those of the 10 files that it replaced" in run("rest-catalog", "--folder", str(tmp_path / "work"))


def test_the_notebook_is_kept_with_its_outputs(tmp_path: Path) -> None:
    assert "<Compacted of shop.visits: " in run("notebook", str(tmp_path))
    kept = json.loads((tmp_path / "work" / "compaction.ipynb").read_text())
    assert sum(bool(cell.get("outputs")) for cell in kept["cells"]) >= 7
