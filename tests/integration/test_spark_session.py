"""Sessions that the engine makes for itself. Each test has a process of its own, as sessions belong to a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.factories import engines

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.spark

_ROOT = Path(__file__).parents[2]

_OWN_SESSION = """
import json, os, signal, sys
from pathlib import Path
from pyspark import SparkContext
from tests.factories import engines
from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

def archives(_):
    import sys
    return [place for place, finder in sys.path_importer_cache.items() if type(finder).__name__ == "zipimporter"]

folder, told = Path(sys.argv[1]), []
for _ in range(2):  # the second session finds a JVM that is already there
    conf = {"spark.master": "local[2]", "spark.sql.catalog.prod.token": "never", "spark.hadoop.x.secret": "hidden"}
    with SparkEngine(conf=conf, rewrite=engines.make_rewrite()) as engine:
        assert SparkContext._active_spark_context is None, "a session without need"
        results, _ = engines.perform(engine, engines.make_job(3, folder))
        context = SparkContext._active_spark_context
        told.append({
            "tasks": [result.task_id for result in results],
            "ui": context.uiWebUrl,
            "name": context.appName,
            "conf": dict(context.getConf().getAll()),
            "archives": context.parallelize([0], 1).map(archives).collect()[0],
            "sockets": oct(os.stat(context.getConf().get("spark.python.unix.domain.socket.dir")).st_mode & 0o777),
        })
    assert SparkContext._active_spark_context is None, "the session was not stopped"
assert os.environ["PYSPARK_PYTHON"] == "/not/a/python" and "SPARK_LOCAL_IP" not in os.environ
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
command = Path(f"/proc/{SparkContext._gateway.proc.pid}/cmdline")
print(json.dumps({"told": told, "command": command.read_text() if command.exists() else ""}))
"""

_INTERRUPTED = """
import sys, time
from pathlib import Path
from tests.factories import engines
from iceberg_compaction.cancel import CancelToken
from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

rewrite = engines.make_rewrite({1: engines.WAIT, 2: engines.WAIT})
with SparkEngine(conf={"spark.master": "local[2]", "spark.ui.enabled": "false"}, rewrite=rewrite) as engine:
    work = engine.start(engines.make_job(4, Path(sys.argv[1]), size=0), cancel=CancelToken())
    try:
        with work:
            list(work.results())
    except KeyboardInterrupt:
        print(time.time(), *engines.staged(work.staged))
"""

_CLUSTER = """
import sys
from pathlib import Path
from tests.factories import engines
from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

def make():
    def rewrite(task, context, attempt):
        import iceberg_compaction
        from iceberg_compaction import errors
        raise errors.ProofError(iceberg_compaction.__file__)
    return rewrite

conf = {"spark.master": "local-cluster[1,1,1024]", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
with SparkEngine(conf=conf, rewrite=make()) as engine:
    ends, _ = engines.perform(engine, engines.make_job(1, Path(sys.argv[1])))
    print(ends[0].sentence)
"""

_EARLY = """
import os, sys, time
from pathlib import Path
import psutil
from pyspark import SparkContext
from tests.factories import engines
from iceberg_compaction.execute.engines.spark import early_start
from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

folder, conf, environment = Path(sys.argv[1]), {"spark.master": "local[2]"}, dict(os.environ)
for seconds in (0, 0.5, 1):  # nobody needs it, wherever it is on its way
    with early_start.EarlyStart(conf):
        time.sleep(seconds)
    assert SparkContext._active_spark_context is None
    assert seconds or not psutil.Process().children(recursive=True), psutil.Process().children()
    assert not [name for name in os.environ.keys() - environment.keys() if name.startswith("PYSPARK_")]
for _ in range(2):
    with early_start.EarlyStart(conf) as early, SparkEngine(early=early, rewrite=engines.make_rewrite()) as engine:
        results, _ = engines.perform(engine, engines.make_job(3, folder))
        print(*[result.task_id for result in results])
    assert SparkContext._active_spark_context is None
"""


def _start(script: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        cwd=folder,
        env={**_without_spark(os.environ), "PYTHONPATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell that starts this in the background has its children ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def _without_spark(environment: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if not key.startswith(("SPARK_", "PYSPARK_"))}


def test_a_session_of_its_own_is_quiet_private_and_stopped(tmp_path: Path) -> None:
    process = _start(_OWN_SESSION, tmp_path, PYSPARK_PYTHON="/not/a/python")
    output, noise = process.communicate(timeout=240)
    assert (process.returncode, noise) == (0, "")
    (line,) = output.splitlines()
    answer = json.loads(line)
    for told in answer["told"]:
        assert told["tasks"] == [0, 1, 2]
        assert told["name"] == "iceberg-compaction"
        assert told["ui"].startswith(("http://127.0.0.1:", "http://localhost:"))
        assert not [key for key in told["conf"] if key.startswith("spark.sql.catalog.")]
        assert told["conf"]["spark.hadoop.x.secret"] == "hidden"
        assert told["archives"] == []  # their directories would be read anew before every task
        assert told["sockets"] == "0o700"
        assert not Path(told["conf"]["spark.python.unix.domain.socket.dir"]).exists()  # when the process has ended
    assert "hidden" not in answer["command"]
    assert {path.name.split("-")[0] for path in tmp_path.iterdir()} == {"out"}  # Spark left nothing in the folder


def test_control_c_is_noticed_at_once_and_half_written_files_are_removed(tmp_path: Path) -> None:
    process = _start(_INTERRUPTED, tmp_path)
    end = time.monotonic() + 120
    while len(list(tmp_path.glob("started-*"))) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)
    sent = time.time()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the whole group
    output, noise = process.communicate(timeout=60)
    noticed, *reported = output.split()
    assert (process.returncode, noise) == (0, "")
    assert float(noticed) - sent < 3
    assert engines.outputs(tmp_path) == set(reported)


def test_an_early_start_is_of_use_or_ends_without_a_word(tmp_path: Path) -> None:
    output, noise = _start(_EARLY, tmp_path).communicate(timeout=240)
    assert (output.splitlines(), noise) == (["0 1 2", "0 1 2"], "")


@pytest.mark.lab
def test_executors_elsewhere_get_the_code(tmp_path: Path) -> None:
    process = _start(_CLUSTER, tmp_path, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    output, noise = process.communicate(timeout=240)
    assert (process.returncode, noise) == (0, "")
    assert ".zip/iceberg_compaction/__init__.py" in output
