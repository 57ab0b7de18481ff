"""A reader of tables that shares no code with the product: manifests by PyIceberg, rows by pyarrow, deletes applied by
the rules of the spec, pair by pair. For tables with equality deletes, which PyIceberg does not scan."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlparse

import pyarrow.parquet as pq
from pyiceberg import manifest as manifests
from tests.factories import delete_rules

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

Row: TypeAlias = tuple[Any, ...]
_FILE_PATH_ID = 2147483546


class Reader:
    """Reads any snapshots of one table; what it has read of a file it keeps, for files never change."""

    def __init__(self) -> None:
        self._contents: dict[str, list[dict[str, Any]]] = {}
        self._entries: dict[str, list[dict[str, Any]]] = {}

    def rows(self, table: Table, snapshot: Snapshot | None = None) -> Counter[Row]:
        """The rows of a snapshot, of the current one by default, as a multiset."""
        snapshot = snapshot or table.current_snapshot()
        if snapshot is None:
            return Counter()
        files = self.live(table, snapshot)
        everywhere = frozenset(spec_id for spec_id, spec in table.specs().items() if spec.is_unpartitioned())
        deletes = [file for file in files if file["content"]]
        names = {field.field_id: field.name for field in table.schema().fields}
        found: Counter[Row] = Counter()
        for data in (file for file in files if not file["content"]):
            applied = [delete for delete in deletes if delete_rules.applies(data, delete, files, everywhere)]
            found.update(tuple(row.get(name) for name in names.values()) for row in self._alive(table, data, applied))
        return found

    def live(self, table: Table, snapshot: Snapshot) -> list[dict[str, Any]]:
        """The live data and delete files of a snapshot; their properties have the names of model.table.FILES."""
        rows = manifests.read_manifest_list(table.io.new_input(snapshot.manifest_list))
        return [entry for row in rows for entry in self._entries_of(table, row)]

    def _entries_of(self, table: Table, row: Any) -> list[dict[str, Any]]:
        path = row.manifest_path
        if path not in self._entries:
            self._entries[path] = [
                _described(entry, row.partition_spec_id) for entry in row.fetch_manifest_entry(table.io)
            ]
        return self._entries[path]

    def _alive(self, table: Table, data: dict[str, Any], deletes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        names = {field.field_id: field.name for field in table.schema().fields}
        positions: set[int] = set()
        keys: list[tuple[list[str], set[Row]]] = []
        for delete in deletes:
            content = self._content(table, delete["file_path"])
            if delete["content"] == delete_rules.POSITION:
                positions |= {row["pos"] for row in content if _same(row["file_path"], data["file_path"])}
            else:
                columns = [names[field_id] for field_id in delete["equality_ids"]]
                keys.append((columns, {tuple(row[name] for name in columns) for row in content}))
        return [
            row
            for position, row in enumerate(self._content(table, data["file_path"]))
            if position not in positions
            and not any(tuple(row.get(name) for name in columns) in gone for columns, gone in keys)
        ]

    def _content(self, table: Table, path: str) -> list[dict[str, Any]]:
        if path not in self._contents:
            with table.io.new_input(path).open() as stream:
                self._contents[path] = pq.ParquetFile(stream).read().to_pylist()
        return self._contents[path]


def rows(table: Table, snapshot: Snapshot | None = None) -> Counter[Row]:
    """The rows of one snapshot as a multiset."""
    return Reader().rows(table, snapshot)


def known_files(table: Table) -> set[str]:
    """Everything that the table's metadata refers to in any snapshot, as paths of the kind that `storage.files_under`
    gives."""
    found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    found |= {each.statistics_path for each in (*table.metadata.statistics, *table.metadata.partition_statistics)}
    for snapshot in table.snapshots():
        found.add(snapshot.manifest_list)
        for row in manifests.read_manifest_list(table.io.new_input(snapshot.manifest_list)):
            found.add(row.manifest_path)
            found |= {entry.data_file.file_path for entry in row.fetch_manifest_entry(table.io, discard_deleted=False)}
    return {_bare(path) for path in found}


def _bare(path: str) -> str:
    parsed = urlparse(path)
    return f"{parsed.netloc}{parsed.path}"


def _same(one: str, other: str) -> bool:
    return one == other or _bare(one) == _bare(other)


def _described(entry: Any, spec_id: int) -> dict[str, Any]:
    file = entry.data_file
    lower, upper = ((bounds or {}).get(_FILE_PATH_ID) for bounds in (file.lower_bounds, file.upper_bounds))
    content = int(file.content)
    return {
        "content": content,
        "file_path": file.file_path,
        "file_format": file.file_format.value,
        "spec_id": spec_id,
        "partition": tuple(file.partition[place] for place in range(len(file.partition))),
        "sequence_number": entry.sequence_number,
        "record_count": file.record_count,
        "equality_ids": list(file.equality_ids or ()),
        "referenced_data_file": lower.decode() if content == 1 and lower and lower == upper else None,
    }
