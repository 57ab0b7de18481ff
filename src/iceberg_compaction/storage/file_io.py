"""The properties that reading and writing files needs, and none of the catalog. A table's FileIO carries every property
of its catalog, secrets included; workers get the few that a file store understands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.storage import exact_paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

# An allow-list: a property that is not listed is not sent to workers. Credentials that a REST catalog vends for a table
# come under the same names, so they are in. Credentials in the environment are each machine's own business.
_PREFIXES = ("s3.", "gcs.", "adls.", "hdfs.", "hf.", "client.")
_KEYS = frozenset({"py-io-impl", "buffer-size", "DEFAULT_SCHEME", "DEFAULT_NETLOC"})
# Remote signing asks the catalog for every request, with the catalog's token.
_CATALOG_SIDE = ("s3.signer",)


def io_properties(table: Table) -> dict[str, str]:
    """The properties that a worker opens the table's files with."""
    return {
        key: value
        for key, value in table.io.properties.items()
        if isinstance(value, str) and (key in _KEYS or key.startswith(_PREFIXES)) and not key.startswith(_CATALOG_SIDE)
    }


def open_io(properties: Mapping[str, str], location: str) -> FileIO:
    """A FileIO for files at a location; the scheme says which, unless `py-io-impl` does."""
    from pyiceberg.io import load_file_io

    from iceberg_compaction.storage import s3_client

    return exact_paths.exact(load_file_io({**s3_client.DEFAULTS, **properties}, location))
