"""A table's past as columns: one row per snapshot that is still kept, and a few facts about the metadata around it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

UNKNOWN = "unknown"  # the engine of a snapshot that does not name one, as PyIceberg's

# One row per snapshot of a branch's line, oldest first. Counts are null where the summary does not state them.
# `added_bytes` and `removed_bytes` include delete files, as Iceberg's summaries do.
SNAPSHOTS = pa.schema(
    [
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("sequence_number", pa.int64(), nullable=False),  # 0 in format version 1
        pa.field("timestamp_ms", pa.int64(), nullable=False),
        pa.field("operation", pa.string(), nullable=False),
        pa.field("engine", pa.string(), nullable=False),
        pa.field("app", pa.string()),  # application or job id
        pa.field("added_files", pa.int64()),
        pa.field("added_delete_files", pa.int64()),
        pa.field("added_records", pa.int64()),
        pa.field("added_bytes", pa.int64()),
        pa.field("removed_files", pa.int64()),
        pa.field("removed_records", pa.int64()),
        pa.field("removed_bytes", pa.int64()),
        pa.field("changed_partitions", pa.int64()),
        pa.field("total_files", pa.int64()),
        pa.field("total_records", pa.int64()),
        pa.field("total_bytes", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What the table's metadata file tells about its past and its surroundings."""

    snapshots: pa.Table  # SNAPSHOTS
    metadata_files: int = 0  # metadata.json files that the metadata log keeps track of
    metadata_file_bytes: int | None = None  # of the current one; None: it cannot be asked for
    partitioned: bool = False  # by the current spec
