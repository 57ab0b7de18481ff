"""`-v` says what a command reads and does, and no secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    lake = lakes.file_lake(tmp_path_factory.mktemp("verbose"))
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.events"), 6)
    yield ["--catalog-uri", str(lake.settings.uri), "--no-progress"]
    lakes.close(lake)


def said(*args: str) -> str:
    result = CliRunner().invoke(app, list(args))
    assert result.exit_code == 0, result.output
    return result.stderr


def test_a_look_names_versions_catalog_metadata_file_and_manifests(flags: list[str]) -> None:
    lines = said("doctor", "-v", "--table", "db.events", *flags)
    for words in (f"iceberg-compact {__version__}, Python", "pyarrow", "The catalog default: sqlite:///"):
        assert words in lines
    assert ".metadata.json, snapshot " in lines
    assert "6 manifests, 6 live files" in lines
    assert "db.events: 0 of 6 manifests in the cache" in lines
    assert "db.events: 6 of 6 manifests in the cache" in said("plan", "-v", "--table", "db.events", *flags)


def test_without_it_nothing_is_said(flags: list[str]) -> None:
    assert said("plan", "--table", "db.events", *flags) == ""


def test_a_run_names_its_steps(flags: list[str], tmp_path: Path) -> None:
    lines = said(
        "run", "-v", "--table", "db.events", "--engine", "inline", "--state", str(tmp_path / "runs.db"), *flags
    )
    assert "db.events: planning" in lines
    assert "db.events: committed snapshot_id=" in lines
    assert "db.events: finished" in lines
    assert "rewriting" not in lines  # several a second; -vv shows them


def test_a_password_is_struck_out(caplog: pytest.LogCaptureFixture) -> None:
    result = CliRunner().invoke(
        app, ["doctor", "-v", "--catalog-uri", "postgresql://me:hidden-word@localhost:1/lake", "--no-progress"]
    )
    assert result.exit_code != 0
    assert "The catalog default: postgresql://" in result.stderr
    assert "hidden-word" not in result.output + caplog.text
