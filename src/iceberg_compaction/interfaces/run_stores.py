"""Which run store: a file, the memory of this process, or a server, as a user has chosen. Each client is imported for
its own kind alone; all but SQLite's are extras of this package."""

from __future__ import annotations

import importlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors, settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.record.entries.door import StoreEntries
    from iceberg_compaction.record.store import RunStore

_log = logging.getLogger(__name__)
_ENTRIES = "iceberg_compaction.record.entries"
# Of each scheme: the module, its class, and the package of its client with the extra that brings it.
_SERVERS = {
    "postgresql": ("postgresql", "PostgresEntries", "psycopg", "postgres"),
    "postgres": ("postgresql", "PostgresEntries", "psycopg", "postgres"),
    "redis": ("redis", "RedisEntries", "redis", "redis"),
    "rediss": ("redis", "RedisEntries", "redis", "redis"),
    "etcd": ("etcd", "EtcdEntries", "etcd3gw", "etcd"),
    "etcds": ("etcd", "EtcdEntries", "etcd3gw", "etcd"),
}
_DRIVERS = ("postgresql", "postgres")  # schemes that catalogs write with a driver, as in postgresql+psycopg://
_CHOICES = "a file, memory://, postgresql://, redis://, rediss://, etcd:// or etcds://"
MEMORY = "memory://"


def open_store(given: str | Path, environ: Mapping[str, str]) -> RunStore:
    """The store in a file or at a URL. Nothing is read or written yet. ConfigError: it cannot be a store."""
    from iceberg_compaction.record import store

    return store.RunStore(open_entries(given), settings.load_retention(environ))


def open_entries(given: str | Path) -> StoreEntries:
    """The same without the rules of a store."""
    file = file_of(given)
    if file is not None:
        from iceberg_compaction.record.entries import network_files, sqlite

        if os.path.isdir(file):  # unlike Path.is_dir, it raises nothing for a path that no file can have
            raise errors.ConfigError(
                f"The run store {file} is a folder; name a file in it, such as {file / 'runs.db'}."
            )
        network_files.check_local(file)
        return sqlite.SqliteEntries(file)
    url = str(given)
    if url == MEMORY:
        from iceberg_compaction.record.entries import memory

        return memory.MemoryEntries()
    return _server(url)


def file_of(given: str | Path) -> Path | None:
    """The file that is meant; None: no file. As in catalogs, `sqlite:///` comes before the path. ConfigError: neither a
    file nor a URL can be meant."""
    if isinstance(given, Path):
        return given
    scheme, colon, rest = given.partition(":")
    if scheme == "sqlite" and colon:
        path = rest.removeprefix("///")
        if not path.strip("/"):
            raise errors.ConfigError(f"The run store '{given}' names no file; write sqlite:///FILE.")
        return Path(path)
    if colon and not rest.startswith("//") and scheme.partition("+")[0] in (*_SERVERS, "memory"):
        from iceberg_compaction.record.entries import server_url

        raise errors.ConfigError(f"'{server_url.hidden(given)}' is not a run store; write {scheme}://.")
    return None if "://" in given else Path(given)


def store_to_read(given: str | Path | None, environ: Mapping[str, str]) -> RunStore | None:
    """The store for a command that adds nothing to it. None: there is none, because there is no home folder.
    ConfigError: the file is something else."""
    chosen = given or settings.load_store(environ)
    if chosen is None:
        return None
    if (file := file_of(chosen)) is not None:
        from iceberg_compaction.record.entries import sqlite

        try:
            sqlite.SqliteEntries(file).check_own()
        except errors.ForeignStoreError as error:
            raise errors.ConfigError(str(error)) from error
    return open_store(chosen, environ)


def store_to_write(given: str | Path | None, environ: Mapping[str, str]) -> RunStore | None:
    """The same for a command whose runs should be remembered. None, after one line in the log: they cannot be."""
    from iceberg_compaction.interfaces import user_folders

    store = store_to_read(given, environ)
    chosen = given or settings.load_store(environ)
    file = None if chosen is None else file_of(chosen)
    if chosen is None:
        reason = "there is no home folder"
    elif file is None or user_folders.can_write(file):
        return store
    else:
        reason = f"{file} cannot be written"
    _log.warning(
        "Runs are not remembered, and files of a run that is killed stay: %s; choose a store with --store or "
        "STORE_URL.",
        reason,
    )
    return None


def _server(url: str) -> StoreEntries:
    from iceberg_compaction.record.entries import server_url

    shown = server_url.ServerUrl(url)
    try:
        scheme, host, _ = shown.parts.scheme, shown.parts.hostname, shown.parts.port
    except ValueError as error:
        raise errors.ConfigError(f"{server_url.hidden(url)!r} is not the URL of a run store: {error}.") from error
    kind = scheme.partition("+")[0] if scheme.startswith(tuple(f"{each}+" for each in _DRIVERS)) else scheme
    if kind not in _SERVERS:
        raise errors.ConfigError(f"'{shown}' is not a run store; choose {_CHOICES}.")
    if not host and not (kind in _DRIVERS and "host" in shown.options):  # PostgreSQL may listen in a folder
        raise errors.ConfigError(f"The run store '{shown}' has no host; write {scheme}://HOST.")
    module, name, package, extra = _SERVERS[kind]
    try:
        client: Any = importlib.import_module(f"{_ENTRIES}.{module}")
    except ModuleNotFoundError as error:
        raise errors.SetupError(
            f"The run store {shown} needs {package}, which this Python does not have: "
            f"pip install 'iceberg-compaction[{extra}]'."
        ) from error
    entries: StoreEntries = getattr(client, name)(url)
    return entries
