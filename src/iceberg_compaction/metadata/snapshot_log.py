"""Reads the snapshot history from the metadata file alone. A table comes in; out come its snapshots as Arrow columns,
with the writer of each by the properties that engines leave in snapshot summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from iceberg_compaction.model import snapshot_history
from iceberg_compaction.storage import passing_faults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_COUNTS = {
    "added_files": "added-data-files",
    "added_delete_files": "added-delete-files",
    "added_records": "added-records",
    "added_bytes": "added-files-size",
    "removed_files": "deleted-data-files",
    "removed_records": "deleted-records",
    "removed_bytes": "removed-files-size",
    "changed_partitions": "changed-partition-count",
    "total_files": "total-data-files",
    "total_records": "total-records",
    "total_bytes": "total-files-size",
}

# Signs of an engine that does not name itself by `engine-name`: a key, or the beginning of one.
_SIGNS = (
    ("flink.", "flink"),
    ("kafka.connect.", "kafka-connect"),
    ("trino_query_id", "trino"),
    ("spark.app.id", "spark"),
)
# A long-lived writer's own id. Trino's query id is not one: every statement has another.
_APP_KEYS = ("flink.job-id", "spark.app.id", "app-id")


def read_history(table: Table, *, branch: str = "main") -> snapshot_history.History:
    """The history of the branch that is still kept; its snapshots are those in the line of the branch's head."""
    metadata = table.metadata
    return snapshot_history.History(
        snapshots=_columns(list(line(metadata, branch))[::-1]),
        metadata_files=len(metadata.metadata_log) + 1,
        metadata_file_bytes=_file_size(table),
        partitioned=not table.spec().is_unpartitioned(),
    )


def writer_of(summary: Mapping[str, str]) -> tuple[str, str | None]:
    """The engine and the application that a snapshot's summary names."""
    named = summary.get("engine-name")
    engine = named.lower() if named else next((engine for sign, engine in _SIGNS if _has(summary, sign)), None)
    app = next((summary[key] for key in _APP_KEYS if summary.get(key)), None)
    return engine or snapshot_history.UNKNOWN, app


def _has(summary: Mapping[str, str], sign: str) -> bool:
    return any(key.startswith(sign) for key in summary)


def line(metadata: TableMetadata, branch: str) -> Iterator[Snapshot]:
    """The head and its ancestors, newest first; an expired one ends the line."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    ref = metadata.refs.get(branch)
    snapshot = by_id.pop(ref.snapshot_id, None) if ref else None
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else by_id.pop(parent, None)  # popped: a circle must end, too


def _columns(snapshots: list[Snapshot]) -> pa.Table:
    columns: dict[str, list[object]] = {name: [] for name in snapshot_history.SNAPSHOTS.names}
    for snapshot in snapshots:
        summary = snapshot.summary
        texts: Mapping[str, str] = {} if summary is None else summary.additional_properties
        engine, app = writer_of(texts)
        row = {
            "snapshot_id": snapshot.snapshot_id,
            "sequence_number": snapshot.sequence_number or 0,
            "timestamp_ms": snapshot.timestamp_ms,
            "operation": snapshot_history.UNKNOWN if summary is None else summary.operation.value,
            "engine": engine,
            "app": app,
            **{name: _number(texts.get(key)) for name, key in _COUNTS.items()},
        }
        for name, value in row.items():
            columns[name].append(value)
    return pa.table(columns, schema=snapshot_history.SNAPSHOTS)


def _number(text: str | None) -> int | None:
    """A count of a summary; None where the text is absent or not a number."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None


def _file_size(table: Table) -> int | None:
    try:
        return passing_faults.patiently(lambda: len(table.io.new_input(table.metadata_location)))
    except (OSError, ValueError):  # a REST catalog need not let its clients read the file
        return None
