"""The process that Spark forks Python workers from on a local master: Spark's own, prepared so that workers begin at
once. They find everything imported already. And there is no archive among the places that Python imports from: Spark
names some, which hold what is installed anyway, and lets workers read their directories anew before every task, which
takes a quarter of a second."""

from __future__ import annotations

import gc
import sys
from importlib import machinery
from pathlib import Path

_NEEDED = ("pyspark", "py4j")


def without_archives(places: list[str]) -> list[str]:
    """The places that are folders, if what workers need is in one of them; else all."""
    folders = [place for place in places if not Path(place).is_file()]
    found = [machinery.PathFinder.find_spec(name, folders) for name in _NEEDED]
    return places if None in found else folders


def main() -> None:
    sys.path[:] = without_archives(sys.path)
    for place in [place for place in sys.path_importer_cache if place not in sys.path and Path(place).is_file()]:
        del sys.path_importer_cache[place]
    from pyspark import daemon

    from iceberg_compaction.execute.worker import execute_task  # noqa: F401 - for all workers at once

    gc.collect()
    gc.freeze()  # Spark lets workers collect garbage after every task; what all of them share is none
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
