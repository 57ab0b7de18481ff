"""From flags to what the workflow takes: a connected catalog, the tables that were meant, a policy. Verbs use it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors, settings
from iceberg_compaction.catalog import connect, load_tables
from iceberg_compaction.interfaces import library
from iceberg_compaction.interfaces.cli import logs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.interfaces.cli.options import CatalogOptions, PolicyOptions
    from iceberg_compaction.model.policies import Policy

_PATTERN = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The tables to work on. `single`: exactly one was named, so its problems are the command's problems."""

    names: tuple[str, ...]
    single: bool


def open_catalog(options: CatalogOptions) -> Any:
    """The catalog that the flags and the environment name."""
    flags = settings.CatalogFlags(
        name=options.catalog_name,
        uri=options.catalog_uri,
        type=options.catalog_type,
        warehouse=options.warehouse,
        properties=options.catalog_property or (),
        spark_catalog=options.spark_catalog,
        conf=options.conf or (),
    )
    chosen = settings.load_catalog_settings(flags, os.environ)
    logs.keep_secret({**chosen.spark_conf, **chosen.properties, "uri": chosen.uri or ""})
    return connect.connect(chosen)


def find_targets(catalog: Any, wanted: Sequence[str]) -> Targets:
    """Names as they are, patterns against the catalog. A pattern without a match is a mistake worth telling."""
    names: dict[str, None] = {}
    for one in wanted:
        if not _PATTERN & set(one):
            names[one] = None
            continue
        found = load_tables.list_tables(catalog, one)
        if not found:
            raise errors.NoSuchTableError(f"No table of the catalog matches {one!r}.")
        names.update(dict.fromkeys(found))
    return Targets(names=tuple(names), single=len(wanted) == 1 and not _PATTERN & set(wanted[0]))


def make_policy(options: PolicyOptions) -> Policy:
    """The policy that the flags say; a flag wins over the same name in --option."""
    by_name = settings.parse_pairs(options.option or (), option="--option")
    given = {**by_name, **options.given()}
    return library.make_policy(given.pop("strategy"), given.pop("target-file-size", None), given)
