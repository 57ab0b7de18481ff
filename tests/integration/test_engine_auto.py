"""`--engine auto`: small plans are performed here, others on Spark, and the run says which and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import engines
from tests.factories import lake as lakes
from typer.testing import CliRunner

from iceberg_compaction import Compactor
from iceberg_compaction.execute import engine_choice
from iceberg_compaction.execute.engines.spark import early_start, spark_engine
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from iceberg_compaction.model.events import Event


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_start, "EarlyStart", lambda conf: engines.no_engine())
    monkeypatch.setattr(spark_engine, "SparkEngine", lambda **given: engines.no_engine())


@pytest.fixture
def names(local_lake: lakes.Lake) -> list[str]:
    for name in ("db.a", "db.b"):
        lakes.append_small_files(lakes.make_table(local_lake.catalog, name), 5)
    return ["db.a", "db.b"]


@pytest.mark.usefixtures("no_spark")
def test_small_plans_start_no_spark_and_say_so(local_lake: lakes.Lake, names: list[str], tmp_path: Path) -> None:
    runs = tmp_path / "runs.db"
    flags = ["--catalog-uri", str(local_lake.settings.uri), "--engine", "auto", "--output", "json"]
    result = CliRunner().invoke(
        app, ["run", "--all", "--parallel", "2", *flags], env={"ICEBERG_COMPACTION_STATE": str(runs)}
    )
    assert result.exit_code == 0, result.stderr
    for outcome in json.loads(result.stdout):
        assert outcome["kind"] == "compacted"
        assert "Engine inline: 5 files (" in outcome["sentence"]
        assert f"{outcome['table']}: Engine inline: 5 files (" in result.stderr
    assert names == sorted(outcome["table"] for outcome in json.loads(result.stdout))
    told = CliRunner().invoke(app, ["report", "latest"], env={"ICEBERG_COMPACTION_STATE": str(runs), "COLUMNS": "200"})
    assert "Engine inline: 5 files (" in told.stdout


@pytest.mark.usefixtures("no_spark")
def test_checks_and_deletes_choose_as_well(local_lake: lakes.Lake, names: list[str]) -> None:
    seen: list[Event] = []
    compactor = Compactor(local_lake.catalog, engine="auto", on_event=seen.append)
    run_id = compactor.compact_table(names[0]).run_id
    assert compactor.verify(run_id, names[0]).verdict.value == "proved"
    chosen = [event.sentence for event in seen if event.kind == "engine-chosen"]
    assert len(chosen) == 2
    assert "Engine inline: 6 files (" in chosen[1]  # what was written, and what was replaced


@pytest.mark.spark
def test_large_plans_go_to_the_session_that_is_there(
    local_lake: lakes.Lake, names: list[str], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_choice, "SMALL_SECONDS_READY", 0.0)  # else the table would have to be large
    seen: list[Any] = []
    compactor = Compactor(local_lake.catalog, engine="auto", spark=spark, on_event=seen.append)
    rows = local_lake.catalog.load_table(names[0]).scan().to_arrow().num_rows
    plan = compactor.plan_table(names[0])
    choice = wiring.choose_engine(plan, session=spark)  # type: ignore[arg-type]
    outcome = compactor.compact_table(names[0])
    assert outcome.kind.value == "compacted"
    assert choice.engine == "spark"
    assert choice.sentence in outcome.sentence
    assert "they go to Spark, which runs already" in choice.sentence
    assert local_lake.catalog.load_table(names[0]).scan().to_arrow().num_rows == rows
