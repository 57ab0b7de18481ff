"""Other tables of the same catalog: their files are orphans to this one, if they lie in its folders. The catalog comes
in; a refusal goes out where a folder is shared, or nested, or where the catalog cannot say."""

from __future__ import annotations

from concurrent import futures
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import load_tables, threads
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.model import table_names
from iceberg_compaction.storage.tree import path_forms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from iceberg_compaction.storage.tree.path_forms import Spellings

_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A table of the catalog, and where its files may be."""

    table: str
    uuid: str
    roots: tuple[str, ...]
    used: tuple[str, ...] = ()  # folders of metadata that it has, wherever its location was once


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """The tables of a catalog."""

    neighbours: tuple[Neighbour, ...]
    unknown: tuple[str, ...] = ()  # sentences: why tables of the catalog could not be looked at


class Neighbourhoods:
    """The tables of a catalog, looked at once for all operations of a command."""

    def __init__(self) -> None:
        self._looks: dict[int, Neighbourhood] = {}

    def of(self, catalog: Catalog) -> Neighbourhood:
        if id(catalog) not in self._looks:
            self._looks[id(catalog)] = look(catalog)
        return self._looks[id(catalog)]


def look(catalog: Catalog) -> Neighbourhood:
    """Load all tables of the catalog. Those that cannot be loaded are told."""
    try:
        names = load_tables.list_tables(catalog)
    except errors.CompactionError as error:
        return Neighbourhood(neighbours=(), unknown=(f"The tables of the catalog cannot be listed: {error}",))

    def load(name: str) -> Neighbour | str | None:
        try:
            table = load_tables.load_table(catalog, name)
        except errors.NoSuchTableError:
            return None  # dropped meanwhile, or no table of Iceberg
        except errors.CompactionError as error:
            return f"The table {name} of the catalog cannot be looked at: {error}"
        uuid, roots = str(table.metadata.table_uuid), table_folders.roots(table)
        return Neighbour(table=name, uuid=uuid, roots=roots, used=table_folders.used(table))

    workers = _AT_ONCE if threads.may_share(catalog) else 1
    with futures.ThreadPoolExecutor(workers, thread_name_prefix="neighbours") as pool:
        looks = list(pool.map(load, names))
    return Neighbourhood(
        neighbours=tuple(each for each in looks if isinstance(each, Neighbour)),
        unknown=tuple(each for each in looks if isinstance(each, str)),
    )


def check(
    table: Table, roots: Sequence[str], others: Neighbourhood, spellings: Spellings, *, allow_unlisted: bool
) -> None:
    """UnsupportedError: another table of the catalog may have files in these folders."""
    name, uuid = table_names.text(table.name()), str(table.metadata.table_uuid)
    if others.unknown and not allow_unlisted:
        rest = len(others.unknown) - 1
        more = f" The same is true of {rest:,} more." if rest else ""
        raise errors.UnsupportedError(
            f"{others.unknown[0].rstrip('.')}.{more} Its files would be orphans of {name} if they lay in the same "
            "folders; say --allow-unlisted if you know that no table does."
        )
    own = [form(root) for root in roots for form in (spellings.split, spellings.real)]
    for other in others.neighbours:
        if other.table == name:
            continue
        if other.uuid == uuid:
            raise errors.UnsupportedError(
                f"{other.table} is the same table as {name} under another name (uuid {uuid}), so that each has files "
                "that the other does not refer to; orphans of such tables cannot be told."
            )
        for folder in (*other.roots, *other.used):
            theirs = (spellings.split(folder), spellings.real(folder))
            # Around a folder of metadata there is nothing of that table.
            nested = path_forms.overlap if folder in other.roots else path_forms.is_below
            if any(store == prefix and nested(path, mine) for prefix, mine in own for store, path in theirs):
                raise errors.UnsupportedError(
                    f"{other.table} has its files in {folder}, which is a folder of {name} as well, or inside one, or "
                    "around one; its files would be orphans."
                )
