"""Runs in bad weather: a real S3 store and a real REST catalog behind gates, where 10 % of the requests to storage and
5 % of those to the catalog fail and many are slow, every run ends compacted with the same rows. And in long ones, where
the catalog's keys stop working by the clock (R59).

`make lab` does a few runs with short delays. ICEBERG_COMPACTION_WEATHER=full does ten on each engine with delays of up
to five seconds, and a run of a minute with keys of 20 seconds; ICEBERG_COMPACTION_WEATHER=500 does so many small ones
without delays, to see which share ends well. `pytest -s` shows the share, and the one that the rates lead to expect."""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.factories import gate as gates
from tests.factories import lake as lakes
from tests.factories import reader, vending, work
from tests.lab import scene

from iceberg_compaction import Compactor, errors
from iceberg_compaction.catalog import connect
from iceberg_compaction.execute.engines.inline_engine import InlineEngine
from iceberg_compaction.execute.worker import execute_task
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.storage import passing_faults, s3_client

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.factories.servers import S3Server

    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.settings import CatalogSettings

ASKED = os.environ.get("ICEBERG_COMPACTION_WEATHER", "")
FULL, EXPLORE = ASKED == "full", int(ASKED) if ASKED.isdigit() else 0
STORAGE, CATALOG = 0.10, 0.05  # of requests
LONGEST_DELAY = 5.0 if FULL else 0.0 if EXPLORE else 0.2  # seconds
RUNS = {"inline": EXPLORE or (10 if FULL else 2), "spark": 10 if FULL else 1}
LIFE, TASK = (
    (20.0, 15.0) if FULL else (4.0, 3.0)
)  # of a key and of a task on Spark, in seconds: two tasks outlive a key

pytestmark = pytest.mark.server


@dataclass(slots=True, kw_only=True)
class Coast:
    """A lake behind two gates."""

    lake: lakes.Lake
    s3: gates.Gate
    rest: gates.Gate
    seed: int = 0

    @property
    def settings(self) -> CatalogSettings:
        properties = {"s3.endpoint": self.s3.uri, "oauth2-server-uri": f"{self.rest.uri}/v1/oauth/tokens"}
        changed = {"uri": self.rest.uri, "properties": {**self.lake.settings.properties, **properties}}
        return self.lake.settings.model_copy(update=changed)

    def blow(self) -> None:
        self.seed += 1
        slow = {"delay_rate": 0.2, "longest_delay": LONGEST_DELAY, "seed": self.seed}
        self.s3.turn(gates.Weather(rate=STORAGE, **slow))
        self.rest.turn(gates.Weather(rate=CATALOG, **slow))

    def calm(self) -> None:
        for gate in (self.s3, self.rest):
            gate.turn(gates.Weather())


@pytest.fixture
def coast(s3_lake: lakes.Lake, s3_server: S3Server) -> Iterator[Coast]:
    with gates.gate(s3_server.s3_endpoint) as s3, gates.gate(s3_server.rest_uri) as rest:
        yield Coast(lake=s3_lake, s3=s3, rest=rest)


def test_every_run_ends_well_in_bad_weather(coast: Coast, tmp_path: Path) -> None:
    many(coast, tmp_path, "inline")


@pytest.mark.spark
@pytest.mark.skipif(bool(EXPLORE), reason="many runs are done inline")
def test_every_run_on_spark_ends_well_in_bad_weather(coast: Coast, spark: SparkSession, tmp_path: Path) -> None:
    many(coast, tmp_path, "spark", spark)


def many(coast: Coast, tmp_path: Path, engine: str, session: SparkSession | None = None) -> None:
    """As many runs as were asked for; every one of them ends well."""
    troubles = [one for number in range(RUNS[engine]) if (one := _sail(coast, tmp_path / str(number), engine, session))]
    done = RUNS[engine]
    sys.stdout.write(
        f"\n{done - len(troubles)} of {done} runs ended well on {engine}; {modelled(coast, done)}\n"
        f"storage: {told(coast.s3.happened)}; catalog: {told(coast.rest.happened)}\n"
    )
    assert troubles == []
    assert coast.s3.happened["faults"]
    assert coast.rest.happened["faults"] or done < 5


def _sail(coast: Coast, folder: Path, engine: str, session: SparkSession | None) -> str | None:
    """One run; what went wrong."""
    coast.calm()
    name = coast.lake.name(f"t{uuid.uuid4().hex[:8]}")
    table = scene.build(coast.lake.catalog, name)
    with table.transaction() as change:
        change.remove_properties(*scene.IMPATIENT)  # what an ordinary table has
    coast.blow()
    try:
        with (
            connect.connect(coast.settings) as catalog,
            Compactor(
                catalog, "small-files", options=scene.OPTIONS, engine=engine, spark=session, state=folder / "runs.db"
            ) as compactor,
        ):
            ended = compactor.compact_table(name)
    except errors.CompactionError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        coast.calm()
    table = coast.lake.catalog.load_table(name)
    if ended.kind is not Kind.COMPACTED or ended.groups_landed != scene.DAYS:
        return f"{ended.kind}: {ended.sentence}"
    assert reader.rows(table) == scene.model()
    assert len(reader.Reader().live(table, table.current_snapshot())) == scene.DAYS
    return None


def told(happened: Counter[str]) -> str:
    return f"{happened['faults']} of {happened['requests']} requests failed"


def modelled(coast: Coast, runs: int) -> str:
    """Which share of runs must end well, if faults come by chance: a request fails when all its tries do; a task, when
    some request does in each of its attempts; a commit stays unknown when it and what was sent after it is lost."""
    storage, catalog = (gate.happened["requests"] / max(1, runs) for gate in (coast.s3, coast.rest))
    attempts = execute_task.ATTEMPTS.retries + 1
    task = min(1.0, storage * STORAGE**s3_client.TRIES) ** attempts
    look = catalog * CATALOG ** (passing_faults.USUAL.retries + 1)
    commit = scene.DAYS * CATALOG**3
    return f"by the rates and the number of tries it should be {(1 - task) * (1 - look) * (1 - commit):.4%}"


@pytest.mark.parametrize("engine", ["inline", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_run_outlives_keys_that_end_by_the_clock(
    s3_lake: lakes.Lake, s3_server: S3Server, engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name = s3_lake.name("t")
    table = lakes.make_table(s3_lake.catalog, name, scene.SCHEMA, spec=scene.BY_DAY)
    for first in (0, 10):
        for day in range(4):
            table.append(scene.rows(100 * day + first, 10, day))
    expected = reader.rows(table)
    with vending.vending(s3_server, seconds=LIFE) as vendor, connect.connect(vendor.settings) as catalog:
        rewrite = vendor.telling(TASK if engine == "spark" else TASK / 2)  # which performs two at a time
        made: Engine = InlineEngine(rewrite=rewrite)
        if engine == "spark":
            from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

            made = SparkEngine(session=request.getfixturevalue("spark"), rewrite=rewrite)
        run = wiring.new_run(store=wiring.run_store(str(tmp_path / "runs.db")))
        policy = Policy.model_validate(scene.OPTIONS)
        ended = work.compact_table(catalog, name, policy, lambda: contextlib.nullcontext(made), run)
    assert (ended.kind, ended.groups_landed) == (Kind.COMPACTED, 4), ended.sentence
    assert vendor.refused
    assert reader.rows(table.refresh()) == expected
