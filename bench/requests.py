"""Few requests: five files of 60 KB on a real S3 store, compacted inline. The requests are counted by a gate before the
store, and compared with those that the run says it made; the time is measured with and without a delay of 30 ms per
request, which is about that of an object store in the same region, in a warm process and from the command line.

`python -m bench.requests [--quick]` prints a table, and as its last line one JSON object with the bars.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from tests.factories import request_log, servers

from iceberg_compaction import CatalogSettings, Compactor

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from tests.factories.servers import S3Server

FILES, ROWS = 5, 2700  # about 60 KB each
DELAY = 0.03  # seconds
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])


class Lake:
    """Tables in the store, and settings that lead through the gate."""

    def __init__(self, server: S3Server, log: request_log.RequestLog, folder: Path) -> None:
        uri = f"sqlite:///{folder / 'catalog.db'}"
        self.log = log
        self.catalog = SqlCatalog("default", uri=uri, warehouse=server.warehouse, **server.s3_properties)
        self.catalog.create_namespace("bench")
        self.settings = CatalogSettings(
            uri=uri, warehouse=server.warehouse, properties=server.s3_properties | {"s3.endpoint": log.uri}
        )

    def table(self, name: str) -> Table:
        table = self.catalog.create_table(f"bench.{name}", SCHEMA)
        for seed in range(FILES):
            random = np.random.default_rng(seed)
            names = [f"name {number}" for number in range(ROWS)]
            columns = [random.integers(0, 2**60, ROWS), names, random.random(ROWS)]
            table.append(pa.table(columns, schema=SCHEMA))
        return table


def paths(table: Table) -> set[str]:
    """The data files of a table, as the log names them."""
    return {task.file.file_path.removeprefix("s3:/") for task in table.refresh().scan().plan_files()}


def compact(lake: Lake, name: str, delay: float) -> dict[str, Any]:
    """One run in this process, with all that is measured of it."""
    table = lake.table(name)
    inputs = paths(table)
    compactor = Compactor(lake.settings, engine="inline")
    lake.log.clear()
    lake.log.delay = delay
    started = time.monotonic()
    ended = compactor.compact_table(f"bench.{name}")
    seconds = time.monotonic() - started
    lake.log.delay = 0.0
    counts = lake.log.counts()
    of_inputs = [lake.log.counts(path) for path in inputs]
    of_outputs = [lake.log.counts(path) for path in paths(table) - inputs]
    assert ended.kind.value == "compacted", ended.sentence
    return {
        "seconds": round(seconds, 2),
        "requests": counts,
        "total": sum(counts.values()),
        "agree": ended.requests.total == sum(counts.values()),
        "gets_per_input": max(each.get("get", 0) for each in of_inputs),
        "heads_of_inputs": sum(each.get("head", 0) for each in of_inputs),
        "beyond_parts": max(
            sum(each.values()) - max(each.get("part", 0), 1 if each.get("put") else 0) for each in of_outputs
        ),
    }


def from_command_line(lake: Lake, name: str, delay: float, folder: Path) -> tuple[float, float]:
    """Seconds of `iceberg-compact run`, from the start of Python to its end, and those of the processor."""
    lake.table(name)
    properties = [f"--catalog-property={key}={value}" for key, value in lake.settings.properties.items()]
    command = [sys.executable, "-c", "from iceberg_compaction.interfaces import cli; cli.main()", "run"]
    command += [
        f"--catalog-uri={lake.settings.uri}",
        f"--warehouse={lake.settings.warehouse}",
        *properties,
        f"--table=bench.{name}",
        "--engine=inline",
    ]
    command += [f"--state={folder / 'runs.db'}", "--quiet"]
    lake.log.delay = delay
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=Path(__file__).resolve().parents[1])
    lake.log.delay = 0.0
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return round(time.monotonic() - started, 2), round(cpu, 2)


def bars(run: dict[str, Any]) -> list[dict[str, Any]]:
    limits = {"gets_per_input": 2, "heads_of_inputs": 0, "beyond_parts": 2, "seconds": 3.0}
    judged = [
        {"name": name, "reach": f"<= {limit}", "value": run[name], "ok": run[name] <= limit}
        for name, limit in limits.items()
    ]
    return [*judged, {"name": "counts agree", "reach": "yes", "value": run["agree"], "ok": run["agree"]}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="one run each")
    rounds = 1 if parser.parse_args().quick else 3
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    with (
        tempfile.TemporaryDirectory() as home,
        servers.seaweedfs() as server,
        request_log.logged(server.s3_endpoint) as log,
    ):
        os.environ["ICEBERG_COMPACTION_CACHE"] = f"{home}/cache"
        lake = Lake(server, log, Path(home))
        compact(lake, "warm_up", 0.0)
        figures: dict[str, Any] = {"files": FILES}
        for label, delay in (("at once", 0.0), ("30 ms", DELAY)):
            runs = [compact(lake, f"t{round(delay * 1000)}_{number}", delay) for number in range(rounds)]
            figures[label] = min(runs, key=lambda run: run["seconds"])
            print(f"{label:>8}: {figures[label]['seconds']} s, {figures[label]['requests']}")
        seconds = [from_command_line(lake, f"cli_{number}", DELAY, Path(home)) for number in range(rounds)]
        figures["command line, 30 ms"] = dict(zip(("seconds", "cpu"), min(seconds), strict=True))
        print(f"command line, 30 ms: {min(seconds)[0]} s, of the processor {min(seconds)[1]}")
        lake.catalog.close()
    print(json.dumps(figures | {"bars": bars(figures["30 ms"])}))


if __name__ == "__main__":
    main()
