"""A Spark cluster of its own: a standalone master and two workers of one core, each on a loopback address of its own,
because Spark makes a second attempt beside the first only on another host. And the drivers of compactions on it, in
processes that can be killed: `python -m tests.lab.cluster` is one, told by JSON what to do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.factories import servers, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from iceberg_compaction.execute.engine_door import Rewrite
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult

ROOT = Path(__file__).resolve().parents[2]
_HOSTS = ("127.0.0.1", "127.0.0.2")
_LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_AT = re.compile(r"Starting Spark master at (spark://\S+)")
_PACKAGE = "org.apache.spark.deploy"
_SECONDS = 90.0
HANG_SECONDS = 60
HANG, DIE, TWICE = "hang", "die", "twice"  # what becomes of the tasks of day 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Compactions of tables, one after the other in one Spark application."""

    master: str
    settings: str  # CatalogSettings as JSON
    state: str  # the file of the run store
    options: dict[str, Any]
    tables: dict[str, str]  # name -> what happens to its tasks
    folder: str  # where tasks tell of themselves
    conf: dict[str, str]


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Start one and stop it in the end; its master's address."""
    with ExitStack() as running:
        log = folder / "master.log"
        running.enter_context(_daemon("master.Master", ["--host", _HOSTS[0], "--port", "0", "--webui-port", "0"], log))
        wait_until(lambda: _AT.search(log.read_text()), "no master")
        found = _AT.search(log.read_text())
        assert found is not None
        for host in _HOSTS:
            asked = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            asked += ["--work-dir", str(folder / f"work-{host}"), found[1]]
            told = folder / f"{host}.log"
            running.enter_context(_daemon("worker.Worker", asked, told))
            wait_until(lambda told=told: "Successfully registered" in told.read_text(), f"no worker on {host}")
        yield found[1]


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Start a Spark Connect server and stop it in the end; its address."""
    port = servers.free_port()
    log = folder / "connect.log"
    settings = ["spark.connect.grpc.binding.address=127.0.0.1", f"spark.connect.grpc.binding.port={port}"]
    settings += ["spark.ui.enabled=false", f"spark.driver.extraJavaOptions={_LIGHT}", "spark.driver.host=127.0.0.1"]
    settings += [
        "spark.sql.catalog.served=org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.served.type=hadoop",
    ]
    asked = ["--master", "local[2]", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    asked += [word for setting in settings for word in ("--conf", setting)]
    with _process("spark-submit", asked, log, memory="1g"):
        wait_until(lambda: "Spark Connect server started at" in log.read_text(), "no Connect server")
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _daemon(kind: str, asked: list[str], log: Path) -> Iterator[None]:
    with _process("spark-class", [f"{_PACKAGE}.{kind}", *asked], log):
        yield


@contextmanager
def _process(name: str, asked: list[str], log: Path, *, memory: str = "256m") -> Iterator[None]:
    import pyspark

    program = str(Path(pyspark.__file__).parent / "bin" / name)
    environment = {**os.environ, "SPARK_DAEMON_MEMORY": memory, "SPARK_DAEMON_JAVA_OPTS": _LIGHT}
    environment |= {"SPARK_LOCAL_IP": _HOSTS[0], "PYSPARK_PYTHON": sys.executable}
    with log.open("w") as out:
        process = subprocess.Popen([program, *asked], env=environment, stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def wait_until(condition: Any, otherwise: str) -> None:
    end = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < end, otherwise
        time.sleep(0.05)


@contextmanager
def driver(job: Job) -> Iterator[subprocess.Popen[str]]:
    """A process that does the job and prints the outcomes."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": _HOSTS[0]}
    command = [sys.executable, "-W", "ignore", "-m", "tests.lab.cluster", json.dumps(asdict(job))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    with process:
        try:
            yield process
        finally:
            process.kill()


def main(job: Job) -> None:
    from pyspark.sql import SparkSession

    from iceberg_compaction import CatalogSettings, Policy
    from iceberg_compaction.catalog import connect
    from iceberg_compaction.execute.engines.spark import spark_session
    from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine
    from iceberg_compaction.interfaces import wiring

    catalog = connect.connect(CatalogSettings.model_validate_json(job.settings))
    opened = spark_session.open_session({"spark.master": job.master, **_conf(), **job.conf})
    for name, behaviour in job.tables.items():
        made = SparkEngine(SparkSession(opened.spark), rewrite=make_rewrite(BEHAVIOURS[behaviour](job.folder)))
        run = wiring.new_run(store=wiring.run_store(job.state))
        outcome = work.compact_table(catalog, name, Policy.model_validate(job.options), lambda made=made: made, run)
        sys.stdout.write(outcome.model_dump_json() + "\n")
        sys.stdout.flush()
        if behaviour == TWICE:  # the application's end would take the other attempt with it
            wait_until((Path(job.folder) / "second-ends").exists, "no second attempt came to its end")
    opened.close()


def _conf() -> Mapping[str, str]:
    return {
        "spark.driver.host": _HOSTS[0],
        "spark.driver.bindAddress": _HOSTS[0],
        "spark.driver.extraJavaOptions": _LIGHT,
        "spark.executor.extraJavaOptions": _LIGHT,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.ui.enabled": "false",
        "spark.task.maxFailures": "2",
        "spark.python.task.killTimeout": "60s",  # an attempt that nobody needs any more may come to its end
    }


def make_rewrite(then: Callable[[], None]) -> Rewrite:
    """The real one, but for what happens to tasks of day 1 once their files are written and before anybody hears of it.
    Nested functions travel to Spark's workers by value: they do not know the tests."""

    def rewrite(task: RewriteTask, context: RewriteContext, attempt: str) -> TaskResult:
        from iceberg_compaction.execute.worker import execute_task

        result = execute_task.rewrite(task, context, attempt)
        if task.partition == '{"day":1}':
            then()
        return result

    return rewrite


def _hang(folder: str) -> Callable[[], None]:
    seconds = HANG_SECONDS

    def hang() -> None:
        """The first attempt tells who it is: the processes from Python's to the executor's, which is the parent of
        Spark's daemon, which is the parent of this one."""
        import os
        import time
        from pathlib import Path

        executor = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
        draft, pids = Path(folder) / f"draft-{os.getpid()}", Path(folder) / "pids"
        if not pids.exists():
            draft.write_text(f"{os.getpid()} {os.getppid()} {executor}")
            draft.rename(pids)
            time.sleep(seconds)

    return hang


def _die(folder: str) -> Callable[[], None]:
    def die() -> None:
        """Each attempt takes its executor with it."""
        import os
        import signal
        import time
        from pathlib import Path

        executor = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
        os.kill(int(executor), signal.SIGKILL)
        time.sleep(60)

    return die


def _twice(folder: str) -> Callable[[], None]:
    def twice() -> None:
        """The first attempt ends once there is a second one, and that a little later, when Spark has no use for it."""
        import time
        from pathlib import Path

        first, second = Path(folder) / "first", Path(folder) / "second"
        if first.exists():
            second.touch()
            time.sleep(0.5)
            second.rename(Path(folder) / "second-ends")
            return
        first.touch()
        while not second.exists():
            time.sleep(0.01)

    return twice


BEHAVIOURS = {HANG: _hang, DIE: _die, TWICE: _twice}


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])))
