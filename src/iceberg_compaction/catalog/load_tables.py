"""Tables by name: load one, list those that match a pattern, or find the namespace of a bare name. A name that does not
exist is answered with the nearest ones that do."""

from __future__ import annotations

import difflib
import re
from functools import partial
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import unreadable_table
from iceberg_compaction.model import table_names
from iceberg_compaction.storage import exact_paths, passing_faults, redact, request_counts, translate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_SUGGESTIONS = 3
_CUTOFF = 0.6  # difflib's own notion of "close"


def load_table(catalog: Catalog, name: str) -> Table:
    """The table `namespace.table`; namespaces may be nested, and the catalog's own name may stand in front."""
    from pyiceberg import exceptions

    identifier = table_names.parse(name)
    if len(identifier) < 2:
        raise errors.ConfigError(f"The table name {name!r} has no namespace; write it like namespace.{name.strip()}.")
    with translate.catalog_border(catalog):
        for candidate in _readings(catalog, identifier):
            try:
                return _lasting(_exact(_load(catalog, candidate)))
            except exceptions.NoSuchIcebergTableError as error:
                raise errors.NoSuchTableError(f'"{name}" is not an Iceberg table.') from error
            except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError):
                continue
            except Exception as error:
                if (reason := unreadable_table.explain(catalog, candidate, error)) is None:
                    raise
                raise reason from translate.safe_cause(error, redact.secrets_of(catalog.properties))
    raise errors.NoSuchTableError(_no_such_table(catalog, identifier))


def _load(catalog: Catalog, identifier: tuple[str, ...]) -> Table:
    """The table, asked for again after faults that pass. A store that nobody was ever reached at is not waited for."""
    return passing_faults.patiently(partial(catalog.load_table, identifier), give_up=unreadable_table.is_absent)


def _exact(table: Table) -> Table:
    """The table with a FileIO that takes paths as they are. Table metadata itself is read and written by PyIceberg,
    unless a server does it, so that its path must be one that PyIceberg does not cut."""
    from pyiceberg.catalog import MetastoreCatalog

    reason = exact_paths.unfit(table.metadata_location, table.metadata_location)
    if reason and isinstance(table.catalog, MetastoreCatalog):
        raise errors.UnsupportedError(f"The path of the table's metadata {table.metadata_location!r} {reason}.")
    table.io = exact_paths.exact(table.io)
    count_metadata_read(table)
    return table


def count_metadata_read(table: Table) -> None:
    """A catalog that keeps no metadata of its own has let PyIceberg read the table's file: its size, then all of it."""
    from pyiceberg.catalog import MetastoreCatalog

    scheme, _, _ = exact_paths.split(table.metadata_location)
    if isinstance(table.catalog, MetastoreCatalog) and exact_paths.has_objects(scheme):
        request_counts.current().add(heads=1, gets=1)


def _lasting(table: Table) -> Table:
    """The table with a FileIO that outlives the credentials which the catalog gave with it."""
    from iceberg_compaction.storage import vended_credentials

    vended_credentials.check_no_remote_signing(table)
    load = partial(table.catalog.load_table, table.name())
    table.io = vended_credentials.lasting(table, lambda: _exact(passing_faults.patiently(load)).io)
    return table


def full_name(catalog: Catalog, name: str, namespace: str | None = None) -> str:
    """The name with its namespace, in the one spelling that this table has everywhere. A bare name is one of
    `namespace`; without that, of the only namespace that has such a table. Raises ConfigError with the candidates if
    there are several, and NoSuchTableError if there is none."""
    identifier = table_names.parse(name)
    if len(identifier) > 1:
        return table_names.text(identifier)
    if namespace:
        return table_names.text((*table_names.parse(namespace), *identifier))
    names = list_tables(catalog)
    wanted = table_names.text(identifier)
    candidates = [full for full in names if table_names.parse(full)[-1] == identifier[0]]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        raise errors.ConfigError(
            f"{len(candidates)} namespaces have a table {wanted}: {_listed(candidates)}; "
            "name one of them, or the namespace with --namespace."
        )
    meant = _nearest_tables(identifier[-1], names)
    hint = f"; did you mean {' or '.join(meant)}?" if meant else "."
    raise errors.NoSuchTableError(f'No namespace of the catalog "{catalog.name}" has a table "{wanted}"{hint}')


def list_tables(catalog: Catalog, pattern: str = "*") -> list[str]:
    """All tables of all namespaces, nested ones included, whose `namespace.table` matches the pattern, sorted. `*`
    stands for any text, dots too; case matters."""
    with translate.catalog_border(catalog):
        names = {
            table_names.text(identifier)
            for namespace in _namespaces(catalog, table_names.glob_pattern(pattern))
            for identifier in _tables_of(catalog, namespace)
        }
    return sorted(name for name in names if table_names.matches(name, pattern))


