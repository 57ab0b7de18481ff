"""The demo keeps its promises: sick tables are compacted, proved, and left alone by a second run; one stays sick, and
the commands that are printed at the end can be pasted."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from iceberg_compaction import Compactor
from iceberg_compaction.catalog import connect, sample_lake
from iceberg_compaction.interfaces.cli import demo_folder, tour
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.interfaces.cli.options import ConsoleOptions
from iceberg_compaction.settings import CatalogSettings

PROGRAM = Path(sys.executable).with_name("iceberg-compact")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of a demo, in a folder whose name needs quotes in a shell."""
    lake = tmp_path_factory.mktemp("demo") / "my lake"
    result = CliRunner().invoke(app, ["demo", "--keep", str(lake), "--engine", "inline", "--output", "json"])
    assert result.exit_code == 0, result.output
    (lake / "outcomes.json").write_text(result.stdout)
    return lake


def test_the_demo_from_build_to_second_run(lake: Path) -> None:
    outcomes = json.loads((lake / "outcomes.json").read_text())
    assert [(one["table"], one["kind"]) for one in outcomes] == [
        ("shop.customers", "compacted"),  # saves more for its cost
        ("shop.events", "compacted"),
        ("shop.orders", "healthy"),
        ("shop.events", "healthy"),
        ("shop.customers", "healthy"),
        ("shop.orders", "healthy"),
    ]
    assert outcomes[0]["files_removed"] == 200
    assert outcomes[1]["files_removed"] >= 600
    assert all(one["proof"]["source"]["row_checksum"] == one["proof"]["sink"]["row_checksum"] for one in outcomes[:2])

    catalog = connect.connect(CatalogSettings(uri=f"sqlite:///{lake}/catalog.db"))
    events = catalog.load_table("shop.events")
    assert len(events.metadata.snapshots) >= 61
    assert events.scan().count() == 640_000
    compactor = Compactor(catalog)
    assert [name for name in compactor.list_tables() if compactor.inspect_table(name).sick] == ["shop.visits"]
    catalog.close()


def test_advice_has_the_catalog_options_and_no_secret(lake: Path) -> None:
    catalog = ["--catalog-uri", f"sqlite:///{lake}/catalog.db", "--catalog-property", "token=hush-hush"]
    result = CliRunner().invoke(app, ["doctor", *catalog, "--table", "shop.visits", "--output", "json"])
    advice = " ".join(json.loads(result.stdout)["advice"])
    assert "hush" not in advice
    command = re.search(r"iceberg-compact (run .*?--table shop\.visits)", advice)
    assert command, advice
    verb, *options = shlex.split(command[1])
    assert verb == "run"
    assert CliRunner().invoke(app, ["plan", *options]).exit_code == 0


def test_the_commands_at_the_end_can_be_pasted(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(PROGRAM)])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(lake.parent)
    commands = tour.next_commands(lake, "inline")
    assert len(commands) == 5
    for command in commands:
        assert command.startswith(f"{PROGRAM} ")
        assert str(lake.parent) not in command  # short, as people type it
        pasted = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
        assert pasted.returncode == 0, f"{command}\n{pasted.stderr}"
    assert "healthy" in pasted.stdout or "compacted" in pasted.stdout
    compactor = Compactor(f"sqlite:///{lake}/catalog.db")
    assert not compactor.inspect_table("shop.visits").sick


@pytest.mark.parametrize(("engine", "flag"), [("spark", ""), ("inline", " --engine inline")])
def test_the_next_steps_use_the_engine_of_the_demo(
    engine: str, flag: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    tour.what_next(tmp_path, engine, ConsoleOptions())
    line = f"iceberg-compact run --catalog-uri sqlite:///{tmp_path}/catalog.db{flag} --table shop.visits --store"
    assert line in "".join(capfd.readouterr())


def test_the_next_steps_name_a_java_that_the_shell_does_not_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a jdk"))
    monkeypatch.setenv("PATH", str(tmp_path))
    run = tour.next_commands(tmp_path, "spark")[2]
    assert run.startswith(f"JAVA_HOME='{tmp_path}/a jdk' iceberg-compact run ")


def test_a_lake_of_an_earlier_demo_is_replaced_on_request_only(tmp_path: Path) -> None:
    lake = demo_folder.prepare(tmp_path / "lake", replace=True)
    connect.connect(sample_lake.create(lake)).close()
    for name in ("warehouse/shop/events/a.parquet", "runs.db", "runs.db-wal", "health.html"):
        (lake / name).parent.mkdir(parents=True, exist_ok=True)
        (lake / name).touch()
    again = CliRunner().invoke(app, ["demo", "--keep", str(lake), "--engine", "inline"])
    assert again.exit_code == 2
    assert "--replace" in again.stderr
    demo_folder.prepare(lake, replace=True)
    assert sorted(path.name for path in lake.iterdir()) == sorted(["health.html", demo_folder.MARK])


def test_a_folder_with_something_else_in_it_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("precious")
    refused = CliRunner().invoke(app, ["demo", "--keep", str(tmp_path), "--replace", "--engine", "inline"])
    assert refused.exit_code == 2
    assert "not empty" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_a_lake_with_tables_of_somebody_else_is_never_replaced(tmp_path: Path) -> None:
    lake = demo_folder.prepare(tmp_path / "lake", replace=True)
    catalog = connect.connect(sample_lake.create(lake))
    catalog.create_namespace("mine")
    catalog.create_table("mine.sales", schema=pa.schema([("id", pa.int64())]))
    catalog.close()
    refused = CliRunner().invoke(app, ["demo", "--keep", str(lake), "--replace", "--engine", "inline"])
    assert refused.exit_code == 2
    assert "mine.sales" in refused.stderr
    assert (lake / "catalog.db").exists()


def test_replace_without_keep_is_refused() -> None:
    assert CliRunner().invoke(app, ["demo", "--replace"]).exit_code == 2
