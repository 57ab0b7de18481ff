"""All upkeep of a table in one command: what the policy turns on, in the one safe order, each step only with work."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.factories.lake import append_small_files, make_table
from typer.testing import CliRunner

from iceberg_compaction import Compactor, Policy, TablePolicy, errors
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.model.maintenance import MaintenanceStep
from iceberg_compaction.workflow import table_upkeep

if TYPE_CHECKING:
    from pathlib import Path

    from tests.factories.lake import Lake

    from iceberg_compaction.model.maintenance import TableMaintenance

ALL = "tags,expire,deletes,rewrite,manifests,orphans"


@pytest.fixture
def lake(local_lake: Lake) -> Lake:
    append_small_files(make_table(local_lake.catalog, local_lake.name("t")), 6, 2)
    return local_lake


def call(lake: Lake, tmp_path: Path, *flags: str, code: int = 0) -> Any:
    catalog = ["--catalog-uri", str(lake.settings.uri), "--store", str(tmp_path / "runs.db"), "--engine", "inline"]
    result = CliRunner().invoke(app, ["maintain", *flags, *catalog, "--output", "json", "--no-progress"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def kinds(result: Any) -> dict[str, str]:
    return {each["step"]: each["outcome"]["kind"] for each in result["steps"]}


def test_without_a_policy_only_files_are_rewritten_and_a_second_time_nothing(lake: Lake, tmp_path: Path) -> None:
    assert kinds(call(lake, tmp_path, "--table", "db.t")) == {"rewrite": "compacted"}
    assert kinds(call(lake, tmp_path, "--table", "db.t")) == {"rewrite": "healthy"}


def test_a_policy_turns_steps_on_and_their_order_is_fixed(lake: Lake, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("maintenance:\n  orphans: on\n  manifests: on\n  expire: {enabled: true, max_snapshot_age: 1d}\n")
    result = call(lake, tmp_path, "--table", "db.t", "--policy", str(policy))
    assert list(kinds(result)) == ["expire", "rewrite", "manifests", "orphans"]
    assert kinds(result)["expire"] == "healthy"  # all snapshots are young
    assert kinds(result)["rewrite"] == "compacted"


def test_ages_that_are_not_safe_are_refused_in_words_that_hold_here(lake: Lake, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("maintenance:\n  orphans: {older_than: 1h}\n  expire: {max_snapshot_age: 1m}\n")
    result = call(lake, tmp_path, "--table", "db.t", "--policy", str(policy), "--steps", "expire,orphans", code=1)
    expire = result["steps"][0]["outcome"]["sentence"]
    assert re.search("run `iceberg-compact expire[^`]*` with --allow-recent", expire)  # maintain has no such flag
    result = call(lake, tmp_path, "--table", "db.t", "--policy", str(policy), "--steps", "orphans", code=1)
    orphans = result["steps"][0]["outcome"]["sentence"]
    assert re.search("run `iceberg-compact orphans[^`]*` with --allow-recent", orphans)


def test_a_table_that_needs_nothing_is_loaded_once(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call(lake, tmp_path, "--table", "db.t", "--steps", ALL)
    loads = []
    load = SqlCatalog.load_table

    def counted(self: SqlCatalog, name: Any) -> Any:
        loads.append(name)
        return load(self, name)

    monkeypatch.setattr(SqlCatalog, "load_table", counted)
    result = call(lake, tmp_path, "--table", "db.t", "--steps", "expire,deletes,rewrite,manifests")
    assert set(kinds(result).values()) == {"healthy"}
    assert len(loads) == 1


def test_no_step_deletes_files_of_a_table_that_keeps_them(lake: Lake, tmp_path: Path) -> None:
    table = lake.catalog.load_table("db.t")
    with table.transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    result = call(lake, tmp_path, "--table", "db.t", "--steps", "orphans,rewrite,expire")
    assert kinds(result) == {"expire": "skipped", "rewrite": "compacted", "orphans": "skipped"}
    assert "gc.enabled=false" in result["steps"][0]["outcome"]["sentence"]


def test_a_dry_run_shows_plans_and_changes_nothing(lake: Lake, tmp_path: Path) -> None:
    before = lake.catalog.load_table("db.t").metadata_location
    result = call(lake, tmp_path, "--table", "db.t", "--steps", ALL, "--dry-run")
    assert list(kinds(result)) == ["tags", "expire", "deletes", "rewrite", "manifests", "orphans"]
    assert "6 files in 1 group" in next(
        each["outcome"]["sentence"] for each in result["steps"] if each["step"] == "rewrite"
    )
    assert lake.catalog.load_table("db.t").metadata_location == before


def test_wrong_steps_are_told_in_a_sentence(lake: Lake, tmp_path: Path) -> None:
    result = call(lake, tmp_path, "--table", "db.t", "--steps", "expire,polish", code=2)
    assert "'polish' is no step" in result["sentence"]


def test_orphans_are_not_looked_for_after_a_failure(lake: Lake) -> None:
    table = lake.catalog.load_table("db.t")
    steps = (MaintenanceStep.REWRITE, MaintenanceStep.ORPHANS)

    def fail(operation: Any, loaded: Any) -> Any:
        raise errors.CommitError("The catalog did not answer.")

    request = table_upkeep.UpkeepRequest(table="db.t", policy=TablePolicy(rewrite=Policy()), steps=steps)
    result = table_upkeep.maintain(table, request, fail)
    assert [each.outcome.kind.value for each in result.steps] == ["failed", "skipped"]
    assert not result.ok
    assert "rewrite failed" in result.steps[1].outcome.sentence


def test_the_library_maintains_a_table(lake: Lake) -> None:
    result = Compactor(lake.settings, engine="inline").maintain("db.t", steps=["rewrite", "manifests"])
    assert [each.step.value for each in result.steps] == ["rewrite", "manifests"]
    assert result.ok


def test_the_library_maintains_the_branch_that_it_works_on(lake: Lake) -> None:
    table = lake.catalog.load_table("db.t")
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "audit").commit()
    before = dict(lake.catalog.load_table("db.t").metadata.refs)

    compactor = Compactor(lake.settings, engine="inline", branch="audit")
    result = compactor.maintain("db.t", steps=["deletes", "rewrite", "manifests", "statistics"])

    refs = lake.catalog.load_table("db.t").metadata.refs
    assert {each.step.value: each.outcome.kind.value for each in result.steps}["rewrite"] == "compacted"
    assert refs["main"] == before["main"]
    assert refs["audit"] != before["audit"]


@pytest.mark.parametrize("step", sorted(set(MaintenanceStep) - {MaintenanceStep.EXPIRE, MaintenanceStep.ORPHANS}))
def test_every_step_that_works_on_a_branch_works_on_the_one_asked_for(step: MaintenanceStep) -> None:
    policy = TablePolicy(rewrite=Policy(), maintenance={"ttl": {"column": "at", "keep": "30d"}})
    operation = table_upkeep.operation_of(step, "db.t", policy, branch="audit")
    assert operation.branch == "audit"


def test_the_library_passes_over_a_table_that_is_off(lake: Lake) -> None:
    before = lake.catalog.load_table("db.t").metadata_location
    policy = {"enabled": False, "maintenance": {"expire": {"enabled": True, "max_snapshot_age": "1d"}}}
    result = Compactor(lake.settings, engine="inline", policy=policy).maintain("db.t")
    assert kinds_of(result) == {"rewrite": "skipped"}
    result = Compactor(lake.settings, engine="inline", policy=policy).maintain("db.t", steps=["expire", "rewrite"])
    assert kinds_of(result) == {"rewrite": "skipped"}
    assert lake.catalog.load_table("db.t").metadata_location == before


def kinds_of(result: TableMaintenance) -> dict[str, str]:
    return {each.step.value: each.outcome.kind.value for each in result.steps}
