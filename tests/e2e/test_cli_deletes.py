"""`iceberg-compact deletes` from flags to exit code, for people and for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.factories import manifests, reader
from tests.factories.cities import BY_CITY, SCHEMA, rows
from tests.factories.lake import make_table
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli.app import app

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from click.testing import Result
    from tests.factories.lake import Lake


@pytest.fixture
def lake(local_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Rome has an equality delete, Oslo two position deletes for one file, Bonn a delete and no data."""
    table = make_table(local_lake.catalog, local_lake.name("t"), SCHEMA, spec=BY_CITY)
    table.append(rows(0))
    table.append(rows(10, ("Bonn",), 1))
    table = local_lake.catalog.load_table(table.name())
    paths = {
        city: next(p for p in table.inspect.files()["file_path"].to_pylist() if city in p)
        for city in ("Rome", "Oslo", "Bonn")
    }
    keys = pa.table({"id": pa.array([2], pa.int64())})
    table = manifests.add_equality_delete(table, keys, like=paths["Rome"])
    for position in (0, 1):
        table = manifests.add_position_delete(table, {paths["Oslo"]: [position]})
    table = manifests.add_position_delete(table, {paths["Bonn"]: [0]})
    gone = manifests.data_file_of(table, paths["Bonn"])
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        overwrite.delete_data_file(gone)
    monkeypatch.setenv("ICEBERG_COMPACTION_STATE", str(tmp_path / "runs.db"))
    return local_lake


def call(lake: Lake, verb: str, *flags: str) -> Result:
    return CliRunner().invoke(app, [verb, *flags, "--catalog-uri", str(lake.settings.uri)])


def visible(lake: Lake) -> Counter[reader.Row]:
    return reader.rows(lake.catalog.load_table(lake.name("t")))


def test_a_dry_run_says_what_and_why_and_a_run_does_it(lake: Lake) -> None:
    before = visible(lake)
    shown = call(lake, "deletes", "--table", "db.t", "--dry-run")
    assert shown.exit_code == 0, shown.stderr
    words = " ".join(shown.stdout.split())
    assert "1 delete file applies to nothing and leaves; 2 position delete files are merged; " in words
    for line in ("dangling, city=Bonn", "merge, city=Oslo", "convert, city=Rome"):
        assert line in words

    outcome = json.loads(call(lake, "deletes", "--table", "db.t", "--engine", "inline", "-o", "json", "-q").stdout)

    assert (outcome["kind"], outcome["operation"]) == ("maintained", "deletes")
    assert outcome["figures"] == {
        "dangling-delete-files": 1,
        "merged-delete-files": 2,
        "converted-delete-files": 1,
        "new-position-delete-files": 2,
        "positions": 3,
    }
    assert visible(lake) == before
    again = call(lake, "deletes", "--table", "db.t", "--engine", "inline")
    assert (again.exit_code, "Nothing is worth doing" in again.stdout) == (0, True)
    history = CliRunner().invoke(app, ["history", "--output", "json"])
    assert [entry["outcome"]["kind"] for entry in json.loads(history.stdout)] == ["healthy", "maintained"]
    assert "maintained by deletes" in CliRunner().invoke(app, ["history"], env={"COLUMNS": "200"}).stdout


def test_a_saved_plan_is_applied(lake: Lake, tmp_path: Path) -> None:
    before = visible(lake)
    file = str(tmp_path / "plan.json")
    assert call(lake, "deletes", "--table", "db.t", "--convert", "--out", file).exit_code == 0
    done = call(lake, "apply", file, "--engine", "inline")
    assert done.exit_code == 0, done.stderr
    assert visible(lake) == before
    deletes = lake.catalog.load_table(lake.name("t")).inspect.delete_files()["content"].to_pylist()
    assert sorted(deletes) == [1, 1, 1, 1]  # the other two ways were not in the plan


def test_dangling_alone_and_a_condition(lake: Lake) -> None:
    words = call(lake, "deletes", "--table", "db.t", "--dangling").stdout
    assert "1 dangling delete files" in " ".join(words.split())
    outcome = call(lake, "deletes", "--table", "db.t", "--where", "city = 'Oslo'", "--engine", "inline", "-o", "json")
    assert json.loads(outcome.stdout)["figures"]["converted-delete-files"] == 0
    assert json.loads(outcome.stdout)["figures"]["merged-delete-files"] == 2


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--granularity", "row"), "The granularity of delete files is file or partition, not 'row'."),
        (("--verify", "checksum"), "--verify is counts or deep here, not 'checksum'."),
    ],
)
def test_a_wrong_word_is_told(lake: Lake, flags: tuple[str, ...], sentence: str) -> None:
    done = call(lake, "deletes", "--table", "db.t", *flags)
    assert done.exit_code == 2
    assert sentence in " ".join(done.stderr.split())
