"""A look at all tables of a catalog, once for all operations of a command. A table that has not changed since an
earlier command is not read again; where the catalog has many tables and cannot say whether they have changed, a look of
the last hour is good enough. Tables that could not be looked at are told."""

from __future__ import annotations

from concurrent import futures
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import entry_locations, load_tables, threads
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.model import table_names
from iceberg_compaction.operations.neighbourhood import folder_book, reached_folders
from iceberg_compaction.operations.neighbourhood.folder_book import Neighbour

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from iceberg_compaction.record.runs import Run

MANY_TABLES = 100  # more are not loaded again within an hour
RECENT_MS = 3_600_000
FRESH_MS = 10_000  # where a database says which tables have changed
_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlooked:
    """A table that could not be looked at, or all of them."""

    table: str  # empty: nobody knows which there are
    sentence: str
    metadata_location: str | None = None  # as far as the catalog says


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """The other tables of a catalog."""

    neighbours: tuple[Neighbour, ...]
    unknown: tuple[Unlooked, ...] = ()

    @property
    def doubt(self) -> str | None:
        """Which tables could not be looked at and why, in a sentence; None: there is no such table."""
        if not self.unknown:
            return None
        rest = len(self.unknown) - 1
        more = f" The same is true of {rest:,} more." if rest else ""
        return f"{self.unknown[0].sentence.rstrip('.')}.{more}"


class Neighbourhoods:
    """The tables of catalogs, each looked at once for all operations of a command, and again after an hour. A database
    is asked every few seconds which of them have changed."""

    def __init__(self) -> None:
        self._looks: dict[int, _Look] = {}

    def of(self, table: Table, run: Run) -> Neighbourhood:
        """The other tables of the table's catalog."""
        held = self._looks.get(id(table.catalog))
        if held is None or held.catalog is not table.catalog or held.is_old(run.clock()):
            try:
                held = _begin(table, run, held)
            except errors.CatalogError as error:
                sentence = f"The tables of the catalog cannot be listed: {error}"
                return Neighbourhood(neighbours=(), unknown=(Unlooked(table="", sentence=sentence),))
            self._looks[id(table.catalog)] = held
        return _look(held, table_names.text(table.name()), run)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The tables of a catalog, as far as they were looked at."""

    catalog: Catalog
    identity: str
    now_ms: int
    names: list[str]
    locations: Mapping[str, str]
    book: dict[str, Neighbour]  # of earlier commands, and of this one
    allowance: reached_folders.ReadAllowance
    tables: dict[str, Neighbour | Unlooked | None] = field(default_factory=dict)  # None: there is no such table

    def is_old(self, now_ms: int) -> bool:
        return now_ms - self.now_ms >= (FRESH_MS if self.locations else RECENT_MS)


def _begin(table: Table, run: Run, before: _Look | None) -> _Look:
    if before is not None and before.catalog is not table.catalog:
        before = None
    identity = table_folders.entry(table).catalog if before is None else before.identity
    return _Look(
        catalog=table.catalog,
        identity=identity,
        now_ms=run.clock(),
        names=load_tables.list_tables(table.catalog),
        locations=entry_locations.read(table.catalog),
        book=folder_book.load(run.cache, identity) if before is None else before.book,
        allowance=reached_folders.ReadAllowance() if before is None else before.allowance,
    )


def _look(held: _Look, own: str, run: Run) -> Neighbourhood:
    """Look at all tables but one that were not looked at before; whoever deletes files has read its own."""
    missing = [name for name in held.names if name != own and name not in held.tables]
    if missing:
        workers = _AT_ONCE if threads.may_share(held.catalog) else 1
        with futures.ThreadPoolExecutor(workers, thread_name_prefix="neighbours") as pool:
            held.tables.update(zip(missing, pool.map(partial(_look_at, held, run), missing), strict=True))
        news = {each.table: each for each in held.tables.values() if isinstance(each, Neighbour)}
        if any(held.book.get(name) is not each for name, each in news.items()):
            held.book.update(news)
            names = set(held.names)
            folder_book.store(run.cache, held.identity, [each for name, each in held.book.items() if name in names])
    others = [each for name, each in held.tables.items() if name != own]
    return Neighbourhood(
        neighbours=tuple(each for each in others if isinstance(each, Neighbour)),
        unknown=tuple(each for each in others if isinstance(each, Unlooked)),
    )


def _look_at(held: _Look, run: Run, name: str) -> Neighbour | Unlooked | None:
    run.cancel.check()
    earlier, location = held.book.get(name), held.locations.get(name)
    if earlier is not None:
        many = len(held.names) > MANY_TABLES and location is None
        if earlier.is_at(location) or (many and 0 <= held.now_ms - earlier.looked_ms < RECENT_MS):
            return earlier
    try:
        return _neighbour(name, load_tables.load_table(held.catalog, name), earlier, held)
    except errors.NoSuchTableError:
        return None  # dropped meanwhile, or no table of Iceberg
    except errors.CancelledError:
        raise
    except errors.CompactionError as error:
        sentence = f"The table {name} of the catalog cannot be looked at: {error}"
        return Unlooked(table=name, sentence=sentence, metadata_location=location)


def _neighbour(name: str, table: Table, earlier: Neighbour | None, held: _Look) -> Neighbour:
    uuid = str(table.metadata.table_uuid)
    reach = None if earlier is None or earlier.uuid != uuid else earlier.reach
    if earlier is None or reach is None or not earlier.is_at(table.metadata_location):
        reach = reached_folders.read(table, reach, held.allowance)
    return Neighbour(
        table=name,
        uuid=uuid,
        metadata_location=table.metadata_location,
        location=table.location(),
        looked_ms=held.now_ms,
        roots=table_folders.roots(table),
        used=table_folders.used(table),
        reach=reach,
    )
