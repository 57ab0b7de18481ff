"""Commands that the tool recommends can be pasted: program, catalog and store are in them, secrets are not."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from iceberg_compaction.interfaces.cli import commands, output
from iceberg_compaction.interfaces.cli.options import Format
from iceberg_compaction.model import outcome

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _no_options() -> Iterator[None]:
    yield
    commands.remember({})


def test_a_command_has_the_catalog_options_that_were_given() -> None:
    commands.remember(
        {
            "catalog_uri": "https://catalog.example.com/v1",
            "warehouse": "my warehouse",
            "catalog_property": ["s3.endpoint=https://s3.example.com", "s3.region=eu-1"],
            "catalog_name": None,
            "table": ["other"],
            "quiet": True,
        }
    )
    assert shlex.split(commands.line("run", "--table", "shop.my events")) == [
        "iceberg-compact", "run",
        "--catalog-uri", "https://catalog.example.com/v1",
        "--warehouse", "my warehouse",
        "--catalog-property", "s3.endpoint=https://s3.example.com",
        "--catalog-property", "s3.region=eu-1",
        "--table", "shop.my events",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        ("catalog_uri", "postgresql://me:pass@host/db", "--catalog-uri postgresql://host/db"),
        ("catalog_uri", "postgresql://me:pa@ss@host:5432/db?sslmode=require&password=pass", "sslmode=require"),
        ("catalog_uri", "https://token@host/v1?api_key=pass", "--catalog-uri https://host/v1"),
        ("catalog_uri", "postgresql://me:pass/word@host/db", ""),
        ("catalog_uri", "postgresql://me:pass?word@host/db", ""),
        ("catalog_uri", "sqlite:////data/me@home/catalog.db", "--catalog-uri sqlite:////data/me@home/catalog.db"),
        ("catalog_property", ["s3.secret-access-key=pass"], ""),
        ("catalog_property", ["credential=me:pass"], ""),
        ("catalog_property", ["token=pass"], ""),
        ("catalog_property", ["uri2=https://me:pass@host"], ""),
        ("conf", ["spark.sql.catalog.prod.credential=me:pass"], ""),
        ("conf", ["spark.master=local[2]"], "--conf 'spark.master=local[2]'"),
    ],
)
def test_secrets_are_left_out(name: str, given: object, shown: str) -> None:
    commands.remember({name: given})
    line = commands.line("doctor")
    assert shown in line
    assert not any(secret in line for secret in ("pass", "me:", "token"))
    if not shown:
        assert line == "iceberg-compact doctor"


def test_a_verb_gets_only_options_that_it_takes() -> None:
    commands.remember({"catalog_uri": "sqlite:///c.db", "state": Path("runs.db"), "engine": "inline"})
    assert commands.line("doctor") == "iceberg-compact doctor --catalog-uri sqlite:///c.db"
    assert commands.line("history") == "iceberg-compact history --store runs.db"
    assert commands.line("run").endswith("--catalog-uri sqlite:///c.db --store runs.db --engine inline")
    commands.remember({"catalog_uri": None, "engine": "spark"})
    assert commands.line("run") == "iceberg-compact run"


def test_commands_inside_of_sentences_are_completed_once() -> None:
    commands.remember({"catalog_uri": "sqlite:///c.db", "file": Path("plan.json")})
    sentence = "Run `iceberg-compact run --table db.t` later, or `iceberg-compact apply`; not iceberg-compacted."
    completed = commands.complete(sentence)
    assert completed == (
        "Run `iceberg-compact run --catalog-uri sqlite:///c.db --table db.t` later, or "
        "`iceberg-compact apply plan.json --catalog-uri sqlite:///c.db`; not iceberg-compacted."
    )
    assert commands.complete(completed) == completed


def test_the_program_is_named_as_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "a venv" / "bin" / "iceberg-compact"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sys.argv", [str(script), "doctor"])
    monkeypatch.chdir(tmp_path / "other")
    assert commands.program() == str(script)
    monkeypatch.chdir(tmp_path)
    assert commands.program() == "a venv/bin/iceberg-compact"
    assert commands.line("doctor") == "'a venv/bin/iceberg-compact' doctor"
    monkeypatch.setenv("PATH", str(script.parent))
    assert commands.program() == "iceberg-compact"
    monkeypatch.setattr("sys.argv", [str(tmp_path / "pytest")])
    assert commands.program() == "iceberg-compact"


def test_a_plan_is_performed_with_the_options_that_it_was_made_with() -> None:
    commands.remember(
        {
            "table": ["shop.*"],
            "catalog_uri": "sqlite:///lake/catalog.db",
            "catalog_property": ["s3.secret-access-key=hidden"],
            "strategy": "full",
            "copy_row_groups": "never",
            "rewrite_all": True,
            "partial_progress": False,
            "where": "day = 'x'",
            "branch": "main",
            "output": "json",
            "out": None,
            "metrics_push": "http://me:hidden@gateway:9091",
        }
    )
    words = shlex.split(commands.to_perform_plan())
    assert words[:2] == ["iceberg-compact", "run"]
    pairs = {
        "--table": "shop.*",
        "--catalog-uri": "sqlite:///lake/catalog.db",
        "--strategy": "full",
        "--copy-row-groups": "never",
    }
    assert {name: words[words.index(name) + 1] for name in pairs} == pairs
    assert words[words.index("--where") + 1] == "day = 'x'"
    assert {"--rewrite-all", "--no-partial-progress"} <= set(words)
    assert not {"--branch", "--output", "--out"} & set(words)
    assert "hidden" not in " ".join(words)


def test_a_plan_in_a_file_is_applied_from_it() -> None:
    commands.remember({"table": ["shop.events"], "catalog_uri": "sqlite:///lake/catalog.db", "out": "my plan.json"})
    assert commands.to_perform_plan() == (
        "iceberg-compact apply --catalog-uri sqlite:///lake/catalog.db 'my plan.json'"
    )


def test_results_of_runs_have_complete_commands(capsys: pytest.CaptureFixture[str]) -> None:
    commands.remember({"catalog_uri": "sqlite:///c.db"})
    failed = outcome.Failed(table="db.t", run_id="r", sentence="Run `iceberg-compact run --table db.t` later.")
    output.output(Format.JSON).outcomes([failed], single=True)
    shown = "Run `iceberg-compact run --catalog-uri sqlite:///c.db --table db.t` later."
    assert json.loads(capsys.readouterr().out)["sentence"] == shown
