"""Other entries of a catalog that are the same table (R48): `register_table`, clones and renames leave several names
whose metadata go apart, and each needs its own files. A table comes in; the names of the others go out, and whether
all entries could be looked at."""

from __future__ import annotations

from concurrent import futures
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import load_tables
from iceberg_compaction.model import table_names
from iceberg_compaction.storage import exact_paths, translate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

MOST_LOADED = 100  # tables of a catalog that has to be asked for each of them
_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherEntries:
    """The other names of a table in its catalog."""

    names: tuple[str, ...] = ()
    looked: bool = True  # False: the catalog cannot be listed, or is too large to ask for each table


def find(table: Table) -> OtherEntries:
    """Other entries with the same uuid, or the same location. A database says at once which entries have their metadata
    in the table's folders; all others are asked for one by one, as long as they are not too many. An entry that cannot
    be loaded may be the same table: one in the table's folders counts as such, of another nobody knows."""
    own = table_names.text(table.name())
    try:
        near = _in_database(table)
        others = [name for name in load_tables.list_tables(table.catalog) if name != own and name not in near]
        few = others if len(others) <= MOST_LOADED else []
        with futures.ThreadPoolExecutor(_THREADS) as pool:
            same = dict(zip((*near, *few), pool.map(lambda name: _is_same(table, name), (*near, *few)), strict=True))
    except errors.CompactionError:
        return OtherEntries(looked=False)  # it may be read, but not listed
    names = tuple(name for name, is_same in same.items() if is_same or (is_same is None and name in near))
    return OtherEntries(names=names, looked=len(few) == len(others) and all(same[each] is not None for each in few))


def _in_database(table: Table) -> Sequence[str]:
    """Entries whose metadata is in the folder of the table's own, or below its location; none without a database."""
    from pyiceberg.catalog import sql
    from sqlalchemy import orm, select

    if not isinstance(table.catalog, sql.SqlCatalog):
        return ()
    entries = sql.IcebergTables
    query = select(entries.table_namespace, entries.table_name, entries.metadata_location).where(
        entries.catalog_name == table.catalog.name
    )
    with translate.catalog_border(table.catalog), orm.Session(table.catalog.engine) as session:
        rows = session.execute(query).all()
    own = tuple(table.name())
    folders = {_path(table.metadata_location).rpartition("/")[0], _path(table.location()).rstrip("/")}
    names = []
    for namespace, name, location in rows:
        identifier = (*namespace.split("."), name)
        inside = location is not None and any(_path(location).startswith(f"{folder}/") for folder in folders)
        if inside and identifier != own:
            names.append(table_names.text(identifier))
    return names


def _is_same(table: Table, name: str) -> bool | None:
    """Whether an entry is the same table, or one that has its files in the same place. None: it cannot be loaded, and
    nobody knows."""
    try:
        other = load_tables.load_table(table.catalog, name)
    except errors.NoSuchTableError:
        return False  # a view, or dropped meanwhile
    except errors.CompactionError:
        return None
    same_place = _path(other.location()).rstrip("/") == _path(table.location()).rstrip("/")
    return other.metadata.table_uuid == table.metadata.table_uuid or same_place


def _path(location: str) -> str:
    _, authority, path = exact_paths.split(location)
    return f"{authority}{path}"
