"""Tables of any number of files, made of metadata alone: 20 columns with full metrics, a day and a tenant as partition,
distinct paths, manifests of about 8 MB in Iceberg's own block size. No data file exists. Columns come from NumPy and go
through our own Avro encoder, so that a million entries take seconds."""

from __future__ import annotations

import secrets
from concurrent import futures
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    ManifestContent,
    ManifestFile,
    construct_partition_summaries,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record

from iceberg_compaction.formats.avro import avro_encode, container
from iceberg_compaction.metadata.manifest import entry_fields, written_manifests

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

NAME = "bench.events"
COLUMNS, PER_MANIFEST = 20, 12_500
FILES_PER_DAY, TENANTS, FIRST_DAY, DAY_US = 400, 50, 19_000, 86_400_000_000
DATA = "s3://my-warehouse-bucket/warehouse/analytics.db/events/data"  # where no file is
FILE_PATH_ID = 2147483546  # reserved: the path column of position delete files
SCHEMA = Schema(
    types.NestedField(1, "ts", types.TimestampType(), required=False),
    types.NestedField(2, "tenant", types.StringType(), required=False),
    *(
        types.NestedField(i, f"c{i}", types.LongType() if i % 2 else types.StringType(), required=False)
        for i in range(3, COLUMNS + 1)
    ),
)
SPEC = PartitionSpec(
    PartitionField(1, 1000, DayTransform(), "ts_day"), PartitionField(2, 1001, IdentityTransform(), "tenant")
)
_PAIRS = pa.struct([pa.field("key", pa.int32(), False), pa.field("value", pa.int64(), False)])
_BOUNDS = pa.struct([pa.field("key", pa.int32(), False), pa.field("value", pa.binary(), False)])


@dataclass(frozen=True, slots=True)
class _Piece:
    """One manifest: files `first` to `last`, and whether they are delete files."""

    first: int
    last: int
    deletes: bool = False


def connect(root: Path) -> Catalog:
    """The catalog that `make` leaves in the folder."""
    return SqlCatalog("lake", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")


def make(root: Path, files: int, *, deletes: int = 0) -> Table:
    """A table NAME with so many live data files, and delete files over them: two of five position deletes of one file,
    two of many files, one of equality. Deletes are newer than the files."""
    root.mkdir(parents=True, exist_ok=True)
    catalog = connect(root)
    catalog.create_namespace("bench")
    table = catalog.create_table(NAME, SCHEMA, partition_spec=SPEC, properties={"format-version": "2"})
    return append(table, [*_pieces(0, files), *_pieces(0, deletes, deletes=True)])


def append_files(table: Table, first: int, count: int) -> Table:
    """One more commit of new data files, numbered from `first`."""
    return append(table, _pieces(first, count))


def append_deletes(table: Table, count: int) -> Table:
    """One more commit of delete files for the first data files."""
    return append(table, _pieces(0, count, deletes=True))


def _pieces(first: int, count: int, *, deletes: bool = False) -> list[_Piece]:
    starts = range(first, first + count, PER_MANIFEST)
    return [_Piece(start, min(start + PER_MANIFEST, first + count), deletes) for start in starts]


def append(table: Table, pieces: list[_Piece]) -> Table:
    """Commit a snapshot with these manifests before the table's own ones."""
    metadata, io, head = table.metadata, table.io, table.current_snapshot()
    snapshot_id, sequence = metadata.new_snapshot_id(), metadata.next_sequence_number()
    with futures.ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(lambda piece: _write(table, piece, snapshot_id), pieces))
    location = f"{table.location()}/metadata/snap-{snapshot_id}.avro"
    parent = head.snapshot_id if head else None
    with write_manifest_list(2, io.new_output(location), snapshot_id, parent, sequence, "gzip") as writer:
        writer.add_manifests([*rows, *(head.manifests(io) if head else [])])
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent,
        manifest_list=location,
        sequence_number=sequence,
        summary=Summary(operation=Operation.APPEND),
        schema_id=metadata.current_schema_id,
    )
    table.catalog.commit_table(
        table,
        (AssertRefSnapshotId(ref="main", snapshot_id=parent),),
        (
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate(snapshot_id=snapshot_id, ref_name="main", type=SnapshotRefType.BRANCH),
        ),
    )
    return table.catalog.load_table(NAME)


