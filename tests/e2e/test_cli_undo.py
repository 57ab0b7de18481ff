"""`iceberg-compact verify` and `undo` from flags to exit code, for people and for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes
from tests.factories.city_runs import city_table, compact, files_of, local
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result
    from tests.factories.lake import Lake


@pytest.fixture
def lake(local_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    city_table(local_lake)
    monkeypatch.setenv("ICEBERG_COMPACTION_STATE", str(tmp_path / "runs.db"))
    return local_lake


def call(lake: Lake, verb: str, *flags: str) -> Result:
    return CliRunner().invoke(app, [verb, *flags, "--catalog-uri", str(lake.settings.uri)])


def run(lake: Lake) -> str:
    flags = ("--table", "db.t", "--min-input-files", "2", "--engine", "inline", "--output", "json")
    run_id: str = json.loads(call(lake, "run", *flags).stdout)["run_id"]
    return run_id


def test_a_run_is_verified_shown_undone_and_remembered(lake: Lake) -> None:
    run_id = run(lake)
    checked = call(lake, "verify", "latest", "--output", "json")
    document = json.loads(checked.stdout)
    assert (checked.exit_code, document["kind"], document["verdict"]) == (0, "verification", "proved")
    assert document["commits"][0]["partitions"][0]["partition"] == {"city": "Oslo"}
    assert "comparing" in checked.stderr
    planned = call(lake, "undo", run_id[:8], "--dry-run", "--output", "json")
    plan = json.loads(planned.stdout)
    assert (planned.exit_code, plan["kind"], plan["way"], plan["files_added"]) == (0, "undo-plan", "rollback", 6)
    assert "Nothing has been changed yet." in call(lake, "undo", run_id, "--dry-run").stdout
    undone = call(lake, "undo", "latest", "--output", "json")
    outcome = json.loads(undone.stdout)
    assert (undone.exit_code, outcome["kind"], outcome["undone_run_id"]) == (0, "undone", run_id)
    assert outcome["head_snapshot_id_str"] == str(plan["target_snapshot_id"])
    refused = call(lake, "undo", run_id)
    assert (refused.exit_code, f"undone already, by run {outcome['run_id']}" in " ".join(refused.stdout.split())) == (
        1,
        True,
    )
    history = json.loads(CliRunner().invoke(app, ["history", "--output", "json"]).stdout)
    assert [entry["outcome"]["kind"] for entry in history] == ["conflict", "undone", "compacted"]


def test_the_table_alone_knows_its_runs(lake: Lake) -> None:
    run_id = compact(lake)  # without a store
    for name in ("latest", run_id[:6]):
        checked = call(lake, "verify", name, "--table", "t", "--namespace", "db")
        assert (checked.exit_code, "is proved: 18 rows in 2 files" in checked.stdout) == (0, True), checked.output
    unknown = call(lake, "verify", "0000", "--table", "db.t")
    assert (unknown.exit_code, "Neither the run store nor the history of db.t" in unknown.stderr) == (2, True)
    nowhere = call(lake, "undo", run_id)
    assert (nowhere.exit_code, "There is no run" in nowhere.stderr) == (2, True)
    undone = call(lake, "undo", run_id, "--table", "db.t")
    assert (undone.exit_code, "is undone" in undone.stdout) == (0, True), undone.output


def test_a_run_of_another_table_is_known_as_such(lake: Lake) -> None:
    run_id = run(lake)
    lakes.make_table(lake.catalog, "db.other")
    for verb in ("verify", "undo"):
        refused = call(lake, verb, run_id[:8], "--table", "db.other")
        sentence = f"Run {run_id} is one of db.t, and not of db.other; leave out --table."
        assert (refused.exit_code, sentence in " ".join(refused.stderr.split())) == (2, True), refused.stderr


def test_damage_is_a_failure_with_the_file_in_it(lake: Lake) -> None:
    run_id = run(lake)
    path = files_of(lake.catalog.load_table("db.t"), "Oslo")[0]
    local(path).unlink()
    checked = call(lake, "verify", run_id)
    assert (checked.exit_code, path in checked.stdout.replace("\n", "")) == (1, True), checked.stdout
    refused = call(lake, "undo", run_id)
    assert (refused.exit_code, "--despite-differences" in refused.stdout) == (1, True), refused.stdout
    assert call(lake, "undo", run_id, "--despite-differences").exit_code == 0


def test_a_run_that_cannot_be_checked_has_an_exit_code_of_its_own(lake: Lake) -> None:
    gone = files_of(lake.catalog.load_table("db.t"), "Oslo")[0]
    run_id = run(lake)
    local(gone).unlink()
    checked = call(lake, "verify", run_id, "--output", "json")
    assert (checked.exit_code, json.loads(checked.stdout)["verdict"]) == (3, "unchecked")
    failed = call(lake, "undo", run_id)
    assert (failed.exit_code, "a file that it replaced cannot be read" in " ".join(failed.stdout.split())) == (1, True)
