"""Clusters of plain processes at the first try: a standalone master with two workers, and a Spark Connect server. The
command compacts on them without further settings, tells in one sentence what executors lack, and hears of bytes while a
task runs. One master and one server serve all tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import uuid
import zipfile
from concurrent import futures
from typing import TYPE_CHECKING

import pytest
from pyarrow import fs
from pyiceberg.catalog.sql import SqlCatalog
from tests.factories import lake as lakes
from tests.factories import storage
from tests.lab import cluster

from iceberg_compaction import Compactor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.factories import servers

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COMMAND = "from iceberg_compaction.interfaces.cli import main; main()"
LIGHT = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
}
# The first task does not end before this process has heard of it; it needs a module that was sent along, if any.
HEARS = """
import dataclasses, json, sys
from pathlib import Path
from tests.factories import engines
from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

folder, conf, module = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]

def make():
    fine = engines.make_rewrite()
    def rewrite(task, context, attempt):
        import importlib, time
        from pathlib import Path
        from iceberg_compaction.storage import task_progress
        importlib.import_module(module)
        task_progress.current().read(task.bytes)
        while task.id == 0 and not (Path(context.table_location) / "heard").exists():
            time.sleep(0.01)
        return fine(task, context, attempt)
    return rewrite

def on_progress(done):
    if done.get(0):
        (folder / "heard").write_text(str(done[0]))

with SparkEngine(conf=conf, rewrite=make()) as engine:
    job = dataclasses.replace(engines.make_job(2, folder), on_progress=on_progress)
    print(json.dumps([result.task_id for result in engines.perform(engine, job)[0]]))
"""

# Its only task begins, says so, and takes a minute.
HANGS = """
import sys
from pathlib import Path
from tests.factories import work
from iceberg_compaction import CatalogSettings, Policy, errors
from iceberg_compaction.catalog import connect
from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine
from iceberg_compaction.interfaces import wiring

settings, state, remote, begun = sys.argv[1:]

def make():
    def rewrite(task, context, attempt):
        import time
        from pathlib import Path
        Path(begun).touch()
        time.sleep(60)
    return rewrite

catalog = connect.connect(CatalogSettings.model_validate_json(settings))
engine = SparkEngine(conf={"spark.remote": remote}, rewrite=make())
run = wiring.new_run(store=wiring.run_store(state))
try:
    work.compact_table(catalog, "db.t", Policy(min_input_files=2), lambda: engine, run)
except errors.CancelledError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster.cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster.connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[lakes.Lake]:
    made = lakes.file_lake(tmp_path / "lake")
    yield made
    made.catalog.close()