def _write(table: Table, piece: _Piece, snapshot_id: int) -> ManifestFile:
    layout = entry_fields.ManifestLayout(spec=table.spec(), schema=table.schema(), format_version=2)
    rows, days, tenants = _entries(piece, snapshot_id)
    avro, sync = entry_fields.avro_schema(layout), secrets.token_bytes(container.SYNC_SIZE)
    metadata = written_manifests.header_metadata(layout, avro, "deflate")
    metadata["content"] = b"deletes" if piece.deletes else b"data"
    path = f"{table.location()}/metadata/{secrets.token_hex(16)}-m0.avro"
    parts = [container.header(metadata, sync), *avro_encode.blocks(avro, rows, "deflate", sync)]
    length = written_manifests.write_bytes(table.io, path, parts)
    count, total = rows.num_rows, pc.sum(pc.struct_field(rows["data_file"], "record_count")).as_py()
    corners = [
        Record(int(days.min()), f"tenant{tenants.min():03d}"),
        Record(int(days.max()), f"tenant{tenants.max():03d}"),
    ]
    return ManifestFile.from_args(
        manifest_path=path,
        manifest_length=length,
        partition_spec_id=table.spec().spec_id,
        content=ManifestContent.DELETES if piece.deletes else ManifestContent.DATA,
        sequence_number=-1,
        min_sequence_number=-1,
        added_snapshot_id=snapshot_id,
        added_files_count=count,
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=total,
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=construct_partition_summaries(table.spec(), table.schema(), corners),
        key_metadata=None,
    )


def _entries(piece: _Piece, snapshot_id: int) -> tuple[pa.Table, NDArray[Any], NDArray[Any]]:
    """The manifest's rows, and the day and tenant of each."""
    numbers = np.arange(piece.first, piece.last)
    random = np.random.default_rng([piece.first, piece.deletes])
    days, tenants = FIRST_DAY + numbers // FILES_PER_DAY % 365, numbers * 7 % TENANTS
    count = len(numbers)
    records = random.integers(10, 1_000, count) if piece.deletes else random.integers(1_000, 200_000, count)
    sizes = records * 100
    fields: dict[str, Any] = {
        "content": pa.repeat(pa.scalar(0, pa.int32()), count),
        "file_path": _paths(numbers, days, tenants, "deletes" if piece.deletes else "00001"),
        "file_format": pa.repeat(pa.scalar("PARQUET"), count),
        "partition": pa.StructArray.from_arrays([pa.array(days, pa.int32()), _tenant_names(tenants)], list(_names())),
        "record_count": pa.array(records),
        "file_size_in_bytes": pa.array(sizes),
        "split_offsets": pa.array([[4]] * count, pa.list_(pa.int64())),
        "sort_order_id": pa.repeat(pa.scalar(0, pa.int32()), count),
    }
    fields |= _delete_fields(numbers, days, tenants) if piece.deletes else _metrics(random, days, records, sizes)
    table = {
        "status": pa.repeat(pa.scalar(entry_fields.ADDED, pa.int32()), count),
        "snapshot_id": pa.repeat(pa.scalar(snapshot_id, pa.int64()), count),
        "data_file": pa.StructArray.from_arrays(list(fields.values()), list(fields)),
    }
    return pa.table(table), days, tenants


def _names() -> tuple[str, ...]:
    return tuple(field.name for field in SPEC.fields)


def _paths(numbers: NDArray[Any], days: NDArray[Any], tenants: NDArray[Any], ending: str) -> pa.Array:
    """About 150 characters, the same for the same number."""
    digests = np.random.default_rng(7).integers(0, 2**63, 4, np.uint64)
    hexes = [
        pa.array([f"{value:016x}" for value in (numbers.astype(np.uint64) + 1) * factor]) for factor in digests[:2]
    ]
    day_texts = pa.array(days, pa.int32()).cast(pa.date32()).cast(pa.string())
    return pc.binary_join_element_wise(
        f"{DATA}/ts_day=",
        day_texts,
        "/tenant=",
        _tenant_names(tenants),
        "/",
        pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 7, "0"),
        "-13-",
        *hexes,
        f"-{ending}.parquet",
        "",
    )


