"""A first policy file from what a lake looks like: health of tables comes in, a commented file goes out. It states only
what the figures give a reason for, and each entry says its reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from iceberg_compaction.model import plurals, table_names
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.table_health import BrokenTable, TableHealth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_HEAD = """\
# What is wanted for which table. The most specific entry wins, value by value.
# Check this file:        iceberg-compact policy check FILE
# See what comes of it:   iceberg-compact explain TABLE --policy FILE

# The whole catalog.
strategy: small-files
# target-file-size-bytes: 512MiB  # default: write.target-file-size-bytes
# min-input-files: 5              # files that make a group worth rewriting
# max-bytes-to-rewrite: 100GiB    # a budget for each run of a table
# schedule: "0 2 * * *"           # `explain` shows when that is next
# quiet-hours: mon-fri 8:00-18:00 Europe/Berlin  # no run begins then
# owner: data-platform
# maintenance:
#   expire: {enabled: true, max-snapshot-age: 5d, min-snapshots-to-keep: 1}
"""
_MANY_DELETES = 10  # files
_DELETE_SHARE = 0.1  # of data files
_MANY_SNAPSHOTS = 500


def text(looks: Sequence[TableHealth | BrokenTable]) -> str:
    """The file."""
    lines = [_HEAD]
    namespaces: dict[str, list[TableHealth | BrokenTable]] = {}
    for look in looks:
        namespaces.setdefault(table_names.text(table_names.parse(look.table)[:-1]), []).append(look)
    lines += [f"# {plurals.count(len(looks), 'table')} in {plurals.count(len(namespaces), 'namespace')}."]
    if namespaces:
        lines.append("namespaces:")
    for name, tables in namespaces.items():
        lines += _namespace(name, tables)
    return "\n".join(lines) + "\n"


def _namespace(name: str, looks: Sequence[TableHealth | BrokenTable]) -> Iterator[str]:
    tables = [look for look in looks if isinstance(look, TableHealth)]
    files, size = sum(each.data_files for each in tables), sum(each.bytes for each in tables)
    sick = sum(each.sick for each in tables)
    small = sum(each.small_files for each in tables)
    yield f"  # {plurals.count(len(looks), 'table')}, {plurals.count(files, 'data file')}, {format_size(size)};"
    yield f"  # {small:,} small files; {plurals.count(sick, 'table needs', 'tables need')} work"
    entries = [line for look in looks for line in _table(look)]
    yield f"  {_name(name)}:" + ("" if entries else " {}")
    if entries:
        yield "    tables:"
        yield from entries


def _table(look: TableHealth | BrokenTable) -> Iterator[str]:
    name = table_names.text(table_names.parse(look.table)[-1:])
    if isinstance(look, BrokenTable):
        yield f"      # {_one_line(look.error)}"
        yield f"      {_name(name)}: {{enabled: false}}"
        return
    settings = dict(_settings(look))
    if not settings:
        return
    for setting, why in settings.items():
        yield f"      # {setting.partition(':')[0]}: {_one_line(why)}"
    yield f"      {_name(name)}: {{{', '.join(settings)}}}"


def _settings(health: TableHealth) -> Iterator[tuple[str, str]]:
    """Settings that the figures of a table give a reason for, with the reason."""
    if health.unsupported:
        yield "enabled: false", f"it cannot be rewritten yet: {health.unsupported[0]}"
        return
    share = health.delete_files / max(1, health.data_files)
    if health.delete_files >= _MANY_DELETES and share >= _DELETE_SHARE:
        counted = plurals.count(health.delete_files, "delete file")
        yield "strategy: delete-files", f"{counted} for {plurals.count(health.data_files, 'data file')}"
    if health.maintainers:
        yield "others: yield", f"others rewrite it: {health.maintainers[0].words}"
    if health.snapshots >= _MANY_SNAPSHOTS:
        yield "maintenance: {expire: {enabled: true}}", f"it has {health.snapshots:,} snapshots"


def _name(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _one_line(words: str) -> str:
    return " ".join(words.split())