def call(script: str, *args: str) -> subprocess.CompletedProcess[str]:
    """In a process whose environment says nothing about Spark."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    program = [sys.executable, "-W", "ignore", "-c", script, *args]
    return subprocess.run(program, env=environment, cwd=cluster.ROOT, capture_output=True, text=True, timeout=240)


def compact(lake: lakes.Lake, conf: dict[str, str]) -> subprocess.CompletedProcess[str]:
    settings = lake.settings
    args = ["run", "--catalog-uri", str(settings.uri), "--warehouse", str(settings.warehouse), "--table", "db.t"]
    args += ["--state", f"{settings.warehouse}-runs.db".removeprefix("file://"), "--output", "json", "-v"]
    return call(COMMAND, *args, *[word for pair in conf.items() for word in ("--conf", "=".join(pair))])


def check_compacts(lake: lakes.Lake, conf: dict[str, str], executors: str) -> None:
    table = lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 6)
    before = storage.row_multiset(table.scan().to_arrow())
    ended = compact(lake, conf)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["kind"] == "compacted"
    assert storage.row_multiset(table.refresh().scan().to_arrow()) == before
    assert f"Executors of {executors}: Python {sys.version.split()[0]} (" in ended.stderr


def test_a_cluster_compacts_although_nobody_names_a_python(master: str, lake: lakes.Lake) -> None:
    check_compacts(lake, {**LIGHT, "spark.master": master}, master)


@pytest.mark.server
def test_executors_elsewhere_list_folders_of_an_object_store(
    master: str, s3_server: servers.S3Server, tmp_path: Path
) -> None:
    bucket = f"b{uuid.uuid4().hex[:12]}"
    store = fs.S3FileSystem(
        access_key=s3_server.access_key,
        secret_key=s3_server.secret_key,
        region="us-east-1",
        endpoint_override=s3_server.s3_endpoint,
        allow_bucket_creation=True,
    )
    store.create_dir(bucket)
    settings = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"s3://{bucket}", **s3_server.s3_properties}
    catalog = SqlCatalog("default", **settings)
    catalog.create_namespace("db")
    table = lakes.append_small_files(lakes.make_table(catalog, "db.t"), 3)
    for number in range(4):
        with store.open_output_stream(f"{bucket}/db/t/data/x={number}/left.parquet") as stream:
            stream.write(b"left")
    time.sleep(3.1)  # the store's time has full seconds
    catalog.close()
    args = ["orphans", "--catalog-uri", settings["uri"], "--warehouse", settings["warehouse"], "--table", "db.t"]
    args += [
        word for name, value in s3_server.s3_properties.items() for word in ("--catalog-property", f"{name}={value}")
    ]
    args += ["--older-than", "1s", "--allow-recent", "--output", "json", "-v", "--engine", "spark"]
    conf = {**LIGHT, "spark.master": master}
    ended = call(COMMAND, *args, *[word for pair in conf.items() for word in ("--conf", "=".join(pair))])

    plan = json.loads(ended.stdout)
    assert "files" in plan, f"{plan} {ended.stderr}"
    assert plan["files"]["paths"] == [f"{table.location()}/data/x={number}/left.parquet" for number in range(4)]
    assert "listed here" not in ended.stderr


def test_a_python_that_lacks_packages_is_one_sentence_before_any_work(
    master: str, lake: lakes.Lake, tmp_path: Path
) -> None:
    table = lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 6)
    head, files = table.metadata.current_snapshot_id, storage.files_under(table)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    ended = compact(lake, {**LIGHT, "spark.master": master, "spark.pyspark.python": python})
    assert (ended.returncode, json.loads(ended.stdout)["error"]) == (1, "UnfitPythonError")
    (sentence,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    start = f"error: Executors of {master} run Python {sys.version.split()[0]} ({python} on "
    assert sentence.startswith(start)
    assert ", which lacks pyarrow, pyiceberg, pydantic, numpy, xxhash, isal and urllib3; give the path of " in sentence
    assert table.refresh().metadata.current_snapshot_id == head  # `refresh` changes the table itself
    assert storage.files_under(table) == files
    assert "not-reached" not in ended.stderr


def test_archives_and_files_reach_executors_and_bytes_are_heard_while_a_task_runs(master: str, tmp_path: Path) -> None:
    program = tmp_path / "env" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "env", arcname=".")
    with zipfile.ZipFile(tmp_path / "sent_along.zip", "w") as modules:
        modules.writestr("sent_along.py", "")
    conf = {
        **LIGHT,
        "spark.master": master,
        "spark.archives": f"{tmp_path}/env.tar.gz#env",
        "spark.pyspark.python": "./env/bin/python",
        "spark.submit.pyFiles": f"{tmp_path}/sent_along.zip",
    }
    ended = call(HEARS, str(tmp_path), json.dumps(conf), "sent_along")
    assert (ended.returncode, ended.stdout) == (0, "[0, 1]\n"), ended.stderr
    assert int((tmp_path / "heard").read_text()) == 1000


def test_a_connect_server_compacts(server: str, lake: lakes.Lake) -> None:
    check_compacts(lake, {"spark.remote": server}, "Spark Connect at 127.0.0.1")


def test_bytes_are_heard_on_spark_connect_while_a_task_runs(server: str, tmp_path: Path) -> None:
    ended = call(HEARS, str(tmp_path), json.dumps({"spark.remote": server}), "json")
    assert (ended.returncode, ended.stdout) == (0, "[0, 1]\n"), ended.stderr
    assert int((tmp_path / "heard").read_text()) == 1000


def test_a_cancel_from_another_process_ends_a_run_on_spark_connect(
    server: str, lake: lakes.Lake, tmp_path: Path
) -> None:
    table = lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 6)
    before, begun = storage.row_multiset(table.scan().to_arrow()), tmp_path / "begun"
    args = [lake.settings.model_dump_json(), str(tmp_path / "runs.db"), server, str(begun)]
    with futures.ThreadPoolExecutor(1) as thread:
        process = thread.submit(call, HANGS, *args)
        cluster.wait_until(begun.exists, "no task has begun")
        compactor = Compactor(lake.catalog, engine="inline", state=tmp_path / "runs.db")
        answer = compactor.cancel("latest", wait=30)
        ended = process.result()
    assert answer.state == "cancelled", answer.sentence
    assert f"Run {answer.run_id} was cancelled by " in ended.stdout, ended.stderr
    assert storage.row_multiset(table.refresh().scan().to_arrow()) == before


# A session of Spark Connect in a process of its own, with a catalog of the session's and one of the server's settings.
FROM_SPARK = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from iceberg_compaction import CompactionError, Compactor

remote, folder, *begun = sys.argv[1:]
spark = (
    SparkSession.builder.remote(remote)
    .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.lake.type", "jdbc")
    .config("spark.sql.catalog.lake.uri", f"jdbc:sqlite:{folder}/lake.db")
    .config("spark.sql.catalog.lake.warehouse", f"file://{folder}/warehouse")
    .getOrCreate()
)
def make(begun):
    def rewrite(task, context, attempt):
        import time
        from pathlib import Path
        Path(begun).touch()
        time.sleep(60)
    return rewrite

def tried(work):
    try:
        return work()
    except (CompactionError, KeyboardInterrupt) as error:
        return f"{type(error).__name__}: {error}"

if begun:
    from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine
    compactor = Compactor.from_spark(spark, "lake", engine=SparkEngine(spark, rewrite=make(begun[0])))
else:
    compactor = Compactor.from_spark(spark, "lake")
(name,) = compactor.list_tables()
answers = [name, tried(lambda: compactor.compact_table(name).kind.value), spark.range(3).count()]
print(json.dumps([*answers, tried(lambda: Compactor.from_spark(spark, "served"))]))
spark.stop()
"""


