"""Brings this package's code to executors on other machines, as a zip file that Spark distributes. Their Python needs
the libraries (pyarrow, pyiceberg, pydantic), not this package."""

from __future__ import annotations

import atexit
import functools
import hashlib
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import iceberg_compaction
from iceberg_compaction.execute.engines.spark import spark_session

if TYPE_CHECKING:
    from iceberg_compaction.execute.engines.spark.spark_session import Spark

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest date a zip can hold: equal code makes equal bytes


def ship(spark: Spark) -> None:
    """Adds the package to the session, once: Spark skips a file of the same name and content."""
    if spark_session.is_connect(spark):
        spark.addArtifacts(str(package_zip()), pyfile=True)
    else:
        spark.addPyFile(str(package_zip()))


@functools.cache
def package_zip() -> Path:
    """A zip of this package, named by its content. It lives as long as this process, because executors that join a
    session late fetch it then."""
    root = Path(iceberg_compaction.__file__).parent
    sources = sorted(root.rglob("*.py"))
    digest = hashlib.sha256()
    folder = Path(tempfile.mkdtemp(prefix="iceberg-compaction-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    draft = folder / "draft.zip"
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sources:
            content = source.read_bytes()
            name = source.relative_to(root.parent).as_posix()
            digest.update(name.encode() + b"\0" + content)
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
    return draft.rename(folder / f"iceberg_compaction-{digest.hexdigest()[:12]}.zip")
