"""Which engine `auto` takes, and what it says about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.factories import engines

from iceberg_compaction.execute import engine_choice
from iceberg_compaction.execute.engine_choice import SparkState, WorkFigures
from iceberg_compaction.execute.engines import auto_engine, spark_state
from iceberg_compaction.execute.engines.fake_engine import FakeEngine
from iceberg_compaction.execute.engines.inline_engine import InlineEngine

if TYPE_CHECKING:
    from pathlib import Path

SMALL = WorkFigures(files=40, bytes=80 * 2**20, core_seconds=4.4)
LARGE = WorkFigures(files=9000, bytes=90 * 2**30, core_seconds=2400.0)


@pytest.mark.parametrize(
    ("work", "cores", "spark", "engine", "words"),
    [
        (SMALL, 2, SparkState(), "inline", "40 files (80.0 MiB) take about 3 s on 2 cores of this process"),
        (LARGE, 2, SparkState(), "spark", "take about 20 min on 2 cores of this process; they go to Spark, which is"),
        (LARGE, 2, SparkState(missing="it has no Java"), "inline", "but Spark cannot be used: it has no Java."),
        (LARGE, 128, SparkState(), "inline", "so that Spark is not needed"),
        (LARGE, 128, SparkState(ready=True), "spark", "they go to Spark, which runs already"),
        (SMALL, 1, SparkState(name="Spark on yarn"), "inline", "on 1 core of this process, so that Spark on yarn"),
        (WorkFigures(files=1, bytes=1, core_seconds=0), 1, SparkState(), "inline", "1 file (1 B) takes about 0 s"),
    ],
)
def test_small_work_is_done_here_and_other_work_on_spark(
    work: WorkFigures, cores: int, spark: SparkState, engine: str, words: str
) -> None:
    choice = engine_choice.choose(work, cores=cores, spark=spark)
    assert choice.engine == engine
    assert choice.sentence.startswith(f"Engine {engine}: ")
    assert words in choice.sentence


def test_spark_starts_when_work_needs_it_and_once(tmp_path: Path) -> None:
    started: list[str] = []

    def start() -> FakeEngine:
        started.append("spark")
        return FakeEngine(engines.in_pairs, rewrite=engines.make_rewrite())

    from contextlib import nullcontext

    inline = InlineEngine(rewrite=engines.make_rewrite())
    with auto_engine.AutoEngine(inline=inline, spark=lambda: nullcontext(start()), state=SparkState, cores=2) as engine:
        assert engine.for_work(SMALL)[0] is inline
        assert not started
        first, choice = engine.for_work(LARGE)
        assert choice.engine == "spark"
        assert engine.for_work(LARGE)[0] is first
        assert started == ["spark"]
        results, _ = engines.perform(engine, engines.make_job(3, tmp_path))  # nobody gave figures: those of its tasks
        assert len(results) == 3


def test_a_machine_without_java_cannot_use_the_embedded_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="without pyspark nothing is said of Java")
    monkeypatch.setattr("iceberg_compaction.execute.engines.spark.spark_session.is_active", lambda: False)
    monkeypatch.setattr(
        "iceberg_compaction.execute.engines.spark.java.find.__defaults__", ({"JAVA_HOME": str(tmp_path)},)
    )
    assert "has no bin/java" in (spark_state.read({}).missing or "")
    elsewhere = spark_state.read({"spark.master": "spark://far:7077"})
    assert elsewhere == SparkState(name="Spark on spark://far:7077")
