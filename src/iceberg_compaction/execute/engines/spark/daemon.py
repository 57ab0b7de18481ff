"""The process that Spark forks Python workers from on a local master: Spark's own, prepared so that workers begin at
once. They find everything imported already. Archives are removed from the paths that Python imports from: Spark adds
archives of packages that are installed anyway, and lets workers read their directories anew before every task, which
takes a quarter of a second."""

from __future__ import annotations

import gc
import sys
from importlib import machinery
from pathlib import Path

_NEEDED = ("pyspark", "py4j")


def without_archives(paths: list[str]) -> list[str]:
    """The paths that are folders, if these hold all modules that workers need; else all paths."""
    folders = [path for path in paths if not Path(path).is_file()]
    specs = [machinery.PathFinder.find_spec(name, folders) for name in _NEEDED]
    return paths if None in specs else folders


def main() -> None:
    sys.path[:] = without_archives(sys.path)
    for path in [path for path in sys.path_importer_cache if path not in sys.path and Path(path).is_file()]:
        del sys.path_importer_cache[path]
    from pyspark import daemon

    from iceberg_compaction.execute.worker import execute_task  # noqa: F401 - for all workers at once

    gc.collect()
    gc.freeze()  # Spark lets workers collect garbage after every task; what all of them share is none
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
