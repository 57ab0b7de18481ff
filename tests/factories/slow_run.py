"""A run in a process of its own that takes its time: `python -m tests.factories.slow_run CATALOG TABLE STATE SECONDS`
compacts a table without Spark, and each task takes so many seconds more. It prints its outcome, or the error that ended
it."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction import CatalogSettings
    from iceberg_compaction.record.store import RunStore

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def slow_run(settings: CatalogSettings, table: str, state: Path, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """Such a process; it is killed in the end if it still runs."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.factories.slow_run"]
    command += [settings.model_dump_json(), table, str(state), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_run(store: RunStore, process: subprocess.Popen[str]) -> str:
    """The id of the run, once it is at work."""
    while process.poll() is None:
        for unfinished in store.unfinished():
            return unfinished.start.run_id
        time.sleep(0.05)
    raise AssertionError("it has ended")


def main(settings: str, table: str, state: str, seconds: str) -> None:
    from tests.factories import work

    from iceberg_compaction import CatalogSettings, Policy, errors
    from iceberg_compaction.catalog import connect
    from iceberg_compaction.execute.engines.inline_engine import InlineEngine
    from iceberg_compaction.execute.worker import execute_task
    from iceberg_compaction.interfaces import wiring

    def rewrite(*given: Any) -> Any:
        result = execute_task.rewrite(*given)
        time.sleep(float(seconds))
        return result

    catalog = connect.connect(CatalogSettings.model_validate_json(settings))
    run = wiring.new_run(store=wiring.run_store(state))
    try:
        outcome = work.compact_table(
            catalog, table, Policy(min_input_files=2), lambda: nullcontext(InlineEngine(rewrite=rewrite)), run
        )
        sys.stdout.write(outcome.model_dump_json() + "\n")
    except errors.CancelledError as error:
        sys.stdout.write(f"{error}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
