"""Folders that a command may write to beside the lake: whether it can, and a folder for temporary files where the usual
ones are read-only, as in a container."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from iceberg_compaction import errors

if TYPE_CHECKING:
    from pathlib import Path

_MEMORY = "/dev/shm"  # writable in containers whose other folders are not


def can_write(file: Path) -> bool:
    """Whether the file can be created or changed, its missing folders included. Nothing is created."""
    try:
        if file.exists() and not os.access(file, os.W_OK):
            return False
        folder = next(parent for parent in file.absolute().parents if parent.exists())
        return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    except OSError:  # a folder on the way cannot be entered
        return False


def ensure_temporary_folder() -> None:
    """Let temporary files go to memory if no folder for them can be written. ConfigError: that cannot be, either."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        if not os.access(_MEMORY, os.W_OK | os.X_OK):
            raise errors.ConfigError(
                "No folder for temporary files can be written; name one in TMPDIR, in Kubernetes an emptyDir volume."
            ) from error
        os.environ["TMPDIR"] = tempfile.tempdir = _MEMORY
        os.environ.setdefault("SPARK_LOCAL_DIRS", _MEMORY)
        java = os.environ.get("SPARK_SUBMIT_OPTS", "")
        if "java.io.tmpdir" not in java:
            os.environ["SPARK_SUBMIT_OPTS"] = f"{java} -Djava.io.tmpdir={_MEMORY}".strip()
