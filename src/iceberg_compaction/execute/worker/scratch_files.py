"""Files on local disk for rows that do not fit into memory. They have no name and vanish when they are closed."""

from __future__ import annotations

import os
import tempfile
from typing import IO


def open_file() -> IO[bytes]:
    """A new file in the folder that Spark names to its workers, else in the system's own."""
    directory = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    folder = directory if directory and os.path.isdir(directory) else None
    return tempfile.TemporaryFile(dir=folder, prefix="iceberg-compaction-")
