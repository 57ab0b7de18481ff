"""`iceberg-compact orphans` from flags to exit code, for people and for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes
from tests.factories import orphans
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[lakes.Lake]:
    monkeypatch.setenv("ICEBERG_COMPACTION_STATE", str(tmp_path / "runs.db"))
    lake = lakes.file_lake(tmp_path)
    table = lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 8)
    orphans.age_all(table)
    orphans.strew(table, "data/left.parquet")
    yield lake
    lakes.close(lake)


def call(lake: lakes.Lake, *words: str) -> Result:
    return CliRunner().invoke(
        app, ["orphans", *words, "--catalog-uri", str(lake.settings.uri), "--table", "db.t", "--no-progress"]
    )


def test_list_remove_restore_and_purge(lake: lakes.Lake, tmp_path: Path) -> None:
    table = lake.catalog.load_table("db.t")
    before = orphans.every_file(table)
    listed = call(lake, "--output", "json", "--out", str(tmp_path / "plan.json"))
    assert listed.exit_code == 0, listed.output
    (plan,) = (
        json.loads(listed.stdout)["plans"] if "plans" in json.loads(listed.stdout) else [json.loads(listed.stdout)]
    )
    assert plan["files"]["paths"] == [f"{table.location()}/data/left.parquet"]
    assert orphans.every_file(table) == before
    removed = call(lake, "remove")
    assert removed.exit_code == 0, removed.output
    assert "--catalog-uri" in removed.stdout  # of the command that brings them back
    assert "restore" in removed.stdout
    assert call(lake, "purge").exit_code == 0
    back = call(lake, "restore", "--output", "json")
    assert back.exit_code == 0, back.output
    assert orphans.every_file(table) == before
    applied = CliRunner().invoke(
        app, ["apply", str(tmp_path / "plan.json"), "--catalog-uri", str(lake.settings.uri), "--engine", "inline"]
    )
    assert applied.exit_code == 0, applied.output
    assert "brings them back" in applied.stdout
    assert len(orphans.every_file(table) - before) == 2


def test_an_odd_share_fails_and_changes_nothing(lake: lakes.Lake) -> None:
    table = lake.catalog.load_table("db.t")
    for number in range(9):
        orphans.strew(table, f"data/left-{number}.parquet")
    before = orphans.every_file(table)
    shown = call(lake)
    assert shown.exit_code == 0
    assert "Removal is refused" in shown.stdout
    refused = call(lake, "remove")
    assert refused.exit_code == 1
    assert "--force-share" in refused.output
    assert orphans.every_file(table) == before


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--older-than", "1h"), "--allow-recent"),
        (("--older-than", "soon"), "not a duration"),
        (("--equal-schemes", "s3"), "--equal-schemes"),
        (("remove", "--run", "abc"), "restore or purge"),
        (("restore", "--run", "abc"), "nothing of run abc"),
        (("restore", "--out", "x.json"), "--out"),
        (("remove", "--no-quarantine", "--quarantine", "/x"), "not both"),
        (("destroy",), "destroy"),
    ],
)
def test_wrong_words_are_told_in_one_sentence(lake: lakes.Lake, words: tuple[str, ...], reason: str) -> None:
    result = call(lake, *words)
    assert result.exit_code == 2, result.output
    assert reason in result.output
    assert "Traceback" not in result.output
