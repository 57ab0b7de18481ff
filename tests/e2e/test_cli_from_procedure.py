"""`from-procedure`: calls of Iceberg's procedures, shown as our commands and performed on a real lake."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

NAME = "db.events"


class Shell:
    """The command line on one lake."""

    def __init__(self, lake: lakes.Lake, folder: Path) -> None:
        self.lake, self._environment = lake, {"ICEBERG_COMPACTION_STATE": str(folder / "runs.db"), "NO_COLOR": "1"}

    def call(self, *words: str, statement: str | None = None) -> Result:
        return CliRunner().invoke(app, [*words], env=self._environment, input=statement)

    def port(self, statement: str, *more: str) -> Result:
        return self.call("from-procedure", statement, "--catalog-uri", str(self.lake.settings.uri), *more)

    def files(self) -> int:
        return int(self.lake.catalog.load_table(NAME).inspect.data_files().num_rows)


@pytest.fixture
def shell(local_lake: lakes.Lake, tmp_path: Path) -> Shell:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, NAME), 6)
    return Shell(local_lake, tmp_path)


def test_the_shown_command_does_what_run_does(shell: Shell) -> None:
    statement = (
        f"CALL lake.system.rewrite_data_files('{NAME}', options => map('min-input-files', '2'), where => 'id >= 0')"
    )
    shown = shell.port(statement)
    assert shown.exit_code == 0, shown.stderr
    words = shlex.split(shown.stdout)
    assert words[:2] == ["iceberg-compact", "run"]
    assert shell.files() == 6  # nothing was done
    done = shell.call(*words[1:], "--engine", "inline")
    assert done.exit_code == 0, done.stderr
    assert shell.files() == 1


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        (f"CALL lake.system.rewrite_data_files(table => '{NAME}')", "compacted"),
        (f"CALL lake.system.rewrite_manifests('{NAME}')", "compacted"),
        (f"CALL lake.system.rewrite_position_delete_files('{NAME}')", "healthy"),
        (f"CALL lake.system.expire_snapshots(table => '{NAME}', retain_last => 3)", "healthy"),
        (f"CALL lake.system.expire_snapshots('{NAME}', now() - interval 5 days);", "healthy"),
        (f"CALL `my lake`.system.compute_table_stats('{NAME}', columns => array('id'))", "maintained"),
    ],
)
def test_with_run_it_is_performed(shell: Shell, statement: str, kind: str) -> None:
    result = shell.port(statement, "--run", "--engine", "inline", "--output", "json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    outcome = document[0] if isinstance(document, list) else document
    assert (outcome["table"], outcome["kind"]) == (NAME, kind)


def test_orphans_are_listed_from_standard_input(shell: Shell) -> None:
    statement = f"CALL lake.system.remove_orphan_files(\n  table => '{NAME}',\n  dry_run => true)"
    uri = ["--catalog-uri", str(shell.lake.settings.uri)]
    result = shell.call("from-procedure", "-", "--run", *uri, statement=statement)
    assert result.exit_code == 0, result.stderr


def test_notes_and_refusals_are_told(shell: Shell) -> None:
    noted = shell.port(
        f"CALL lake.system.rewrite_data_files('{NAME}', options => map('max-concurrent-file-group-rewrites','9'))"
    )
    assert noted.exit_code == 0
    assert "note: max-concurrent-file-group-rewrites has no effect" in noted.stderr
    refused = shell.port(f"CALL lake.system.rewrite_manifests('{NAME}', sort_by => array('id'))", "--run")
    assert refused.exit_code == 2
    assert "sort_by cannot be followed" in refused.stderr


def test_the_catalog_of_the_statement_counts_where_no_option_names_one(shell: Shell) -> None:
    statement = f"CALL lake.system.rewrite_manifests('{NAME}')"
    assert "--catalog-name lake" in shell.call("from-procedure", statement).stdout
    conf = ["--conf", "spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog"]
    assert "--spark-catalog lake" in shell.call("from-procedure", statement, *conf).stdout
    assert "lake" not in shell.port(statement).stdout.replace(str(shell.lake.settings.uri), "")
