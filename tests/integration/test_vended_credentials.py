"""R59: credentials that a REST catalog vends expire in the middle of a run. Tasks that start later, the commit and the
sweep get fresh ones, on every engine. That it is so by the clock, too, shows tests/lab/test_weather_lab.py."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes
from tests.factories import reader, vending, work
from tests.lab import scene

from iceberg_compaction import errors
from iceberg_compaction.catalog import connect, load_tables
from iceberg_compaction.execute.engines.inline_engine import InlineEngine
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.storage import file_io, listing, remove

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table
    from pyspark.sql import SparkSession
    from tests.factories.servers import S3Server

    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.model.events import Event

pytestmark = pytest.mark.server
DAYS = 4
# The keys that a run has end when the second of its tasks begins, and twice when the last does.
DEADLY = {(1, 1), (3, 1), (3, 2)}


@pytest.fixture
def vendor(s3_server: S3Server) -> Iterator[vending.Vending]:
    with vending.vending(s3_server) as made:
        yield made


@pytest.fixture
def table(s3_lake: lakes.Lake) -> Table:
    """A group and a task for each day."""
    made = lakes.make_table(
        s3_lake.catalog, s3_lake.name("t"), scene.SCHEMA, spec=scene.BY_DAY, properties=scene.IMPATIENT
    )
    for number in range(2):
        for day in range(DAYS):
            made.append(scene.rows(100 * day + 10 * number, 10, day))
    return made


def check_run(vendor: vending.Vending, table: Table, engine: Engine, tmp_path: Path) -> None:
    vendor.deadly = set(DEADLY)
    expected = reader.rows(table)

    def on_event(event: Event) -> None:
        if event.kind == "committing":
            vendor.expire()

    run = wiring.new_run(on_event=on_event, store=wiring.run_store(str(tmp_path / "runs.db")))
    policy = Policy.model_validate({"min-input-files": 2})
    with connect.connect(vendor.settings) as catalog:
        name = ".".join(table.name())
        ended = work.compact_table(catalog, name, policy, lambda: contextlib.nullcontext(engine), run)
    assert (ended.kind, ended.groups_landed) == (Kind.COMPACTED, DAYS), ended.sentence
    assert vendor.refused
    assert vendor.begun[3] >= 3
    table.refresh()
    assert reader.rows(table) == expected
    assert len(reader.Reader().live(table, table.current_snapshot())) == DAYS
    if scene.unexplained(table):  # keys ended between a file and the end of its task, which could not remove it
        with connect.connect(vendor.settings) as catalog:
            again = wiring.new_run(store=run.store)
            work.compact_table(catalog, name, policy, lambda: contextlib.nullcontext(engine), again)
    assert scene.unexplained(table) == set()
    shown = json.dumps([ended.model_dump(mode="json")])
    assert not [key for key in vendor.keys.values() if key.secret in shown or key.token in shown]


def test_a_run_outlives_its_credentials(vendor: vending.Vending, table: Table, tmp_path: Path) -> None:
    check_run(vendor, table, InlineEngine(rewrite=vendor.telling()), tmp_path)


@pytest.mark.spark
def test_a_run_on_spark_outlives_its_credentials(
    vendor: vending.Vending, table: Table, spark: SparkSession, tmp_path: Path
) -> None:
    from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

    check_run(vendor, table, SparkEngine(session=spark, rewrite=vendor.telling()), tmp_path)


def test_keys_that_are_refused_for_good_end_the_run_in_words(
    vendor: vending.Vending, table: Table, tmp_path: Path
) -> None:
    vendor.deadly = {(task, time) for task in range(DAYS) for time in range(1, 9)}
    run = wiring.new_run(store=wiring.run_store(str(tmp_path / "runs.db")))
    engine = InlineEngine(rewrite=vendor.telling())
    with connect.connect(vendor.settings) as catalog:
        name = ".".join(table.name())
        ended = work.compact_table(
            catalog, name, Policy.model_validate({"min-input-files": 2}), lambda: contextlib.nullcontext(engine), run
        )
    assert ended.kind is Kind.FAILED, ended.sentence
    assert set(vendor.begun.values()) == {2}, "once with fresh ones, and no more"
    assert scene.run_snapshots(table.refresh()) == {}
    assert scene.unexplained(table) == set()


def test_what_the_driver_does_late_is_done_with_fresh_credentials(vendor: vending.Vending, table: Table) -> None:
    path = f"{table.location()}/data/{'a' * 32}.parquet"
    with connect.connect(vendor.settings) as catalog:
        ours = load_tables.load_table(catalog, ".".join(table.name()))
        before = file_io.io_properties(ours)["s3.access-key-id"]
        vendor.expire()
        with ours.io.new_output(path).create() as stream:
            stream.write(b"1")
        vendor.expire()
        found = listing.list_files(ours.io, f"{table.location()}/data", lambda name: "aaaa" in name)
        assert [file.path for file in found] == [path]
        vendor.expire()
        assert len(ours.io.new_input(path)) == 1
        vendor.expire()
        assert remove.remove_files(ours.io, [path], remove.RemovalProof.NOT_COMMITTED) == ()
        assert file_io.io_properties(ours)["s3.access-key-id"] != before
    assert not table.io.new_input(path).exists()


def test_a_file_that_stays_open_outlives_several_credentials(vendor: vending.Vending, table: Table) -> None:
    path = next(iter(table.scan().plan_files())).file.file_path
    with connect.connect(vendor.settings) as catalog:
        ours = load_tables.load_table(catalog, ".".join(table.name()))
        with ours.io.new_input(path).open() as stream:
            for _ in range(3):
                vendor.expire()
                stream.seek(0)
                assert stream.read(4) == b"PAR1"


@pytest.mark.parametrize("said", [{"s3.signer": "S3V4RestSigner"}, {"s3.remote-signing-enabled": "true"}])
def test_remote_signing_is_refused_beforehand(vendor: vending.Vending, table: Table, said: dict[str, str]) -> None:
    vendor.extra = {"s3.access-key-id": "", "s3.secret-access-key": "", "s3.session-token": "", **said}
    with (
        connect.connect(vendor.settings) as catalog,
        pytest.raises(errors.UnsupportedError, match=r"remote signing.*have it vend credentials"),
    ):
        load_tables.load_table(catalog, ".".join(table.name()))
