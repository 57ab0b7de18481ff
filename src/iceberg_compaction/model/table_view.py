"""The view of a table for planning and health: the live files of one pinned snapshot as Arrow columns, never an object
per file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from iceberg_compaction.model.value import Count, Value

if TYPE_CHECKING:
    from iceberg_compaction.model.delete_choice import DeleteWays
    from iceberg_compaction.model.maintainer import Maintainer
    from iceberg_compaction.model.rewrite_past import RewritePast
    from iceberg_compaction.model.table_shape import TableShape

# One row per live file of a snapshot. `partition` is the canonical JSON of the partition tuple, values in Iceberg's
# single-value JSON form keyed by partition field name, so equal tuples are equal strings: {"day": "2026-01-31"}.
# `sequence_number` is the data sequence number, inherited where the manifest leaves it null.
# `cluster_lower` and `cluster_upper` are the file's bounds of the table's clustering column (first column of its sort
# order, else the first date or time that it is partitioned by, else its first date or time) as numbers of the same
# order; null without such a column or bound. They serve neighbourhood and overlap, never a filter: two different values
# may share a number (text and binary count by their first 8 bytes).
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
        pa.field("row_groups", pa.int32()),  # number of split offsets; null: the manifest has none
        pa.field("encrypted", pa.bool_(), nullable=False),  # key_metadata is set
        pa.field("cluster_lower", pa.int64()),
        pa.field("cluster_upper", pa.int64()),
        pa.field("equality_ids", pa.list_(pa.int32())),  # equality deletes: the compared fields
        pa.field("referenced_data_file", pa.string()),  # position deletes: their data file, if it is a single one
        pa.field("content_offset", pa.int64()),  # deletion vectors: offset in the Puffin file
        pa.field("content_size_in_bytes", pa.int64()),
        pa.field("first_row_id", pa.int64()),  # version 3: of the file's first row
    ]
)

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2

# The snapshots that the table still has and that have a sequence number of their own, by that number. The file sequence
# number of a file is that of the snapshot that added it.
COMMITS = pa.schema(
    [
        pa.field("sequence_number", pa.int64(), nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("timestamp_ms", pa.int64(), nullable=False),
        pa.field("rewrites", pa.bool_(), nullable=False),  # it replaced files by others with the same rows
        pa.field("sorted_by", pa.string()),  # its files are in this order, as `row_order_terms.key` has it
    ]
)

# The current partitions of rows in files of older partition specs, as far as metadata has them (TableView.feeds): `row`
# of FILES, ascending, and for each partition field the range of its values as numbers, `low_<n>` to `high_<n>`, null if
# it is unknown, and `null_<n>`, whether rows may lack a value. Neighbouring values have neighbouring numbers within a
# range. This number stands for null.
NULL = -(2**62)


class Pin(Value):
    """The exact state of a table behind a plan."""

    table_uuid: str
    branch: str = "main"
    snapshot_id: Count
    sequence_number: Count  # of that snapshot; new files carry it as their data sequence number (R1)
    schema_id: Count
    spec_id: Count  # the table's default partition spec
    format_version: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """Everything planning may know: the files of one snapshot and the settings of the table, from metadata alone."""

    table: str  # namespace.name, as given to the catalog
    pin: Pin | None  # None: the table has no snapshot yet
    files: pa.Table  # FILES
    properties: dict[str, str] = field(default_factory=dict)
    selected: pa.BooleanArray | None = None  # rows of `files` that a `where` may match; None: all
    leased: pa.BooleanArray | None = None  # rows of `files` that other runs are working on; None: none
    lessees: tuple[str, ...] = ()  # these runs in words
    maintainers: tuple[Maintainer, ...] = ()  # other tools that rewrite the table
    yielded: pa.BooleanArray | None = None  # rows of `files` that are left to them; None: none
    cold: pa.BooleanArray | None = (
        None  # rows of `files` in cold tiers of their store; None: none that anybody knows of
    )
    failed: pa.Int64Array | None = (
        None  # of each row of `files`: 0, or higher the later a run failed at it; None: never
    )
    manifests: int = 0  # with live files: the others are never read, and the next commit drops them
    manifest_sizes: tuple[int, ...] = ()  # bytes of each of these
    manifest_files: tuple[int, ...] = ()  # rows of `files` in each of all manifests, one by one; empty: unknown
    clustering_column: str | None = None  # whose bounds `cluster_lower` and `cluster_upper` are
    sorts_rows: bool = False  # the table has a sort order that a rewrite can follow
    columns: int = 0  # of the table's files: leaves of its schema; 0: unknown
    snapshots: int = 0
    refs: int = 0
    feeds: pa.Table | None = None  # current partitions of rows of older specs, see NULL; None: not looked up
    delete_files: pa.Int64Array | None = None  # that apply to each row of `files`; None: the table has no deletes
    deleted_rows: pa.Int64Array | None = None  # of each row of `files`, an estimate; see metadata.delete_index
    equality_keys: pa.Int64Array | None = None  # in equality deletes that apply to each row of `files`; None: none do
    delete_ways: DeleteWays | None = None  # what could be done about deletes; None: not looked up
    dangling: pa.BooleanArray | None = None  # rows of `files`: delete files that apply to nothing; None: no deletes
    useless_deletes: int = 0  # number of these that are safe to drop
    now_ms: int = 0  # when the table was looked at; ages are counted from here
    commits: pa.Table | None = None  # COMMITS; None: not looked up
    shape: TableShape | None = None  # None: not looked up
    unwritable_specs: frozenset[int] = frozenset()  # partition specs that new files cannot have
    unsupported: tuple[str, ...] = ()  # reasons why the table must not be rewritten
    past: RewritePast | None = None  # last rewrites; None: not looked up, and nothing counts as rewritten
