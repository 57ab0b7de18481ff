"""`--triggers`, `--trigger`, `--read-parallelism` and `--diff` as people type them, on a real lake."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result


class Shop:
    """A table of six small files, and the command line pointed at it."""

    def __init__(self, lake: lakes.Lake) -> None:
        self.lake = lake
        lakes.append_small_files(lakes.make_table(lake.catalog, "db.events"), 6)

    def call(self, *args: str) -> Result:
        settings = self.lake.settings
        flags = ["--catalog-uri", str(settings.uri), "--warehouse", str(settings.warehouse), "--store", "memory://"]
        return CliRunner().invoke(app, [*args, *flags], env={"NO_COLOR": "1"})

    def plan(self, *args: str) -> Any:
        result = self.call("plan", "--table", "db.events", "--output", "json", *args)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)


@pytest.fixture
def shop(local_lake: lakes.Lake) -> Shop:
    return Shop(local_lake)


def test_a_preset_and_a_threshold_together(shop: Shop) -> None:
    made = shop.plan("--triggers", "guide", "--trigger", "max_file_count_per_partition=5")
    assert made["policy"]["triggers"]["preset"] == "guide"
    assert [group["triggers"] for group in made["groups"]] == ["max_file_count_per_partition, small_file_threshold"]
    (score,) = made["partition_scores"]
    assert score["score"] == pytest.approx(0.3 * 0.06 + 0.2 + 0.2)
    quiet = shop.plan("--trigger", "max-file-count-per-partition=6", "--trigger", "commits_since_rewrite=7")
    assert (quiet["kind"], [left["reason"] for left in quiet["left_out"]]) == ("healthy", ["no-trigger"])
    assert [group["files"] for group in shop.plan("--trigger", "commits_since_rewrite=6")["groups"]] == [6]
    assert shop.plan("--option", "triggers=amoro")["groups"][0]["triggers"] == "minor_trigger_interval"


def test_a_run_under_triggers_and_the_next_one(shop: Shop) -> None:
    run = ("run", "--table", "db.events", "--engine", "inline", "--triggers", "amoro", "--output", "json")
    assert json.loads(shop.call(*run).stdout)["kind"] == "compacted"
    assert json.loads(shop.call(*run).stdout)["kind"] == "healthy"


@pytest.mark.parametrize("strategy", [("sort", "--sort-order"), ("dimensional", "--cluster-by")])
@pytest.mark.parametrize("forbidden", [("--trigger", "commits_since_rewrite=7"), ("--read-parallelism", "6")])
def test_strategies_that_sort_leave_alone_what_triggers_or_readers_do(
    shop: Shop, strategy: tuple[str, str], forbidden: tuple[str, str]
) -> None:
    args = ("--strategy", strategy[0], strategy[1], "id")
    assert [group["files"] for group in shop.plan(*args)["groups"]] == [6]
    made = shop.plan(*args, *forbidden)
    assert (made["kind"], [left["files"] for left in made["left_out"]]) == ("healthy", [6])


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--triggers", "guides"), "Wrong value for triggers.preset: it must be 'strategy', 'guide' or 'amoro'."),
        (("--trigger", "max_delete_ratio"), "--trigger number 1 is not of the form key=value."),
        (("--trigger", "fragment_ratio=8"), "fragment-ratio has two meanings"),
        (("--read-parallelism", "-1"), "read-parallelism"),
        (("--diff", "nothing.json"), "The plan nothing.json cannot be read"),
    ],
)
def test_mistakes_get_one_sentence(shop: Shop, args: tuple[str, ...], words: str) -> None:
    result = shop.call("plan", "--table", "db.events", *args)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_the_difference_to_an_older_plan(shop: Shop, tmp_path: Path) -> None:
    old = tmp_path / "old.json.gz"
    shop.plan("--out", str(old))
    table = shop.lake.catalog.load_table("db.events")
    lakes.append_small_files(table, 2)
    difference = shop.plan("--diff", str(old))
    changes = {figure["name"]: figure["new"] - figure["old"] for figure in difference["figures"]}
    assert (changes["files"], changes["groups"]) == (2, 0)
    (group,) = difference["groups"]
    assert (group["change"], group["sentence"]) == ("changed", "2 came to it")
    assert difference["cause"].startswith("the table has moved from snapshot")
    lakes.make_table(shop.lake.catalog, "db.orders")
    other = shop.call("plan", "--table", "db.orders", "--diff", str(old))
    assert other.exit_code == 2
    assert "is of db.events, branch main, not of db.orders, branch main" in " ".join(other.stderr.split())
    many = shop.call("plan", "--all", "--diff", str(old))
    assert "--diff compares one table's plan, but 2 tables are meant." in " ".join(many.stderr.split())
