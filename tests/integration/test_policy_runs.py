"""Runs, plans and explanations follow the policy of a table: a file, the table's own properties, arguments over both.
Where nothing says anything, everything is as it was."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories.policies import AMORO, CUSTOM_RESOURCE, GUIDE
from typer.testing import CliRunner

from iceberg_compaction import Compactor, Kind, Policy, Strategy, TablePolicy, errors, load_plan
from iceberg_compaction.catalog import load_tables
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.model import policies, rewrite_plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.factories.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = lakes.file_lake(tmp_path / "lake")
    yield lake
    lakes.close(lake)


def make(lake: Lake, name: str, files: int = 4, **properties: str) -> None:
    table = lakes.make_table(lake.catalog, lake.name(name), properties=properties)
    lakes.append_small_files(table, files)


def call(lake: Lake, tmp_path: Path, *args: str, env: dict[str, str] | None = None) -> Any:
    catalog = ["--catalog-uri", str(lake.settings.uri), "--output", "json"]
    state = [] if args[0] == "policy" else ["--state", str(tmp_path / "runs.db")]
    return CliRunner().invoke(app, [*args, *catalog, *state], env=env)


def document(result: Any) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_nothing_is_said_and_all_is_as_it_was(lake: Lake, tmp_path: Path) -> None:
    make(lake, "t", files=5)
    plan = document(call(lake, tmp_path, "plan", "--table", "db.t"))
    assert plan["policy"] == Policy().model_dump(mode="json", by_alias=True)
    assert plan["policy_hash"] == policies.digest(Policy())


def test_a_run_without_flags_follows_the_file(lake: Lake, tmp_path: Path) -> None:
    make(lake, "t")
    file = tmp_path / "policy.yaml"
    file.write_text("min_files_to_compact: 9\ntables: {db.t: {min_input_files: 4, target_file_size: 64MB}}")
    assert document(call(lake, tmp_path, "run", "--table", "t", "--engine", "inline"))["kind"] == "healthy"
    ran = call(lake, tmp_path, "run", "--table", "t", "--engine", "inline", env={"POLICY_FILE": str(file)})
    assert document(ran)["kind"] == "compacted"
    assert len(lake.catalog.load_table("db.t").inspect.files()) == 1


def test_a_flag_wins_over_the_file_value_by_value(lake: Lake, tmp_path: Path) -> None:
    make(lake, "t")
    file = tmp_path / "policy.yaml"
    file.write_text("min_input_files: 4\ntarget_file_size: 64MB")
    args = ["plan", "--table", "db.t", "--policy", str(file), "--target-file-size", "1MB"]
    policy = document(call(lake, tmp_path, *args))["policy"]
    assert (policy["target-file-size-bytes"], policy["min-input-files"]) == (1_000_000, 4)


def test_triggers_of_flags_and_files_meet(lake: Lake, tmp_path: Path) -> None:
    make(lake, "t", files=6)
    file = tmp_path / "policy.yaml"
    file.write_text("triggers: {preset: guide, max_delete_ratio: 0.7}")
    args = ["plan", "--table", "db.t", "--policy", str(file), "--trigger", "max_file_count_per_partition=50"]
    triggers = document(call(lake, tmp_path, *args))["policy"]["triggers"]
    assert (triggers["max-file-count-per-partition"], triggers["max-delete-ratio"]) == (50, 0.7)
    assert triggers["preset"] == "guide"


def test_the_guides_file_and_the_custom_resource_plan_tables(lake: Lake, tmp_path: Path) -> None:
    make(lake, "events", files=3)
    (tmp_path / "config.json").write_text(GUIDE)
    plan = document(call(lake, tmp_path, "plan", "--table", "events", "--policy", str(tmp_path / "config.json")))
    assert (plan["kind"], plan["policy"]["min-input-files"]) == ("planned", 3)
    make(lake, "dimensions", files=3)
    (tmp_path / "resource.yaml").write_text(CUSTOM_RESOURCE.replace("production", "db"))
    plan = document(call(lake, tmp_path, "plan", "--table", "dimensions", "--policy", str(tmp_path / "resource.yaml")))
    assert plan["policy"]["target-file-size-bytes"] == 2**30
    assert plan["policy"]["hourly-cost-limit"] == 10


def test_a_table_that_is_configured_for_amoro_is_compacted_as_it_says(lake: Lake, tmp_path: Path) -> None:
    make(lake, "t", files=6, **AMORO)
    plan = document(call(lake, tmp_path, "plan", "--table", "db.t"))
    assert plan["sizes"]["target"] == 128 * 2**20
    assert plan["policy"]["max-files-to-rewrite"] == 10_000
    assert document(call(lake, tmp_path, "run", "--table", "t", "--engine", "inline"))["kind"] == "compacted"


def test_a_table_that_is_off_is_passed_over_with_the_reason(lake: Lake, tmp_path: Path) -> None:
    make(lake, "on", files=6)
    make(lake, "off", files=6, **{"compaction.enabled": "false"})
    plans = {each["table"]: each for each in document(call(lake, tmp_path, "plan", "--all"))}
    assert plans["db.off"]["kind"] == "skipped"
    assert "table property compaction.enabled" in plans["db.off"]["sentence"]
    ended = document(call(lake, tmp_path, "run", "--table", "off", "--engine", "inline"))
    assert ended["kind"] == "skipped"
    forced = call(lake, tmp_path, "run", "--table", "off", "--engine", "inline", "--option", "enabled=true")
    assert document(forced)["kind"] == "compacted"


def test_quiet_hours_hold_runs_back(lake: Lake, tmp_path: Path) -> None:
    make(lake, "t", files=6)
    file = tmp_path / "policy.yaml"
    file.write_text("quiet_hours: [0:00-12:00, 12:00-24:00]")
    args = ["run", "--table", "db.t", "--engine", "inline", "--policy", str(file)]
    ended = document(call(lake, tmp_path, *args))
    assert (ended["kind"], ended["sentence"][:20]) == ("skipped", "It has quiet hours u")
    assert document(call(lake, tmp_path, *args, "--option", "quiet-hours=off"))["kind"] == "compacted"


def test_a_property_that_cannot_be_meant_is_an_error_of_its_table_alone(lake: Lake, tmp_path: Path) -> None:
    make(lake, "bad", files=6, **{"compaction.min-input-files": "many"})
    make(lake, "good", files=6)
    ran = call(lake, tmp_path, "run", "--all", "--engine", "inline")
    kinds = {each["table"]: each for each in json.loads(ran.stdout)}
    assert kinds["db.good"]["kind"] == "compacted"
    assert kinds["db.bad"]["kind"] == "failed"
    assert kinds["db.bad"]["sentence"].startswith("Table property compaction.min-input-files: ")


def test_a_file_that_cannot_be_used_is_wrong_usage_before_anything_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("owner: a\nstratgy: full")
    result = CliRunner().invoke(app, ["run", "--all", "--catalog-uri", "http://nowhere.invalid", "--policy", str(file)])
    assert result.exit_code == 2
    assert f"{file}, line 2: stratgy is not known; did you mean strategy?" in result.output


def test_the_table_is_loaded_once(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, "t", files=6, **{"compaction.min-input-files": "6"})
    loads: list[str] = []
    original = load_tables.load_table

    def load(catalog: Any, name: str) -> Any:
        loads.append(name)
        return original(catalog, name)

    monkeypatch.setattr(load_tables, "load_table", load)
    for verb in (["plan", "--table", "db.t"], ["explain", "db.t"], ["policy", "show", "db.t"]):
        loads.clear()
        document(call(lake, tmp_path, *verb))
        assert loads == ["db.t"], verb


def test_explain_has_every_value_with_its_origin(lake: Lake, tmp_path: Path) -> None:
    make(lake, "t", files=6, **{"write.target-file-size-bytes": "1000000", "self-optimizing.quota": "0.5"})
    file = tmp_path / "policy.yaml"
    file.write_text("profile: guide\nschedule: '0 2 * * *'\nnamespaces: {db: {owner: us}}")
    args = ["explain", "t", "--policy", str(file), "--environment", "production", "--min-input-files", "2"]
    explained = document(call(lake, tmp_path, *args))
    values = {each["name"]: (each["value"], each["origin"]["kind"]) for each in explained["settings"]}
    assert values["target-file-size-bytes"] == (1_000_000, "property")
    assert values["min-file-size-bytes"] == (750_000, "default")
    assert values["min-input-files"] == (2, "flag")
    assert values["max-files-to-rewrite"] == (100, "profile")
    assert values["owner"] == ("us", "file")
    assert values["environment"] == ("production", "flag")
    assert values["verify"] == ("checksum", "default")
    assert explained["verdict"] == "runs"
    assert explained["gain"]["input_files"] == 6
    assert 0 < explained["gain"]["cost"] < explained["gain"]["saving"]
    assert explained["next_due_ms"] is not None
    assert explained["ignored"][0]["name"] == "self-optimizing.quota"


def test_a_plan_records_the_hash_of_its_policy_and_keeps_it(lake: Lake, tmp_path: Path) -> None:
    make(lake, "t", files=6)
    file = tmp_path / "plan.json"
    document(call(lake, tmp_path, "plan", "--table", "db.t", "--min-input-files", "3", "--out", str(file)))
    plan = load_plan(file)
    assert plan.policy_hash == policies.digest(Policy(min_input_files=3))
    content = json.loads(plan.model_dump_json())
    del content["policy_hash"]
    assert rewrite_plan.parse(content).policy_hash == plan.policy_hash, "plans of older versions have none"
    content["policy_hash"] = policies.digest(Policy())
    with pytest.raises(ValueError, match="its policy is not the one that its policy_hash is of"):
        rewrite_plan.parse(content)


@pytest.mark.parametrize("form", ["path", "mapping", "policy", "table policy"])
def test_the_library_takes_a_policy_in_every_form(form: str, lake: Lake, tmp_path: Path) -> None:
    make(lake, "sales")
    (tmp_path / "policy.yaml").write_text("tables: {sales: {min_files: 4}}")
    given: Any = {
        "path": tmp_path / "policy.yaml",
        "mapping": {"tables": {"db.sales": {"minInputFiles": 4}}},
        "policy": Policy(min_input_files=4),
        "table policy": TablePolicy(rewrite=Policy(min_input_files=4), owner="é𐀀"),
    }[form]
    compactor = Compactor(lake.catalog, target_file_size="1GB", engine="inline", policy=given)
    effective = compactor.policy_of("sales")
    assert effective.policy.rewrite.target_file_size_bytes == 10**9
    assert effective.origin("target-file-size-bytes").words == "target-file-size-bytes"
    assert compactor.explain("sales").verdict.value == "runs"
    assert compactor.compact_table("sales").kind is Kind.COMPACTED


def test_an_option_may_belong_to_the_strategy_that_a_policy_states(lake: Lake) -> None:
    given = {"strategy": "sort"}
    assert Compactor(lake.catalog, options={"sort-order": "id"}, policy=given).policy.sort_order
    with pytest.raises(errors.ConfigError, match="is for the strategy sort"):
        Compactor(lake.catalog, options={"sort-order": "id"})


def test_the_library_refuses_a_policy_that_cannot_be_used(lake: Lake) -> None:
    with pytest.raises(errors.ConfigError, match="is not known; did you mean strategy"):
        Compactor(lake.catalog, engine="inline", policy={"stratgy": "full"})
    with pytest.raises(errors.ConfigError, match="a TablePolicy, not a value of type int"):
        Compactor(lake.catalog, engine="inline", policy=5)  # type: ignore[arg-type]
    with pytest.raises(errors.ConfigError, match="There is no step 'foo' of upkeep; the steps are tags"):
        Compactor(lake.catalog, engine="inline").maintain("t", ["foo"])


def test_the_tables_that_are_due_are_those_of_the_policy(lake: Lake, tmp_path: Path) -> None:
    make(lake, "t", files=2)
    state = tmp_path / "runs.db"
    assert call(lake, tmp_path, "doctor", "--remember").exit_code == 0
    given = {"triggers": {"preset": "strategy", "max_file_count_per_partition": 1}}
    (due,) = Compactor(lake.catalog, engine="inline", state=state, policy=given).due_tables()
    assert [text.split(" > ")[1] for text in due.triggers] == ["max_file_count_per_partition 1"]
    off = {"tables": {"db.t": {"triggers": {"max_file_count_per_partition": 2}}}}
    (due,) = Compactor(lake.catalog, engine="inline", state=state, policy=off).due_tables()
    assert due.state.value == "quiet"


def test_the_librarys_options_may_belong_to_the_strategy_that_a_policy_states(lake: Lake) -> None:
    make(lake, "sales")
    compactor = Compactor(lake.catalog, options={"sort-order": "id"}, engine="inline", policy={"strategy": "sort"})
    assert compactor.compact_table("sales").kind is Kind.COMPACTED


def test_the_librarys_example_runs(lake: Lake) -> None:
    make(lake, "sales", files=6)
    strategy = getattr(Strategy, "COST_OPTIMIZED", Strategy.SMALL_FILES)
    built = (
        Compactor.builder().catalog(lake.catalog).strategy(strategy).target_file_size("1GB").engine("inline").build()
    )
    result = built.compact_table("sales")
    assert result.ok
    assert built.policy_of("sales").policy.rewrite.strategy is strategy


def test_policy_verbs_on_a_lake(lake: Lake, tmp_path: Path) -> None:
    make(lake, "t", files=6, **{"compaction.owner": "us"})
    file = tmp_path / "begun.yaml"
    begun = CliRunner().invoke(app, ["policy", "init", "--catalog-uri", str(lake.settings.uri), "--out", str(file)])
    assert begun.exit_code == 0, begun.output
    assert document(call(lake, tmp_path, "policy", "check", str(file)))["ok"]
    again = CliRunner().invoke(app, ["policy", "init", "--catalog-uri", str(lake.settings.uri), "--out", str(file)])
    assert (again.exit_code, "is there already" in again.output) == (2, True)
    shown = CliRunner().invoke(app, ["policy", "show", "t", "--catalog-uri", str(lake.settings.uri)])
    assert "owner: us" in shown.stdout
    assert "# table property compaction.owner" in shown.stdout
    wrong = CliRunner().invoke(app, ["policy", "diff", str(file)])
    assert (wrong.exit_code, "takes two policy files" in wrong.output) == (2, True)
    schema = CliRunner().invoke(app, ["policy", "schema"])
    assert json.loads(schema.stdout)["type"] == "object"
