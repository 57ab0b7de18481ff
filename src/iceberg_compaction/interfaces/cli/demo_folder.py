"""The folder of the demo's lake. A lake of an earlier demo makes room for a new one; nothing else is ever removed. The
catalog is imported only where there is such a lake: Spark should start early."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from iceberg_compaction import errors

if TYPE_CHECKING:
    from pathlib import Path

MARK = "made-by-iceberg-compact-demo"


def prepare(folder: Path, *, replace: bool) -> Path:
    """An empty folder, marked as the demo's. Raises ConfigError if the folder has files that are not the demo's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            _make_room(folder, replace=replace)
        (folder / MARK).touch()
    except OSError as error:
        raise errors.ConfigError(f"The folder {folder} cannot be used: {error.strerror}.") from error
    return folder.resolve()


def _make_room(folder: Path, *, replace: bool) -> None:
    from iceberg_compaction.catalog import sample_lake

    if not (folder / MARK).exists():
        raise errors.ConfigError(f"The folder {folder} is not empty; name a new one for the demo's lake.")
    if not replace:
        raise errors.ConfigError(
            f"The folder {folder} is not empty: it has the lake of an earlier demo. Give --replace to build it anew, "
            "or name a new folder."
        )
    if others := _other_tables(folder):
        raise errors.ConfigError(
            f"The lake in {folder} has tables that the demo did not make ({', '.join(others)}), so it stays as it is; "
            "name a new folder."
        )
    for path in folder.iterdir():
        if path.name == sample_lake.WAREHOUSE:
            shutil.rmtree(path)
        elif path.name.startswith((sample_lake.CATALOG, sample_lake.RUNS)):  # SQLite keeps files beside its own
            path.unlink()


def _other_tables(folder: Path) -> list[str]:
    from iceberg_compaction.catalog import connect, load_tables, sample_lake
    from iceberg_compaction.settings import CatalogSettings

    database = folder / sample_lake.CATALOG
    if not database.exists():
        return []
    catalog = connect.connect(CatalogSettings(uri=f"sqlite:///{database.absolute()}"))
    try:
        return sorted(set(load_tables.list_tables(catalog)) - set(sample_lake.TABLES))
    finally:
        catalog.close()
