"""The tables that benchmarks run on are real ones: other readers find in them what we find."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import tables
from pyiceberg.manifest import DataFileContent

from iceberg_compaction.metadata import look
from iceberg_compaction.metadata.cache import arrow_cache

if TYPE_CHECKING:
    from pathlib import Path


def test_benchmark_tables_are_read_alike(tmp_path: Path) -> None:
    table = tables.make(tmp_path / "lake", 300)
    table = tables.append_files(table, 300, 50)
    table = tables.append_deletes(table, 20)
    found = look.look(table, name=tables.NAME, cache=arrow_cache.ArrowCache(None)).view.files.to_pylist()
    entries = [
        entry.data_file
        for manifest in table.current_snapshot().manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    ]
    assert [row["file_path"] for row in found] == [file.file_path for file in entries]
    assert [row["record_count"] for row in found] == [file.record_count for file in entries]
    assert len({row["file_path"] for row in found}) == 370
    data = [file for file in entries if file.content == DataFileContent.DATA]
    assert len(data) == 350
    assert all(len(file.lower_bounds) == len(file.value_counts) == tables.COLUMNS for file in data)
    assert sum(row["referenced_data_file"] is not None for row in found) == 8
    assert {row["referenced_data_file"] for row in found} - {None} <= {file.file_path for file in data}
    assert [row["equality_ids"] for row in found].count([3]) == 4
    table.catalog.close()
