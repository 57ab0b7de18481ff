"""Orphans in an object store: listed by pages, copied inside the store, and uploads that nobody has finished."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import fs
from pyiceberg.catalog.sql import SqlCatalog
from tests.factories import lake as lakes

from iceberg_compaction.catalog import load_tables
from iceberg_compaction.execute.engines.fake_engine import FakeEngine
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.orphan_plan import OrphanGoal
from iceberg_compaction.model.outcome import Kind, Maintained
from iceberg_compaction.operations.orphans import scan_folders
from iceberg_compaction.operations.orphans.quarantine_end import EndQuarantine
from iceberg_compaction.operations.orphans.remove_orphans import RemoveOrphans
from iceberg_compaction.storage.s3 import bucket_requests, object_files
from iceberg_compaction.storage.tree import cut_folders, walk_files
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table
    from tests.factories import servers

pytestmark = pytest.mark.server

SECOND = 1.1  # the store's time has full seconds
RECENT = OrphanGoal(older_than_ms=0, allow_recent=True, force_share=True, uploads=True)


@pytest.fixture(scope="module")
def table(s3_server: servers.S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    """In a plain bucket: those of the server's own catalog take files in `data` and `metadata` alone."""
    bucket = f"b{uuid.uuid4().hex[:12]}"
    fs.S3FileSystem(
        access_key=s3_server.access_key,
        secret_key=s3_server.secret_key,
        region="us-east-1",
        endpoint_override=s3_server.s3_endpoint,
        allow_bucket_creation=True,
    ).create_dir(bucket)
    uri = f"sqlite:///{tmp_path_factory.mktemp('orphans')}/catalog.db"
    catalog = SqlCatalog("default", uri=uri, warehouse=f"s3://{bucket}", **s3_server.s3_properties)
    catalog.create_namespace("db")
    lakes.append_small_files(lakes.make_table(catalog, "db.t"), 2)
    yield load_tables.load_table(catalog, "db.t")
    catalog.close()


def put(table: Table, name: str, content: bytes) -> str:
    path = f"{table.location()}/{name}"
    with table.io.new_output(path).create() as stream:
        stream.write(content)
    return path


def listed(table: Table) -> set[str]:
    pages = walk_files.walk(table.io, table.location(), walk_files.StoreTime())
    return {path for page in pages for path in page["path"].to_pylist()}


def test_orphans_of_an_object_store_go_and_come_back(table: Table) -> None:
    left = put(table, "data/left over+%20ä.parquet", b"precious")
    before = listed(table)
    assert left in before
    house = operate.House(catalog=table.catalog, engines=wiring.engine_factory("inline"))
    name = "db.t"
    time.sleep(SECOND)
    outcome = operate.operate(RemoveOrphans(table=name, goal=RECENT), house, wiring.new_run())
    assert isinstance(outcome, Maintained), outcome.sentence
    assert outcome.figures["files"] == 1
    assert outcome.requests.copies == 1
    assert left not in listed(table)
    assert operate.plan_only(RemoveOrphans(table=name, goal=RECENT), house, wiring.new_run()).empty
    back = operate.operate(EndQuarantine(table=name, way="restore"), house, wiring.new_run())
    assert back.kind is Kind.MAINTAINED, back.sentence
    assert listed(table) == before
    with table.io.new_input(left).open() as stream:
        assert stream.read() == b"precious"


def test_uploads_that_nobody_has_finished_are_listed_and_aborted(table: Table) -> None:
    bucket = object_files.bucket_of(table.io, table.location())
    assert bucket is not None
    key = table.location().removeprefix("s3://").partition("/")[2]
    begun = bucket.ask("POST", f"{key}/data/big.parquet", query={"uploads": ""})
    assert begun.status == 200
    time.sleep(SECOND)
    house = operate.House(catalog=table.catalog, engines=wiring.engine_factory("inline"))
    operation = RemoveOrphans(table="db.t", goal=RECENT)
    plan = operate.plan_only(operation, house, wiring.new_run())
    assert [upload.path for upload in plan.uploads] == [f"{table.location()}/data/big.parquet"]
    outcome = operate.operate(operation, house, wiring.new_run())
    assert isinstance(outcome, Maintained), outcome.sentence
    assert outcome.figures["uploads"] == 1
    assert list(bucket_requests.list_uploads(bucket, f"{key}/")) == []


@pytest.mark.parametrize("engine", ["fake", pytest.param("spark", marks=pytest.mark.spark)])
def test_tasks_list_an_object_store_as_one_process_does(
    table: Table, engine: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a b/%20.parquet", "x=1/_hidden/h", "x=1/f", "x=1/g", "x=2/ä/f", "x=2-/f", "x=2/deep/er/f"]
    strewn = {put(table, f"data/{engine}/{name}", b"left") for name in names}
    time.sleep(SECOND)
    if engine == "spark":
        from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

        used: Any = SparkEngine(request.getfixturevalue("spark"))
    else:
        used = FakeEngine(cores=4)
        monkeypatch.setattr(cut_folders, "_MOST_FILES", 3)
    house = operate.House(catalog=table.catalog, engines=wiring.engine_factory(used))
    here = operate.plan_only(RemoveOrphans(table="db.t", goal=RECENT), house, wiring.new_run())
    monkeypatch.setattr(scan_folders, "scan", None)  # the folders are listed by tasks
    spread = RemoveOrphans(table="db.t", goal=RECENT, spread_from=0)
    there = operate.plan_only(spread, house, wiring.new_run())
    for field in ("files", "kept", "steps", "notes", "listed", "listed_bytes", "refusal", "left"):
        assert getattr(there, field) == getattr(here, field), field
    assert strewn - set(there.files.paths) == {f"{table.location()}/data/{engine}/x=1/_hidden/h"}
