"""The figures in the README are those that the benchmarks wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bench import figures

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def _bars(bench: str) -> dict[str, float]:
    found = json.loads((ROOT / "bench" / "results" / f"{bench}.json").read_text())
    return {bar["name"]: bar["value"] for bar in found["bars"]}


def test_speeds_are_as_measured() -> None:
    measured = [
        value
        for bench in ("rewrite", "copy")
        for name, value in _bars(bench).items()
        if name.endswith("times Iceberg Java's MB/s")
    ]
    told = re.findall(r"^\| .*\| ([0-9.]+) \|$", figures.MARK.sub("", README), re.MULTILINE)
    assert sorted(told, key=float) == [f"{value:.0f}" if value >= 10 else f"{value:.1f}" for value in sorted(measured)]


@pytest.mark.parametrize("page", figures.PAGES)
def test_tables_show_the_results(page: str) -> None:
    written = (ROOT / page).read_text()
    assert figures.MARK.search(written)
    assert figures.shown(written) == written


def test_planning_takes_as_long_as_measured() -> None:
    bars = _bars("plan")
    cold = bars["1,000,000 files, cold: inventory, health and plan, s"]
    warm = bars["1,000,000 files, warm: plan, ms"] / 1000
    assert f"takes {cold:.1f} s the first time and {warm:.2f} s afterwards" in README