def check_namespace(catalog: Catalog, namespace: str) -> None:
    """Raises NoSuchTableError, with the nearest names, if the catalog has no such namespace."""
    wanted = table_names.text(table_names.parse(namespace))
    with translate.catalog_border(catalog):
        spaces = [table_names.text(space) for space in _namespaces(catalog, "*")]
    if wanted in spaces:
        return
    missing = f'There is no namespace "{wanted}" in the catalog "{catalog.name}"'
    if meant := nearest(wanted, spaces):
        raise errors.NoSuchTableError(f"{missing}; did you mean {' or '.join(meant)}?")
    raise errors.NoSuchTableError(f"{missing}; it has {_listed(spaces)}." if spaces else f"{missing}.")


def nearest(wanted: str, names: Iterable[str]) -> list[str]:
    """Known names that a person may have meant, best first; case does not count."""
    by_lower = {name.lower(): name for name in names}
    return [by_lower[hit] for hit in difflib.get_close_matches(wanted.lower(), by_lower, _SUGGESTIONS, _CUTOFF)]


def _readings(catalog: Catalog, identifier: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield identifier
    if len(identifier) > 2 and identifier[0] == catalog.name:  # Spark users write catalog.namespace.table
        yield identifier[1:]


def _no_such_table(catalog: Catalog, identifier: tuple[str, ...]) -> str:
    namespace, name = table_names.text(identifier[:-1]), table_names.text(identifier)
    try:
        with translate.border("the catalog"):
            spaces = {table_names.text(space): space for space in _namespaces(catalog, "*")}
            here = [namespace] if namespace in spaces else nearest(namespace, spaces)
            names = [table_names.text(table) for space in here for table in _tables_of(catalog, spaces[space])]
    except errors.CompactionError:
        return f'There is no table "{name}" in the catalog "{catalog.name}".'  # it may be read, but not listed
    if namespace in spaces:
        missing = f'There is no table "{name}" in the catalog "{catalog.name}"'
    else:
        missing = f'There is no namespace "{namespace}" in the catalog "{catalog.name}"'
    if meant := _nearest_tables(identifier[-1], names) if namespace in spaces else nearest(name, names):
        return f"{missing}; did you mean {' or '.join(meant)}?"
    if elsewhere := _elsewhere(catalog, identifier):
        return f"{missing}; did you mean {' or '.join(elsewhere)}?"
    if namespace not in spaces and spaces:
        return f"{missing}; it has {_listed(spaces)}."
    return f"{missing}; the namespace has {_listed(names)}." if names else f"{missing}."


def _nearest_tables(table: str, names: Iterable[str]) -> list[str]:
    """Known names whose last part a person may have meant, best first."""
    bare = {full: table_names.parse(full)[-1] for full in names}
    return [full for near in nearest(table, bare.values()) for full in bare if bare[full] == near][:_SUGGESTIONS]


def _elsewhere(catalog: Catalog, identifier: tuple[str, ...]) -> list[str]:
    """Tables of the same name in other namespaces."""
    try:
        names = list_tables(catalog)
    except errors.CompactionError:
        return []
    return [name for name in names if table_names.parse(name)[-1] == identifier[-1]][:_SUGGESTIONS]


def _listed(names: Iterable[str], limit: int = 5) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - limit} more" if len(ordered) > limit else ""
    return ", ".join(ordered[:limit]) + more


def _namespaces(catalog: Catalog, pattern: str) -> list[tuple[str, ...]]:
    """All namespaces that can hold a table matching the pattern."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    literal = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    namespaces: dict[tuple[str, ...], None] = {}
    waiting = list(catalog.list_namespaces())
    while waiting:
        namespace = tuple(waiting.pop())
        prefixes = (table_names.text(namespace) + ".", ".".join(namespace) + ".")  # as `matches` compares names
        may_match = any(prefix.startswith(literal) or literal.startswith(prefix) for prefix in prefixes)
        # A server without nested namespaces may answer with the outer ones again.
        if namespace in namespaces or not may_match:
            continue
        namespaces[namespace] = None
        try:
            waiting += catalog.list_namespaces(namespace)
        except NoSuchNamespaceError:  # dropped meanwhile, or nesting is not supported
            continue
    return sorted(namespaces)


def _tables_of(catalog: Catalog, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        return [tuple(identifier) for identifier in catalog.list_tables(namespace)]
    except NoSuchNamespaceError:
        return []
