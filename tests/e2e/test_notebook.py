"""The example notebook in a real kernel, from its first cell to its last; and then, in the same kernel, a cell that is
stopped while a run is half done."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from tests.factories import lake as lakes
from tests.factories import storage
from tests.unit.interfaces.test_html_report import read

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.slow]

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "notebook" / "compaction.ipynb"
_SECONDS = 120

# The task of the second day takes a minute in the middle of its file.
STOPPED = """
from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

def make_rewrite(folder):
    def rewrite(task, context, attempt):
        import time
        from pathlib import Path
        from iceberg_compaction.execute.worker import execute_task
        from iceberg_compaction.storage.task_progress import TaskProgress

        def wrote_rows(self, rows):
            if list(Path(folder).rglob(f"*{attempt}*.parquet")):
                Path(folder, "half-written").touch()
                time.sleep(60)

        before = TaskProgress.wrote_rows
        if "2026-01-02" in task.partition:
            TaskProgress.wrote_rows = wrote_rows
        try:
            return execute_task.rewrite(task, context, attempt)
        finally:
            TaskProgress.wrote_rows = before
    return rewrite

def on_event(event):
    if event.kind == "task-ended":
        Path(folder, "ended").touch()

slow = Compactor.from_spark(
    spark, "lake", engine=SparkEngine(spark, rewrite=make_rewrite(str(folder))), state="work/runs.db",
    options={"rewrite-all": True}, on_event=on_event,
)
slow.compact_table("lake.shop.visits")
"""
AFTER = """
import threading
jobs = [job for job in spark.sparkContext.statusTracker().getActiveJobsIds()]
threads = [each.name for each in threading.enumerate() if each.name == "notebook-progress"]
print(jobs, threads, spark.range(3).count(), compactor.history("lake.shop.*")[0].outcome.kind.value)
"""


class Kernel:
    """A kernel that executes cells as a person would, with the example's folder as its own."""

    def __init__(self, client: NotebookClient) -> None:
        self._client = client

    def execute(self, source: str) -> list[Any]:
        """The outputs of a cell."""
        cell = nbformat.v4.new_code_cell(source)
        self._client.nb.cells.append(cell)
        self._client.execute_cell(cell, len(self._client.nb.cells) - 1)
        return list(cell.outputs)

    def interrupt(self) -> None:
        """What the stop button does."""
        assert isinstance(self._client.km, AsyncKernelManager)
        asyncio.run(self._client.km.interrupt_kernel())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def kernel(folder: Path) -> Iterator[Kernel]:
    notebook = nbformat.v4.new_notebook()
    client = NotebookClient(notebook, timeout=_SECONDS, resources={"metadata": {"path": str(folder)}})
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    with client.setup_kernel(env=environment):
        yield Kernel(client)


def cells() -> list[str]:
    return [cell.source for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]


def html_of(outputs: list[Any]) -> str:
    return "".join(output.data["text/html"] for output in outputs if "text/html" in output.get("data", {}))


@pytest.fixture(scope="module")
def outputs(kernel: Kernel) -> dict[str, list[Any]]:
    """The outputs of the example's cells, all but the last, by the first line of each."""
    *sources, last = cells()
    assert last == "spark.stop()"
    return {source.splitlines()[0]: kernel.execute(source) for source in sources}


def test_the_example_shows_health_plan_outcome_and_report(outputs: dict[str, list[Any]]) -> None:
    assert outputs["from iceberg_compaction import Compactor"][-1].data["text/plain"] == "['lake.shop.visits']"
    for line, words in {
        'compactor.inspect_table("lake.shop.visits")': "File sizes against the target",
        'plan = compactor.plan_table("lake.shop.visits")': "Files by what becomes of them",
        "outcome = compactor.apply(plan)": "Proof and effort",
        "compactor.report(outcome.run_id)": "Before and after",
        "compactor.verify(outcome.run_id)": "proved",
    }.items():
        shown = outputs[line][-1]
        assert words in read(shown.data["text/html"]).text
        assert " of " in shown.data["text/plain"]
    assert outputs["spark.range(3).count()  # the session is still yours"][-1].data["text/plain"] == "3"


def test_progress_is_one_display_that_ends_with_the_outcome(outputs: dict[str, list[Any]]) -> None:
    progress, outcome = [output for output in outputs["outcome = compactor.apply(plan)"] if "data" in output]
    assert progress.output_type == "display_data"
    assert "<b>shop.visits</b>: compacted" in progress.data["text/html"]
    assert "100%" in progress.data["text/html"]
    assert outcome.output_type == "execute_result"


def test_a_stopped_cell_commits_what_is_finished_and_leaves_nothing_else(
    kernel: Kernel, outputs: dict[str, list[Any]], folder: Path
) -> None:
    work = f"{folder}/work"
    catalog = lakes.SqlCatalog("lake", uri=f"sqlite:///{work}/catalog.db", warehouse=f"file://{work}/w")
    before = catalog.load_table("shop.visits")
    rows, snapshots = storage.row_multiset(before.scan().to_arrow()), len(before.metadata.snapshots)

    def stop() -> None:
        end = time.monotonic() + _SECONDS
        while not ((folder / "work" / "half-written").exists() and (folder / "work" / "ended").exists()):
            if time.monotonic() > end:
                return
            time.sleep(0.05)
        kernel.interrupt()

    button = threading.Thread(target=stop)
    button.start()
    begun = time.monotonic()
    with pytest.raises(CellExecutionError) as stopped:
        kernel.execute(STOPPED)
    button.join()
    assert (folder / "work" / "half-written").exists(), stopped.value
    assert time.monotonic() - begun < 55, "the task was waited for"
    assert stopped.value.ename == "RunStopped"
    assert "1 of 2 groups" in stopped.value.evalue, stopped.value.evalue

    table = before.refresh()
    assert storage.row_multiset(table.scan().to_arrow()) == rows
    assert len(table.metadata.snapshots) == snapshots + 1
    assert storage.files_under(table, "data") == storage.referenced_data_files(table)
    assert kernel.execute(AFTER)[-1].text == "[] [] 3 failed\n"
    again = kernel.execute('compactor.compact_table("lake.shop.visits")')
    assert again[-1].data["text/plain"].startswith("<Healthy of shop.visits")
    catalog.close()


def test_a_session_that_has_stopped_is_one_sentence(kernel: Kernel, outputs: dict[str, list[Any]]) -> None:
    kernel.execute(cells()[-1])
    assert kernel.execute('Compactor.from_spark(spark, "lake").list_tables()')  # what needs no engine still works
    with pytest.raises(CellExecutionError) as refused:
        kernel.execute(
            'Compactor.from_spark(spark, "lake", options={"rewrite-all": True}).compact_table("lake.shop.visits")'
        )
    assert refused.value.ename == "SetupError"
    assert refused.value.evalue == "The Spark session is stopped; give a Compactor a session that runs."
