"""A look at all tables of a catalog, once for all operations of a command. A table that has not changed since an
earlier command is not read again; where the catalog has many tables and cannot say whether they have changed, a look of
the last hour is good enough. Tables that could not be looked at are told. Catalogs of other names in the same database
are looked at as well, as far as this one's credentials reach."""

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
from iceberg_compaction.storage.tree import path_forms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from iceberg_compaction.record.runs import Run

    Home = tuple[Catalog, str]  # where a table is, and its name there

MANY_TABLES = 100  # more are not loaded again within an hour
RECENT_MS = 3_600_000
FRESH_MS = 10_000  # where a database says which tables have changed
FEW_MS = 60_000  # where few tables are loaded to see that
_AT_ONCE = 8
_SPELLINGS = path_forms.Spellings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlooked:
    """A table that could not be looked at, or all of them."""

    table: str  # empty: nobody knows which there are
    sentence: str
    metadata_location: str | None = None  # as far as the catalog says
    is_beside: bool = False  # in another catalog of the same database, which may need other credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """The other tables of a catalog."""

    neighbours: tuple[Neighbour, ...]
    unknown: tuple[Unlooked, ...] = ()
    homes: Mapping[str, Home] = field(default_factory=dict)  # of the neighbours

    def load(self, name: str) -> Table:
        """A neighbour as it is now. NoSuchTableError: it is gone, or has another name."""
        return load_tables.load_table(*self.homes[name])

    @property
    def doubt(self) -> str | None:
        """Which tables could not be looked at and why, in a sentence; None: there is no such table."""
        if not self.unknown:
            return None
        rest = len(self.unknown) - 1
        more = f" The same is true of {rest:,} more." if rest else ""
        return f"{self.unknown[0].sentence.rstrip('.')}.{more}"


class Neighbourhoods:
    """The tables of catalogs, each looked at once for all operations of a command, and again after an hour; after a
    minute, if they are few. A database is asked every few seconds which of them have changed."""

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
        return _look(held, table, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The tables of a catalog, as far as they were looked at."""

    catalog: Catalog
    identity: str
    now_ms: int
    homes: Mapping[str, Home]
    locations: Mapping[str, str]
    book: dict[str, Neighbour]  # of earlier commands, and of this one
    allowance: reached_folders.ReadAllowance
    tables: dict[str, Neighbour | Unlooked | None] = field(default_factory=dict)  # None: there is no such table

    def is_old(self, now_ms: int) -> bool:
        few_ms = FEW_MS if len(self.homes) <= MANY_TABLES else RECENT_MS
        return now_ms - self.now_ms >= (FRESH_MS if self.locations else few_ms)


def _begin(table: Table, run: Run, before: _Look | None) -> _Look:
    if before is not None and before.catalog is not table.catalog:
        before = None
    identity = table_folders.entry(table).catalog if before is None else before.identity
    homes: dict[str, Home] = {name: (table.catalog, name) for name in load_tables.list_tables(table.catalog)}
    locations = dict(entry_locations.read(table.catalog))
    for other in entry_locations.beside(table.catalog):
        words = f"of the catalog {other.name}"
        homes |= {f"{name} {words}": (other, name) for name in load_tables.list_tables(other)}
        locations |= {f"{name} {words}": location for name, location in entry_locations.read(other).items()}
    return _Look(
        catalog=table.catalog,
        identity=identity,
        now_ms=run.clock(),
        homes=homes,
        locations=locations,
        book=folder_book.load(run.cache, identity) if before is None else before.book,
        allowance=reached_folders.ReadAllowance() if before is None else before.allowance,
    )


def _look(held: _Look, table: Table, run: Run) -> Neighbourhood:
    """Look at all tables but one that were not looked at before; whoever deletes files has read its own."""
    own = table_names.text(table.name())
    missing = [name for name in held.homes if name != own and name not in held.tables]
    if missing:
        workers = _AT_ONCE if threads.may_share(held.catalog) else 1
        with futures.ThreadPoolExecutor(workers, thread_name_prefix="neighbours") as pool:
            held.tables.update(zip(missing, pool.map(partial(_look_at, held, run), missing), strict=True))
        news = {each.table: each for each in held.tables.values() if isinstance(each, Neighbour)}
        if any(held.book.get(name) is not each for name, each in news.items()):
            held.book.update(news)
            kept = [each for name, each in held.book.items() if name in held.homes]
            folder_book.store(run.cache, held.identity, kept)
    others = [each for name, each in held.tables.items() if name != own]
    return Neighbourhood(
        neighbours=tuple(each for each in others if isinstance(each, Neighbour)),
        unknown=tuple(each for each in others if isinstance(each, Unlooked) and _matters(each, table)),
        homes=held.homes,
    )


def _matters(unlooked: Unlooked, table: Table) -> bool:
    """A table of another catalog which cannot be read from here is left to that one, unless it lies with this table."""
    if not unlooked.is_beside or unlooked.metadata_location is None:
        return True
    theirs = _SPELLINGS.split(unlooked.metadata_location)[1]
    return any(path_forms.is_below(theirs, _SPELLINGS.split(root)[1]) for root in table_folders.roots(table))


def _look_at(held: _Look, run: Run, name: str) -> Neighbour | Unlooked | None:
    run.cancel.check()
    earlier, location = held.book.get(name), held.locations.get(name)
    if earlier is not None:
        many = len(held.homes) > MANY_TABLES and location is None
        if earlier.is_at(location) or (many and 0 <= held.now_ms - earlier.looked_ms < RECENT_MS):
            return earlier
    try:
        return _neighbour(name, load_tables.load_table(*held.homes[name]), earlier, held)
    except errors.NoSuchTableError:
        return None  # dropped meanwhile, or no table of Iceberg
    except errors.CancelledError:
        raise
    except errors.CompactionError as error:
        is_beside = held.homes[name][0] is not held.catalog
        sentence = f"The table {name}{'' if is_beside else ' of the catalog'} cannot be looked at: {error}"
        is_far = is_beside and not isinstance(error, reached_folders.SpentError)
        return Unlooked(table=name, sentence=sentence, metadata_location=location, is_beside=is_far)


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