def _tenant_names(tenants: NDArray[Any]) -> pa.Array:
    return pa.array([f"tenant{number:03d}" for number in range(TENANTS)]).take(pa.array(tenants))


def _metrics(
    random: np.random.Generator, days: NDArray[Any], records: NDArray[Any], sizes: NDArray[Any]
) -> dict[str, pa.Array]:
    count = len(days)
    keys = np.arange(1, COLUMNS + 1)
    starts = days * DAY_US + random.integers(0, DAY_US // 2, count)
    return {
        "column_sizes": _pairs(keys, sizes[:, None] // COLUMNS + random.integers(0, 999, (count, COLUMNS))),
        "value_counts": _pairs(keys, np.repeat(records[:, None], COLUMNS, axis=1)),
        "null_value_counts": _pairs(keys, random.integers(0, 9, (count, COLUMNS))),
        "nan_value_counts": pa.array([[]] * count, pa.list_(_PAIRS)),
        "lower_bounds": _bounds(random, starts),
        "upper_bounds": _bounds(random, starts + random.integers(0, DAY_US // 2, count)),
    }


def _pairs(keys: NDArray[Any], values: NDArray[Any]) -> pa.Array:
    flat = [pa.array(np.tile(keys, len(values)), pa.int32()), pa.array(values.ravel(), pa.int64())]
    items = pa.StructArray.from_arrays(flat, fields=list(_PAIRS))
    return pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1) * len(keys), pa.int32()), items)


def _bounds(random: np.random.Generator, times: NDArray[Any]) -> pa.Array:
    """Eight bytes for times and numbers, sixteen characters for text."""
    widths = [16 if isinstance(field.field_type, types.StringType) else 8 for field in SCHEMA.fields]
    matrix = random.choice(np.frombuffer(b"0123456789abcdef", np.uint8), (len(times), sum(widths)))
    matrix[:, :8] = times.astype("<i8").view(np.uint8).reshape(-1, 8)
    for start, width in zip(np.cumsum([0, *widths]), widths, strict=False):
        if start and width == 8:
            matrix[:, start : start + 8] &= 0x3F  # any number does
    offsets = np.concatenate([[0], np.cumsum(np.tile(widths, len(times)))]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(matrix))]
    values = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    keys = pa.array(np.tile(np.arange(1, COLUMNS + 1), len(times)), pa.int32())
    items = pa.StructArray.from_arrays([keys, values], fields=list(_BOUNDS))
    return pa.ListArray.from_arrays(pa.array(np.arange(len(times) + 1) * COLUMNS, pa.int32()), items)


def _delete_fields(numbers: NDArray[Any], days: NDArray[Any], tenants: NDArray[Any]) -> dict[str, pa.Array]:
    kinds = numbers % 5  # 0, 1: positions in one file; 2, 3: in any of the partition; 4: equality
    paths = _paths(numbers, days, tenants, "00001").to_pylist()
    others = [f"{path[:-8]}~" for path in paths]
    lower = [[{"key": FILE_PATH_ID, "value": path.encode()}] for path in paths]
    upper = [
        [{"key": FILE_PATH_ID, "value": (path if kind < 2 else other).encode()}]
        for path, other, kind in zip(paths, others, kinds, strict=True)
    ]
    equality = pa.array([[3] if kind == 4 else None for kind in kinds], pa.list_(pa.int32()))
    return {
        "content": pa.array(np.where(kinds == 4, 2, 1), pa.int32()),
        "lower_bounds": pa.array(lower, pa.list_(_BOUNDS)),
        "upper_bounds": pa.array(upper, pa.list_(_BOUNDS)),
        "equality_ids": equality,
    }
