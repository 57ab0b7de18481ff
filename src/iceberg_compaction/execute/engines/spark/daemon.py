"""The process that Spark forks Python workers from on a local master: Spark's own, prepared so that workers begin at
once. They find everything imported already. Archives are removed from the paths that Python imports from: Spark adds
archives of packages that are installed anyway, and lets workers read their directories anew before every task, which
takes a quarter of a second."""

from __future__ import annotations

import gc
import sys
from importlib import machinery
from pathlib import Path

from iceberg_compaction.execute.engines.spark import early_daemon

_MODULE = "iceberg_compaction.execute.engines.spark.daemon"  # of this file, also where it is the main module
_NEEDED = ("pyspark", "py4j")
_WORKER = "pyspark.worker"  # Spark's own, which the daemon that waits has imported


def without_archives(paths: list[str]) -> list[str]:
    """The paths that are folders, if these hold all modules that workers need; else all paths."""
    folders = [path for path in paths if not Path(path).is_file()]
    specs = [machinery.PathFinder.find_spec(name, folders) for name in _NEEDED]
    return paths if None in specs else folders


def arguments() -> tuple[str, ...]:
    """Of a Python that becomes the daemon before Spark asks for it."""
    return _MODULE, _WORKER, early_daemon.WAITING


def main() -> None:
    if early_daemon.WAITING in sys.argv:
        waiting = early_daemon.Waiting()
        _import()
        if waiting.take_over():
            _be_daemon()
        return
    given = list(sys.path)
    sys.path[:] = without_archives(sys.path)
    installed = sys.path != given or not any(map(_is_archive, given))
    if installed and sys.argv[1:] == [_WORKER] and early_daemon.hand_over(sys.path):
        return
    _import()
    _be_daemon()


def _is_archive(path: str) -> bool:
    return Path(path).is_file()


def _import() -> None:
    from pyspark import daemon  # noqa: F401 - and with it Spark's worker

    from iceberg_compaction.execute.worker import execute_task  # noqa: F401 - for all workers at once

    gc.collect()
    gc.freeze()  # Spark lets workers collect garbage after every task; what all of them share is none


def _be_daemon() -> None:
    from pyspark import daemon

    for path in [path for path in sys.path_importer_cache if path not in sys.path and _is_archive(path)]:
        del sys.path_importer_cache[path]
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
