"""Tables by the names that people use: without a namespace, with dots, colons, spaces and backticks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.factories import guides
from tests.factories import lake as lakes
from typer.testing import CliRunner

from iceberg_compaction import Compactor, Kind, Strategy, errors
from iceberg_compaction.interfaces.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result


DRY = {
    "doctor": (),
    "plan": (),
    "run": ("--dry-run",),
    "maintain": ("--dry-run",),
    "expire": ("--dry-run",),
    "manifests": ("--dry-run",),
    "repair": (),
}


@pytest.fixture
def lake(local_lake: lakes.Lake) -> lakes.Lake:
    """Tables of several namespaces; only `sales` is in two of them."""
    for namespace, name in [("db", "events"), ("db", "sales"), ("crm", "sales"), ("db", "a.b"), ("db", "my table:1`")]:
        local_lake.catalog.create_namespace_if_not_exists((namespace,))
        lakes.append_small_files(local_lake.catalog.create_table((namespace, name), lakes.NUMBERS), 5)
    return local_lake


def call(lake: lakes.Lake, state: Path, *args: str, **variables: str) -> Result:
    settings = lake.settings
    env = {"NO_COLOR": "1", "ICEBERG_COMPACTION_STATE": str(state), "CATALOG_URI": str(settings.uri)} | variables
    return CliRunner().invoke(app, [*args, "--output", "json", "--no-progress"], env=env)


def tables(result: Result) -> Any:
    found = json.loads(result.stdout)
    return [one["table"] for one in found] if isinstance(found, list) else found["table"]


def test_the_cron_job_of_the_guide_compacts_its_table_as_it_stands(lake: lakes.Lake, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from iceberg_compaction.interfaces.cli import main; main()"]
    arguments = guides.cron_job_arguments(str(lake.settings.uri))
    env = os.environ | {"XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=300, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert lake.catalog.load_table("db.events").inspect.data_files().num_rows == 1


def test_the_tables_of_the_guides_policy_are_compacted_by_their_names_and_sizes(
    lake: lakes.Lake, tmp_path: Path
) -> None:
    for row in guides.policy_tables():
        name = f"{row['namespace']}.{row['table']}"
        lake.catalog.create_namespace_if_not_exists(row["namespace"])
        moments = pa.array([datetime(2026, 1, 1, hour, tzinfo=timezone.utc) for hour in range(5)])
        table = lake.catalog.create_table(name, pa.schema([pa.field("at", moments.type)]))
        for hour in range(5):
            table.append(pa.table({"at": moments.slice(hour, 1)}))
        chosen = ("--strategy", row["strategy"])
        flags = ("--table", row["table"], "--target-file-size", row["size"], *chosen, "--engine", "inline")
        result = call(lake, tmp_path / "runs.db", "run", *flags, CATALOG_NAMESPACE=row["namespace"])
        assert result.exit_code == 0, result.stderr
        assert tables(result) == name
        assert lake.catalog.load_table(name).inspect.data_files().num_rows == 1


def test_a_bare_name_is_a_table_of_the_only_namespace_that_has_one(lake: lakes.Lake, tmp_path: Path) -> None:
    result = call(lake, tmp_path / "runs.db", "--table=events", "--strategy=small-files", "--engine=inline")
    assert result.exit_code == 0, result.stderr
    assert tables(result) == "db.events"
    assert lake.catalog.load_table("db.events").inspect.data_files().num_rows == 1


def test_the_candidates_of_a_bare_name_are_listed(lake: lakes.Lake, tmp_path: Path) -> None:
    result = call(lake, tmp_path / "runs.db", "plan", "--table=sales")
    assert result.exit_code == 2
    assert "crm.sales, db.sales" in result.stderr
    missing = call(lake, tmp_path / "runs.db", "plan", "--table=sale")
    assert missing.exit_code == 1
    assert "did you mean crm.sales or db.sales?" in missing.stderr


def test_a_bare_name_is_looked_up_in_the_given_namespace(lake: lakes.Lake, tmp_path: Path) -> None:
    state = tmp_path / "runs.db"
    assert tables(call(lake, state, "plan", "--table", "sales", "--namespace", "crm")) == "crm.sales"
    assert tables(call(lake, state, "plan", "--table", "sales", CATALOG_NAMESPACE="db")) == "db.sales"
    assert tables(call(lake, state, "doctor", "--table", "sal*", "--namespace", "crm")) == ["crm.sales"]
    assert tables(call(lake, state, "doctor", "--all", CATALOG_NAMESPACE="crm")) == ["crm.sales"]
    assert tables(call(lake, state, "manifests", "--dry-run", "--table", "db.*", "--namespace", "crm")) == [
        'db."a.b"',
        "db.events",
        "db.my table:1`",
        "db.sales",
    ]
    elsewhere = call(lake, state, "plan", "--table", "events", "--namespace", "crm")
    assert elsewhere.exit_code == 1
    assert "did you mean db.events?" in elsewhere.stderr


@pytest.mark.parametrize(
    ("given", "table"),
    [
        ("`a.b`", 'db."a.b"'),
        ('db."a.b"', 'db."a.b"'),
        ("`db`.`a.b`", 'db."a.b"'),
        ("my table:1`", "db.my table:1`"),
        ("db.`my table:1```", "db.my table:1`"),
    ],
)
def test_names_as_spark_writes_them(lake: lakes.Lake, tmp_path: Path, given: str, table: str) -> None:
    assert tables(call(lake, tmp_path / "runs.db", "plan", "--table", given)) == table


def test_a_pattern_reaches_tables_with_odd_names(lake: lakes.Lake, tmp_path: Path) -> None:
    result = call(lake, tmp_path / "runs.db", "run", "--engine", "inline", "--table", "db.*")
    assert result.exit_code == 0, result.stderr
    kinds = {one["table"]: one["kind"] for one in json.loads(result.stdout)}
    assert kinds == dict.fromkeys(['db."a.b"', "db.events", "db.my table:1`", "db.sales"], "compacted")


def test_a_pattern_means_names_with_dots_by_their_own_letters(lake: lakes.Lake, tmp_path: Path) -> None:
    state = tmp_path / "runs.db"
    assert tables(call(lake, state, "plan", "--table", "db.a*")) == ['db."a.b"']
    assert tables(call(lake, state, "plan", "--table", "a*", "--namespace", "db")) == ['db."a.b"']
    rest = ["db.events", "db.my table:1`", "db.sales"]
    assert tables(call(lake, state, "plan", "--all", "--exclude", "crm.*", "--exclude", "db.a?b")) == rest
    assert tables(call(lake, state, "plan", "--all", "--exclude", "crm.*", "--exclude", "a*")) == rest
    assert 'db."a.b"' in tables(call(lake, state, "plan", "--all", "--exclude", "db.a.b"))  # a table b of db.a


@pytest.mark.parametrize("verb", [("run", "--engine", "inline"), ("run", "--dry-run"), ("plan",), ("doctor",)])
def test_all_tables_of_a_namespace_that_does_not_exist_are_a_mistake(
    lake: lakes.Lake, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    lake.catalog.create_namespace_if_not_exists(("empty",))
    result = call(lake, tmp_path / "runs.db", *verb, "--all", CATALOG_NAMESPACE="cmr")
    assert (result.exit_code, json.loads(result.stdout)["error"]) == (1, "NoSuchTableError")
    assert 'There is no namespace "cmr" in the catalog "default"; did you mean crm?' in result.stderr
    empty = call(lake, tmp_path / "runs.db", *verb, "--all", "--namespace", "empty")
    assert (empty.exit_code, json.loads(empty.stdout)) == (0, [])


def test_the_library_takes_bare_names(lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Compactor.builder().catalog(lake.settings).strategy(Strategy.FULL).target_file_size("1GB")
    inline = builder.engine("inline")
    with pytest.raises(errors.ConfigError, match=r"crm\.sales, db\.sales"):
        inline.build().compact_table("sales")
    outcome = inline.namespace("crm").build().compact_table("sales")
    assert (outcome.table, outcome.kind) == ("crm.sales", Kind.COMPACTED)
    assert inline.build().inspect_table("events").table == "db.events"
    monkeypatch.setenv("CATALOG_NAMESPACE", "db")
    assert inline.build().compact_table("sales").table == "db.sales"


@pytest.mark.parametrize(
    "command", ["doctor", "plan", "run --engine inline", "maintain --engine inline", "expire", "manifests", "repair"]
)
def test_tables_may_be_named_without_a_flag(command: str, lake: lakes.Lake, tmp_path: Path) -> None:
    state = tmp_path / "runs.db"
    bare = call(lake, state, *command.split(), "db.events", "crm.sales", *DRY[command.split()[0]])
    flagged = call(lake, state, *command.split(), "db.events", "-t", "crm.sales", *DRY[command.split()[0]])
    assert (bare.exit_code, tables(bare)) == (0, ["db.events", "crm.sales"]), bare.output
    assert tables(flagged) == tables(bare)


def test_a_verb_that_no_table_is_named_for_says_so(lake: lakes.Lake, tmp_path: Path) -> None:
    done = call(lake, tmp_path / "runs.db", "expire")
    assert done.exit_code == 2
    assert "Name tables, as in --table shop.events." in done.stderr
