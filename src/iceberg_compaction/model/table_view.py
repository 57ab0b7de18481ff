"""A table as planning and health see it: one pinned snapshot's live files as Arrow columns,
never an object per file."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from iceberg_compaction.model.value import Count, Value

# One row per live file of a snapshot. `partition` is the canonical JSON of the partition tuple, values in Iceberg's
# single-value JSON form keyed by partition field name, so equal tuples are equal strings: {"day": "2026-01-31"}.
# `sequence_number` is the data sequence number, inherited where the manifest leaves it null.
# `cluster_lower` and `cluster_upper` are the file's bounds of the table's clustering column (first column of its sort
# order, else the first date or time that it is partitioned by, else its first date or time) as numbers of the same
# order; null where there is no such column or no such bound. They serve neighbourhood and overlap, never a filter:
# two different values may share a number (text and binary count by their first 8 bytes).
FILES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False),
        pa.field("content", pa.int8(), nullable=False),  # 0 data, 1 position deletes, 2 equality deletes
        pa.field("file_format", pa.dictionary(pa.int32(), pa.string()), nullable=False),  # PARQUET, ORC, AVRO, PUFFIN
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("partition", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("record_count", pa.int64(), nullable=False),
        pa.field("file_size_in_bytes", pa.int64(), nullable=False),
        pa.field("sequence_number", pa.int64(), nullable=False),
        pa.field("file_sequence_number", pa.int64(), nullable=False),
        pa.field("sort_order_id", pa.int32()),
        pa.field("row_groups", pa.int32()),  # as many as there are split offsets; null: the manifest has none
        pa.field("encrypted", pa.bool_(), nullable=False),  # key_metadata is set
        pa.field("cluster_lower", pa.int64()),
        pa.field("cluster_upper", pa.int64()),
        pa.field("equality_ids", pa.list_(pa.int32())),  # equality deletes: the fields that they compare
        pa.field("referenced_data_file", pa.string()),  # position deletes: the one file they are for, if it is one
        pa.field("content_offset", pa.int64()),  # deletion vectors: where in the Puffin file
        pa.field("content_size_in_bytes", pa.int64()),
        pa.field("first_row_id", pa.int64()),  # version 3: of the file's first row
    ]
)

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2

# Where rows of files of older partition specs belong in the current one, as far as metadata tells (Inventory.feeds):
# `row` of FILES, ascending, and for each partition field `low_<n>` and `high_<n>`, between which its values lie as
# numbers, null where that is not known, and `null_<n>`, whether some rows may have none. Neighbouring values have
# neighbouring numbers where there is a range; this one stands for null.
NULL = -(2**62)


class Pin(Value):
    """The exact state of a table that a decision was made on."""

    table_uuid: str
    branch: str = "main"
    snapshot_id: Count
    sequence_number: Count  # of that snapshot; new files carry it as their data sequence number (R1)
    schema_id: Count
    spec_id: Count  # the table's default partition spec
    format_version: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """Everything planning may know: one snapshot's files and the table's settings. Read from metadata alone."""

    table: str  # namespace.name, as given to the catalog
    pin: Pin | None  # None: the table has no snapshot yet
    files: pa.Table  # FILES
    properties: dict[str, str] = field(default_factory=dict)
    selected: pa.BooleanArray | None = None  # rows of `files` that a `where` may match; None: all
    claimed: pa.BooleanArray | None = None  # rows of `files` that another run is at work on; None: none
    failed: pa.Int64Array | None = None  # of each row of `files`: 0, or how recently a run failed at it; None: never
    manifests: int = 0
    manifest_sizes: tuple[int, ...] = ()  # bytes of each
    manifest_files: tuple[int, ...] = ()  # rows of `files` that each lists, one after the other; empty: not known
    clustering_column: str | None = None  # whose bounds `cluster_lower` and `cluster_upper` are
    sorts_rows: bool = False  # the table has a sort order that a rewrite follows
    snapshots: int = 0
    refs: int = 0
    feeds: pa.Table | None = None  # where rows of older specs belong now, see metadata.feeds; None: not looked up
    delete_files: pa.Int64Array | None = None  # that apply to each row of `files`; None: the table has no deletes
    deleted_rows: pa.Int64Array | None = None  # of each row of `files`, an estimate; see metadata.delete_index
    dangling: pa.BooleanArray | None = None  # rows of `files`: delete files that apply to nothing; None: no deletes
    useless_deletes: int = 0  # of these, how many it is safe to drop
    unwritable_specs: frozenset[int] = frozenset()  # partition specs that files can be read of, but not written in
    unsupported: tuple[str, ...] = ()  # why the table must not be rewritten; empty: it may
