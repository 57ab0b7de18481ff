"""Expiry of half of a table's 10,000 snapshots, with 200,000 data files that exist and are deleted; and the same by
Iceberg Java's `expire_snapshots`. Each snapshot adds a manifest of 20 files and drops the oldest of 50, as a stream of
appends with a retention of its own does. Each side works on the same files, linked anew for it."""

from __future__ import annotations

import contextlib
import resource
import shutil
import sqlite3
import subprocess
import tempfile
import time
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from iceberg_compaction.formats.avro import container

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

SNAPSHOTS, QUICK_SNAPSHOTS = 10_000, 1000
FILES, LIVE = 20, 50  # files of each snapshot, and manifests that it keeps
REACH = 5.0
ONE_ROUND = 150.0  # seconds
NAME = "db.stream"
_SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
_METADATA = "00001-7a2d1b60-52c0-4b1c-8a9c-3f0a5b6c7d8e.metadata.json"
_STEP_MS = 60_000
_FIRST_MS = 1_700_000_000_000


def bars(quick: bool) -> list[dict[str, Any]]:
    """The ratio of both sides, the better of two rounds of each."""
    snapshots = QUICK_SNAPSHOTS if quick else SNAPSHOTS
    with tempfile.TemporaryDirectory() as folder:
        lake, kept = Path(folder) / "lake", Path(folder) / "kept"
        began = time.perf_counter()
        make(lake, snapshots)
        subprocess.run(["cp", "-al", str(lake / "db"), str(kept)], check=True)
        print(f"  {snapshots:,} snapshots of {snapshots * FILES:,} files made in {time.perf_counter() - began:.0f} s")
        own, counts = zip(*(_fresh(lake, kept, lambda: ours(lake, snapshots)) for _ in range(2)), strict=True)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"  this product {min(own):.2f} s {counts[0]}, {memory} MB at most", flush=True)
        java, theirs = javas(lake, kept, snapshots)
    print(f"  Iceberg Java {min(java):.2f} s {theirs}, the better of {len(java)}")
    ratio = round(min(java) / min(own), 1)
    name = f"expire {snapshots // 2:,} of {snapshots:,} snapshots, {snapshots * FILES:,} files, x Java"
    return [
        {"name": name, "value": ratio, "reach": f">= {REACH:g}", "ok": ratio >= REACH and counts[0] == theirs},
        {"name": "memory of that, MB", "value": memory, "reach": "<= 1000", "ok": memory <= 1000},
    ]


def make(lake: Path, snapshots: int) -> None:
    """The table, from metadata alone; data files have one byte."""
    lake.mkdir(parents=True)
    catalog = connect(lake)
    catalog.create_namespace("db")
    table = catalog.create_table(NAME, _SCHEMA, properties={"format-version": "2"})
    folder = Path(table.location().removeprefix("file://"))
    (folder / "data").mkdir(parents=True)
    with futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: _touch(folder, number), range(snapshots)))
    manifests = [_manifest(table, number) for number in range(snapshots)]
    entries = [_list_entry(table, number, manifest) for number, manifest in enumerate(manifests)]
    header = container.header({**entries[0].metadata, container.CODEC: b"deflate"}, entries[0].sync)
    records = [_record(entry) for entry in entries]
    made = [_snapshot(table, number, header, entries[0].sync, records) for number in range(snapshots)]
    _publish(table, made)
    catalog.close()


def connect(lake: Path) -> SqlCatalog:
    return SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}")


