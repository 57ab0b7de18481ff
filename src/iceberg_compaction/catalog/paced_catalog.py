"""A catalog that is asked so many questions each second at most, so that upkeep does not slow those who query. The
methods that send requests wait for their turn; commits of others are not held up by ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog

    from iceberg_compaction.storage.s3.request_pace import RequestPace

_METHODS = ("load_table", "commit_table", "list_tables", "list_namespaces", "table_exists")


def pace(catalog: Catalog, given: RequestPace) -> None:
    """Have a catalog keep the pace from now on."""
    for name in _METHODS:
        setattr(catalog, name, _paced(getattr(catalog, name), given))


def _paced(method: Callable[..., Any], given: RequestPace) -> Callable[..., Any]:
    def paced(*values: Any, **more: Any) -> Any:
        given.wait()
        return method(*values, **more)

    return paced
