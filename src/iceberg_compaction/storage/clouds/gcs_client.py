"""How Arrow's client of Google's object store is set up. Left alone it tries for a quarter of an hour to reach a server
that is not there, and PyIceberg has no property for that. A FileIO or a catalog comes in and is changed in place."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO

LONGEST = timedelta(seconds=8)  # after which no try begins; waits between them double, so it may take twice as long


def limit_waits(io: FileIO) -> FileIO:
    """The same FileIO, whose requests to Google end."""
    if hasattr(io, "_initialize_gcs_fs"):
        vars(io)["_initialize_gcs_fs"] = partial(_file_system, io.properties)
    return io


def limit_catalog(catalog: Catalog) -> Catalog:
    """The same catalog, which reads table metadata with such a FileIO."""
    vars(catalog)["_load_file_io"] = partial(_load_limited, catalog._load_file_io)
    return catalog


def _load_limited(load: Callable[..., FileIO], *given: Any, **more: Any) -> FileIO:
    return limit_waits(load(*given, **more))


def _file_system(properties: Mapping[str, Any]) -> Any:
    """As PyIceberg makes it of the same properties."""
    from pyarrow import fs

    options: dict[str, Any] = {"retry_time_limit": LONGEST}
    if token := properties.get("gcs.oauth2.token"):
        options["access_token"] = token
    if expires := properties.get("gcs.oauth2.token-expires-at"):
        options["credential_token_expiration"] = datetime.fromtimestamp(int(expires) / 1000, timezone.utc)
    if location := properties.get("gcs.default-bucket-location"):
        options["default_bucket_location"] = location
    if host := properties.get("gcs.service.host"):
        parts = urlsplit(str(host))
        options |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
    return fs.GcsFileSystem(**options)