def ours(lake: Path, snapshots: int) -> tuple[float, list[int]]:
    from iceberg_compaction import Compactor
    from iceberg_compaction.settings import CatalogSettings

    settings = CatalogSettings(name="lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}")
    compactor = Compactor(settings, engine="inline")
    began = time.perf_counter()
    older_than = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime((_FIRST_MS + snapshots // 2 * _STEP_MS) / 1000))
    outcome = compactor.expire_snapshots(NAME, older_than=older_than)
    seconds = time.perf_counter() - began
    assert outcome.kind.value == "maintained", outcome.sentence
    figures = outcome.figures
    return seconds, [figures.get(name, 0) for name in ("data-files", "manifests", "manifest-lists")]


def javas(lake: Path, kept: Path, snapshots: int) -> tuple[list[float], list[int]]:
    """Seconds of one or two rounds in a warm session, and the files that it deleted."""
    from tests.factories import java

    session = java.session(lake)
    older_than = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime((_FIRST_MS + snapshots // 2 * _STEP_MS) / 1000))
    call = f"call lake.system.expire_snapshots(table => '{NAME}', older_than => timestamp '{older_than}')"

    def expire() -> tuple[float, list[int]]:
        session.sql(f"select count(*) from lake.{NAME}.refs").collect()
        began = time.perf_counter()
        row = session.sql(call).collect()[0].asDict()
        names = ("deleted_data_files_count", "deleted_manifest_files_count", "deleted_manifest_lists_count")
        return time.perf_counter() - began, [int(row[name]) for name in names]

    rounds = [_fresh(lake, kept, expire)]
    if rounds[0][0] < ONE_ROUND:  # a second round is in a warmer JVM, but must not take the rest of the day
        rounds.append(_fresh(lake, kept, expire))
    session.stop()
    return [seconds for seconds, _ in rounds], rounds[0][1]


def _fresh(lake: Path, kept: Path, act: Callable[[], tuple[float, list[int]]]) -> tuple[float, list[int]]:
    """Act on the table as it was made. The catalog's file stays, as a session may have it open."""
    shutil.rmtree(lake / "db")
    subprocess.run(["cp", "-al", str(kept), str(lake / "db")], check=True)
    with contextlib.closing(sqlite3.connect(lake / "catalog.db")) as database, database:
        location = f"file://{lake}/db/stream/metadata/{_METADATA}"
        database.execute("update iceberg_tables set metadata_location = ?", (location,))
    return act()


def _path(number: int, file: int) -> str:
    return f"data/{number:06d}-{file:02d}-5f3c8a10-7f7e-4f3a-9a55-0c2d5c1d2e3f.parquet"


def _touch(folder: Path, number: int) -> None:
    for file in range(FILES):
        (folder / _path(number, file)).write_bytes(b"x")


def _manifest(table: Table, number: int) -> ManifestFile:
    output = table.io.new_output(f"{table.location()}/metadata/{number:06d}-m0.avro")
    writer = write_manifest(2, UNPARTITIONED_PARTITION_SPEC, _SCHEMA, output, number + 1, "deflate")
    with writer:
        for file in range(FILES):
            data_file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"{table.location()}/{_path(number, file)}",
                file_format=FileFormat.PARQUET,
                partition=Record(),
                record_count=1,
                file_size_in_bytes=1,
            )
            data_file.spec_id = 0
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=number + 1, data_file=data_file
            )
            writer.add_entry(entry)
    return writer.to_manifest_file()


def _list_entry(table: Table, number: int, manifest: ManifestFile) -> container.Container:
    """A manifest list of this manifest alone, whose one record is used in many lists."""
    path = f"{table.location()}/metadata/entry.avro"
    output = table.io.new_output(path)
    with write_manifest_list(2, output, number + 1, number or None, number + 1, "null") as writer:
        writer.add_manifests([manifest])
    with table.io.new_input(path).open() as stream:
        parsed = container.parse(stream.read())
    Path(path.removeprefix("file://")).unlink()
    return parsed


def _record(entry: container.Container) -> bytes:
    start = container.get_long(entry.data, container.get_long(entry.data, int(entry.starts[0]))[1])[1]
    return entry.data[start : int(entry.ends[0]) - container.SYNC_SIZE]


def _snapshot(table: Table, number: int, header: bytes, sync: bytes, records: list[bytes]) -> Snapshot:
    path = f"{table.location()}/metadata/snap-{number + 1}.avro"
    live = records[max(0, number + 1 - LIVE) : number + 1]
    body = container.compressor("deflate")(b"".join(live))
    Path(path.removeprefix("file://")).write_bytes(header + container.block(len(live), body, sync))
    return Snapshot(
        snapshot_id=number + 1,
        parent_snapshot_id=number or None,
        sequence_number=number + 1,
        timestamp_ms=_FIRST_MS + number * _STEP_MS,
        manifest_list=path,
        summary=Summary(Operation.APPEND),
        schema_id=0,
    )


def _publish(table: Table, snapshots: list[Snapshot]) -> None:
    last = snapshots[-1]
    metadata = table.metadata.model_copy(
        update={
            "snapshots": snapshots,
            "current_snapshot_id": last.snapshot_id,
            "last_sequence_number": last.sequence_number,
            "last_updated_ms": last.timestamp_ms,
            "refs": {"main": SnapshotRef(snapshot_id=last.snapshot_id, snapshot_ref_type=SnapshotRefType.BRANCH)},
            "snapshot_log": [
                SnapshotLogEntry(snapshot_id=each.snapshot_id, timestamp_ms=each.timestamp_ms) for each in snapshots
            ],
        }
    )
    location = f"{table.location()}/metadata/{_METADATA}"
    ToOutputFile.table_metadata(metadata, table.io.new_output(location))
    table.catalog.drop_table(table.name())
    table.catalog.register_table(table.name(), location)
