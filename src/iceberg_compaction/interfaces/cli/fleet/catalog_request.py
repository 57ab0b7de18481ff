"""From flags to what the workflow takes: a connected catalog, the tables that were meant, a policy. Verbs use it."""

from __future__ import annotations

import dataclasses
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors, settings
from iceberg_compaction.catalog import connect, load_tables
from iceberg_compaction.interfaces import followed_policy
from iceberg_compaction.interfaces.cli import logs
from iceberg_compaction.model import table_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.interfaces.cli.options import (
        CatalogOptions,
        PolicyOptions,
        TableOptions,
    )
    from iceberg_compaction.interfaces.followed_policy import FollowedPolicy

EVERY_TABLE = "*"
_log = logging.getLogger(__name__)


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
    where = logs.clean(chosen.uri or chosen.type or "as PyIceberg's configuration says")
    _log.info("The catalog %s: %s", chosen.name, where)
    return connect.connect(chosen)


def choose_targets(catalog: Any, tables: TableOptions, namespace: str | None) -> Targets:
    """The tables that the flags mean, without those that they exclude."""
    targets = find_targets(catalog, tables.names or [EVERY_TABLE], namespace)
    excluded = {name for text in tables.exclude or () for name in targets.names if _means(text, name, namespace)}
    return dataclasses.replace(targets, names=tuple(name for name in targets.names if name not in excluded))


def _means(text: str, name: str, namespace: str | None) -> bool:
    """Whether an excluded name or pattern means this table. A bare name means tables of all namespaces, unless one is
    given."""
    if namespace:
        return table_names.matches(name, table_names.within(namespace, text))
    parts = table_names.parse(name)
    return table_names.matches(name, text) or table_names.matches(table_names.text(parts[-1:]), text)


def find_targets(catalog: Any, wanted: Sequence[str], namespace: str | None = None) -> Targets:
    """Names with their namespace, patterns against the catalog. `namespace`: of names and patterns that have none. A
    pattern without a match is a mistake, unless it stands for a whole catalog or namespace, which may be empty."""
    names: dict[str, None] = {}
    for text in wanted:
        if not table_names.is_pattern(text):
            names[load_tables.full_name(catalog, text, namespace)] = None
            continue
        pattern = table_names.within(namespace, text) if namespace else text
        matching = load_tables.list_tables(catalog, pattern)
        if not matching and text != EVERY_TABLE:
            raise errors.NoSuchTableError(f"No table of the catalog matches {pattern!r}.")
        if not matching and namespace:
            load_tables.check_namespace(catalog, namespace)
        names.update(dict.fromkeys(matching))
    return Targets(names=tuple(names), single=len(wanted) == 1 and not table_names.is_pattern(wanted[0]))


def make_policy(options: PolicyOptions) -> FollowedPolicy:
    """The policy that the flags say, with the file beneath it; a flag wins over the same name in --option."""
    by_name = settings.parse_pairs(options.option or (), option="--option")
    given = {**by_name, **options.given()}
    if options.trigger:
        thresholds = settings.parse_pairs(options.trigger, option="--trigger")
        preset = {"preset": given["triggers"]} if "triggers" in given else {}  # else the file's or the table's counts
        given["triggers"] = {**preset, **thresholds}
    return followed_policy.follow(given, file=options.policy_file, environment=options.environment)
