"""Compacts a table on a Spark cluster of one master and one worker, all on this machine and ended with the example."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
from pyiceberg.catalog.sql import SqlCatalog

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"
TABLE = "shop.orders"
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_SECONDS = 90.0


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The master's address. Spark's own programs come with pyspark."""
    with ExitStack() as running:
        log = running.enter_context(daemon("Master", ["--port", "0"], folder / "master.log"))
        master = wait_for(_MASTER, log)[1]
        room = ["--cores", "2", "--memory", "1g", "--work-dir", str(folder / "executors"), master]
        log = running.enter_context(daemon("Worker", room, folder / "worker.log"))
        wait_for(re.compile("Successfully registered"), log)
        yield master


@contextmanager
def daemon(kind: str, words: list[str], log: Path) -> Iterator[Path]:
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    command = [str(program), f"org.apache.spark.deploy.{kind.lower()}.{kind}", "--host", HOST, "--webui-port", "0"]
    with log.open("w") as out:
        process = subprocess.Popen([*command, *words], stdout=out, stderr=out)
    try:
        yield log
    finally:
        process.terminate()
        process.wait()


def wait_for(pattern: re.Pattern[str], log: Path) -> re.Match[str]:
    end = time.monotonic() + _SECONDS
    while (match := pattern.search(log.read_text())) is None:
        if time.monotonic() > end:
            raise SystemExit(f"error: Spark did not start; {log} says why")
        time.sleep(0.1)
    return match


def make_lake(folder: Path) -> str:
    """A catalog in a file, and a table of small files; the URI of the catalog."""
    uri = f"sqlite:///{folder}/catalog.db"
    catalog = SqlCatalog("default", uri=uri, warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("shop")
    schema = pa.schema([("id", pa.int64()), ("amount", pa.float64())])
    table = catalog.create_table(TABLE, schema)
    for first in range(0, 1000, 100):
        table.append(pa.table({"id": range(first, first + 100), "amount": [1.5] * 100}, schema=schema))
    catalog.close()
    return uri


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    uri = make_lake(folder)
    with cluster(folder) as master:
        words = ["run", "--catalog-uri", uri, "--table", TABLE, "--state", str(folder / "runs.db")]
        settings = {
            "spark.master": master,
            "spark.driver.host": HOST,  # executors reach the driver here; on a real cluster, its own name
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
        }
        words += [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
        print(f"$ iceberg-compact {shlex.join(words)}", flush=True)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        subprocess.run([sys.executable, "-m", "iceberg_compaction", *words], env=environment, check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="work", type=Path, help="where lake and logs are made; it is replaced")
    main(parser.parse_args().folder.absolute())
