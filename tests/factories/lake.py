"""A real catalog and warehouse in a local folder, for tests of every part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import SqlCatalog

if TYPE_CHECKING:
    from pathlib import Path


def local_catalog(directory: Path, name: str = "lake") -> SqlCatalog:
    """A SQLite catalog with the namespace `db`; its files lie in the directory."""
    catalog = SqlCatalog(name, uri=f"sqlite:///{directory}/{name}.db", warehouse=f"file://{directory}/warehouse")
    catalog.create_namespace_if_not_exists("db")
    return catalog
