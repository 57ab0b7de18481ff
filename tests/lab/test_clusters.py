"""Clusters of plain processes at the first try: a standalone master with two workers, and a Spark Connect server. The
command compacts on them without further settings, tells in one sentence what executors lack, and hears of bytes while a
task runs. One master and one server serve all tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from concurrent import futures
from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes
from tests.factories import storage
from tests.lab import cluster

from iceberg_compaction import Compactor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


def test_a_python_that_lacks_packages_is_one_sentence_before_any_work(
    master: str, lake: lakes.Lake, tmp_path: Path
) -> None:
    table = lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 6)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    ended = compact(lake, {**LIGHT, "spark.master": master, "spark.pyspark.python": python})
    assert (ended.returncode, json.loads(ended.stdout)["error"]) == (1, "UnfitPythonError")
    (sentence,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    start = f"error: Executors of {master} run Python {sys.version.split()[0]} ({python} on "
    assert sentence.startswith(start)
    assert ", which lacks pyarrow, pyiceberg, pydantic, numpy, xxhash, isal and urllib3; give the path of " in sentence
    assert table.refresh().metadata.current_snapshot_id == table.metadata.current_snapshot_id
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