def test_the_catalog_of_a_connect_session_is_taken_from_it(server: str, tmp_path: Path) -> None:
    catalog = lakes.local_catalog(tmp_path)
    table = lakes.append_small_files(lakes.make_table(catalog, "db.t"), 6)
    before = storage.row_multiset(table.scan().to_arrow())
    ended = call(FROM_SPARK, server, str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    *answers, refused = json.loads(ended.stdout)
    assert answers == ["lake.db.t", "compacted", 3]
    assert 'The Spark catalog "served" is a Hadoop catalog' in refused
    assert storage.row_multiset(table.refresh().scan().to_arrow()) == before
    catalog.close()


def test_ctrl_c_ends_a_run_on_spark_connect_and_leaves_the_session(server: str, tmp_path: Path) -> None:
    catalog = lakes.local_catalog(tmp_path)
    table = lakes.append_small_files(lakes.make_table(catalog, "db.t"), 6)
    begun, snapshot = tmp_path / "begun", table.metadata.current_snapshot_id
    command = [sys.executable, "-W", "ignore", "-c", FROM_SPARK, server, str(tmp_path), str(begun)]
    with subprocess.Popen(command, cwd=cluster.ROOT, stdout=subprocess.PIPE, text=True) as process:
        cluster.wait_until(begun.exists, "no task has begun")
        since = time.monotonic()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
    assert time.monotonic() - since < 50, "the task was waited for"
    _, stopped, count, _ = json.loads(output)
    assert stopped.startswith("RunStopped: Cancelled")
    assert count == 3
    assert table.refresh().metadata.current_snapshot_id == snapshot
    assert storage.files_under(table, "data") == storage.referenced_data_files(table)
    catalog.close()
