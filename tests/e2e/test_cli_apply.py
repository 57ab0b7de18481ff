"""`plan --out` and `apply` on a real lake: what is printed, which code they end with, what a plan file holds."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.model.rewrite_plan import FORMAT

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table
    from typer.testing import Result

SECRETS = ["hunter2hunter2", "sesame-open-0123", "AKIAEXAMPLEEXAMPLE01"]


class Shop:
    """A lake with a table of three groups, and the command line pointed at it."""

    def __init__(self, lake: lakes.Lake, folder: Path) -> None:
        self.lake = lake
        self.folder = folder
        lakes.append_small_files(lakes.make_table(lake.catalog, "db.events"), 6)

    @property
    def table(self) -> Table:
        return self.lake.catalog.load_table("db.events")

    def call(self, *args: str) -> Result:
        settings = self.lake.settings
        flags = ["--catalog-uri", str(settings.uri), "--warehouse", str(settings.warehouse)]
        return CliRunner().invoke(app, [*args, *flags], env={"NO_COLOR": "1"})

    def plan(self, name: str, *args: str) -> Path:
        out = self.folder / name
        options = ("--option", "min-input-files=2", "--option", "max-file-group-input-files=2")
        result = self.call("plan", "--table", "db.events", "--out", str(out), *options, *args)
        assert result.exit_code == 0, result.stderr
        return out

    def apply(self, path: Path, *args: str) -> Result:
        return self.call("apply", str(path), "--engine", "inline", "--state", str(self.folder / "runs.db"), *args)

    def files(self) -> int:
        return int(self.table.inspect.data_files().num_rows)


@pytest.fixture
def shop(local_lake: lakes.Lake, tmp_path: Path) -> Shop:
    return Shop(local_lake, tmp_path)


def document(result: Result) -> Any:
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", ["plan.json", "plan.json.gz"])
def test_a_plan_is_written_and_applied(shop: Shop, name: str) -> None:
    path = shop.plan(name)
    assert (gzip.decompress(path.read_bytes()) if name.endswith("gz") else path.read_bytes()).startswith(b"{\n")
    shop.table.append(lakes.rows(shop.table.schema().as_arrow(), 10, first=100))
    result = shop.apply(path, "--output", "json")
    assert result.exit_code == 0, result.stderr
    outcome = document(result)
    assert (outcome["kind"], outcome["groups_landed"], len(outcome["snapshot_ids"])) == ("compacted", 3, 1)
    assert [one["outcome"] for one in outcome["group_outcomes"]] == ["landed"] * 3
    assert shop.files() == 4
    assert "3 of 3 groups committed" in result.stderr
    told = CliRunner().invoke(app, ["history", "--state", str(shop.folder / "runs.db"), "--output", "json"])
    assert [one["outcome"] for one in document(told)] == [outcome]


def test_what_was_dropped_is_shown(shop: Shop) -> None:
    path = shop.plan("plan.json")
    shop.table.delete("id < 5")
    result = shop.apply(path)
    assert result.exit_code == 0, result.stderr
    assert "2 of 3" in result.stdout
    assert "dropped" in result.stdout
    assert "1 of its files is no longer in the table" in result.stdout


def test_a_plan_that_was_applied_before_has_nothing_to_do(shop: Shop) -> None:
    path = shop.plan("plan.json")
    assert shop.apply(path).exit_code == 0
    result = shop.apply(path, "--output", "json")
    assert (result.exit_code, document(result)["kind"]) == (0, "healthy")
    assert "rewritten since by run" in document(result)["sentence"]


def test_nothing_left_ends_with_1(shop: Shop) -> None:
    path = shop.plan("plan.json")
    shop.table.delete()
    result = shop.apply(path, "--output", "json")
    assert (result.exit_code, document(result)["kind"]) == (1, "conflict")
    told = " ".join(shop.apply(path).stdout.split())
    assert "Nothing is left of the plan, which had 3 groups; make a new plan." in told


def test_another_table_of_that_name_ends_with_1(shop: Shop) -> None:
    path = shop.plan("plan.json")
    shop.lake.catalog.drop_table("db.events")
    lakes.append_small_files(lakes.make_table(shop.lake.catalog, "db.events"), 2)
    result = shop.apply(path, "--output", "json")
    assert result.exit_code == 1
    assert "uuid differs" in document(result)["sentence"]
    shop.lake.catalog.drop_table("db.events")
    result = shop.apply(path)
    assert result.exit_code == 1
    assert "db.events" in result.stderr


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read: No such file"),
        ("{}", "is not a plan"),
        ("not JSON", "it is not JSON"),
        (("db.events", "db.orders"), "its checksum differs; make a new plan"),
        ((f'"format": {FORMAT}', '"format": 3'), "has format 3"),
    ],
)
def test_a_file_that_is_no_plan_ends_with_2_and_one_sentence(shop: Shop, content: Any, told: str) -> None:
    path = shop.plan("plan.json")
    if content is None:
        path.unlink()
    else:
        path.write_text(content if isinstance(content, str) else path.read_text().replace(*content, 1))
    result = shop.apply(path)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
    assert shop.files() == 6


def test_a_plan_file_holds_no_secret(shop: Shop) -> None:
    path = shop.plan(
        "plan.json",
        *("--catalog-property", f"s3.secret-access-key={SECRETS[0]}"),
        *("--catalog-property", f"token={SECRETS[1]}"),
        *("--catalog-property", f"s3.access-key-id={SECRETS[2]}"),
    )
    text = path.read_text()
    assert not [secret for secret in SECRETS if secret in text]
    assert str(shop.lake.settings.uri) not in text


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ((), (None, 10, True)),
        (("--partial-progress", "--partial-progress-max-commits", "2"), (True, 2, True)),
        (("--option", "partial-progress.enabled=false", "--no-replan-conflicts"), (False, 10, False)),
        (("--option", "partial-progress.max-commits=3", "--option", "replan_conflicts=no"), (None, 3, False)),
    ],
)
def test_how_groups_are_committed_is_part_of_the_plan(shop: Shop, flags: tuple[str, ...], told: Any) -> None:
    policy = json.loads(shop.plan("plan.json", *flags).read_text())["policy"]
    names = ("partial-progress", "partial-progress-max-commits", "replan-conflicts")
    assert tuple(policy[name] for name in names) == told


def test_all_groups_in_one_commit(shop: Shop) -> None:
    outcome = document(shop.apply(shop.plan("plan.json", "--no-partial-progress"), "--output", "json"))
    assert (outcome["groups_landed"], outcome["snapshot_ids"]) == (3, [outcome["snapshot_id"]])
    wrong = shop.call("plan", "--table", "db.events", "--option", "partial-progress.max-commits=0")
    assert wrong.exit_code == 2
    assert "partial-progress-max-commits" in wrong.stderr
