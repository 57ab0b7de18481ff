"""`iceberg-compact manifests` from flags to exit code, for people and for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.factories.lake import append_small_files, make_table
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result
    from tests.factories.lake import Lake


@pytest.fixture
def lake(local_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    for name in ("one", "two"):
        append_small_files(make_table(local_lake.catalog, local_lake.name(name)), 4, 2)
    monkeypatch.setenv("ICEBERG_COMPACTION_STATE", str(tmp_path / "runs.db"))
    return local_lake


def call(lake: Lake, *flags: str) -> Result:
    return CliRunner().invoke(app, ["manifests", "--catalog-uri", str(lake.settings.uri), *flags])


def test_a_dry_run_shows_and_a_run_does_what_it_showed(lake: Lake) -> None:
    shown = call(lake, "--table", "db.one", "--dry-run", "--output", "json")
    plan = json.loads(shown.stdout)
    assert [(len(group["manifests"]), group["outputs"], group["reason"]) for group in plan["groups"]] == [
        (4, 1, "small")
    ]
    outcome = json.loads(call(lake, "--table", "db.one", "--output", "json", "--quiet").stdout)
    assert (outcome["kind"], outcome["manifests_removed"], outcome["manifests_added"]) == ("compacted", 4, 1)
    again = call(lake, "--table", "db.one")
    assert again.exit_code == 0
    assert "Nothing to do: the only manifest of data files (spec 0)" in again.stdout
    history = CliRunner().invoke(app, ["history", "--output", "json"])
    assert [entry["outcome"]["kind"] for entry in json.loads(history.stdout)] == ["healthy", "compacted"]


def test_a_broken_table_does_not_stop_the_others(lake: Lake) -> None:
    table = lake.catalog.load_table(lake.name("one"))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.io.delete(snapshot.manifest_list)
    shown = call(lake, "--table", "db.*", "--dry-run")
    assert shown.exit_code == 1
    assert "4 manifests" in shown.stdout
    assert "is missing" in shown.stderr
    done = call(lake, "--table", "db.*")
    assert done.exit_code == 1
    assert "4 -> 1" in done.stdout
    assert "is missing" in done.stdout


def test_wrong_usage_is_told_in_a_sentence(lake: Lake) -> None:
    for flags, said in ((("--target-size", "8 melons"), "is not a size"), (("--spec-id", "7"), "no partition spec 7")):
        result = call(lake, "--table", "db.one", *flags)
        assert (result.exit_code, said in result.stderr) == (2, True)
