"""`iceberg-compact expire` and `tags` from flags to exit code, for people and for programs."""

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

ALL = ("--older-than", "2100-01-01", "--allow-recent")


@pytest.fixture
def lake(local_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    for name in ("one", "two"):
        append_small_files(make_table(local_lake.catalog, local_lake.name(name)), 3, 2)
    monkeypatch.setenv("ICEBERG_COMPACTION_STATE", str(tmp_path / "runs.db"))
    return local_lake


def call(lake: Lake, verb: str, *flags: str) -> Result:
    return CliRunner().invoke(app, [verb, "--catalog-uri", str(lake.settings.uri), *flags])


def snapshots(lake: Lake, name: str) -> int:
    return len(lake.catalog.load_table(lake.name(name)).metadata.snapshots)


def test_a_dry_run_shows_and_a_run_does_what_it_showed(lake: Lake) -> None:
    shown = call(lake, "expire", "--table", "db.one", "--dry-run", "--output", "json", *ALL)
    plan = json.loads(shown.stdout)
    assert (plan["operation"], len(plan["snapshot_ids"])) == ("expire", 2)
    assert plan["retention"]["older_than_ms"]["origin"] == "--older-than"
    assert snapshots(lake, "one") == 3
    outcome = json.loads(call(lake, "expire", "--table", "db.one", "--output", "json", "--quiet", *ALL).stdout)
    assert (outcome["kind"], outcome["figures"]["snapshots"]) == ("maintained", 2)
    assert snapshots(lake, "one") == 1
    again = call(lake, "expire", "--table", "db.one", *ALL)
    assert (again.exit_code, "a branch or tag points to each" in again.stdout) == (0, True)


def test_a_saved_plan_is_applied(lake: Lake, tmp_path: Path) -> None:
    file = str(tmp_path / "plan.json")
    assert call(lake, "expire", "--table", "db.one", "--out", file, *ALL).exit_code == 0
    assert snapshots(lake, "one") == 3
    applied = CliRunner().invoke(app, ["apply", file, "--catalog-uri", str(lake.settings.uri), "--engine", "inline"])
    assert applied.exit_code == 0, applied.output
    assert snapshots(lake, "one") == 1


def test_many_tables_at_once(lake: Lake) -> None:
    done = call(lake, "expire", "--table", "db.*", *ALL)
    assert done.exit_code == 0, done.output
    assert [snapshots(lake, name) for name in ("one", "two")] == [1, 1]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--older-than", "1m"], "--allow-recent"),
        (["--older-than", "yesterday"], "not a moment"),
        (["--snapshot-id", "5"], "has no snapshot 5"),
        *((["--deletes-per-second", pace, *ALL], "is no pace") for pace in ("0", "-1", "nan")),
    ],
)
def test_wrong_words_are_refused(lake: Lake, flags: list[str], words: str) -> None:
    refused = call(lake, "expire", "--table", "db.one", *flags)
    assert (refused.exit_code, words in refused.stderr) == (2, True), refused.output
    assert snapshots(lake, "one") == 3


def test_tags_are_shown_and_wrong_words_are_refused(lake: Lake) -> None:
    shown = call(lake, "tags", "--table", "db.one", "--keep", "30d", "--dry-run", "--output", "json")
    assert (shown.exit_code, json.loads(shown.stdout)["operation"]) == (0, "tags"), shown.output
    assert call(lake, "tags", "--table", "db.one").exit_code == 0
    refused = call(lake, "tags", "--table", "db.one", "--every", "week")
    assert (refused.exit_code, "hour, day or month" in refused.stderr) == (2, True)
    refused = call(lake, "tags", "--table", "db.one", "--max-delay", "99999999999d")
    assert (refused.exit_code, "too long" in refused.stderr) == (2, True)


def test_ttl_needs_a_column(lake: Lake) -> None:
    refused = call(lake, "ttl", "--table", "db.one", "--older-than", "1d")
    assert (refused.exit_code, "Missing option '--column'" in refused.stderr) == (2, True), refused.output
