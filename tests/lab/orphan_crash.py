"""A removal of orphans that dies at its n-th step, as a process: `python -m tests.lab.orphan_crash FOLDER N`. Steps
are writes of manifests, copies and removals, each before and after. Exit code 9: it died, 0: there were fewer steps."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.factories import lake, orphans

from iceberg_compaction.interfaces import wiring
from iceberg_compaction.operations.orphans import quarantine, remove_orphans
from iceberg_compaction.storage import remove
from iceberg_compaction.storage.tree import copy_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

FILES = 5
NAME = "db.t"


def build(folder: Path) -> Table:
    """A table with a few orphans."""
    table = lake.append_small_files(lake.make_table(lake.local_catalog(folder), NAME), 3)
    orphans.age_all(table)
    for number in range(FILES):
        orphans.strew(table, f"data/part={number}/left.parquet", content=content(number))
    return table


def content(number: int) -> bytes:
    return f"orphan {number}".encode() * (number + 1)


class _Death:
    """The end of the process at a step."""

    def __init__(self, at: int) -> None:
        self._left, self._lock = at, threading.Lock()

    def step(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left < 0:
                os._exit(9)

    def around(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def dying(*given: Any, **more: Any) -> Any:
            self.step()
            result = act(*given, **more)
            self.step()
            return result

        return dying


def main(folder: Path, at: int) -> None:
    death = _Death(at)
    remove_orphans.BATCH = 2  # several manifests
    quarantine._write = death.around(quarantine._write)
    copy_file.copy = death.around(copy_file.copy)
    remove._remove = death.around(remove._remove)
    run = wiring.new_run(store=wiring.run_store(folder / "runs.db"))
    orphans.remove(lake.local_catalog(folder), NAME, run=run)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
