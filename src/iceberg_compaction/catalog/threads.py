"""Whether a catalog may be asked by several threads at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def may_share(catalog: Catalog) -> bool:
    """Hive's client is one Thrift connection, on which two answers would mix. The others keep a pool."""
    return all(kind.__name__ != "HiveCatalog" for kind in type(catalog).__mro__)
