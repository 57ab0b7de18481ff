"""Iceberg Java in the race lab: it compacts the table as its users do, and reads every tenth snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.factories import java
from tests.lab import race_writers as writers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.lab.race_writers import Place

_TABLE = f"lake.{writers.NAME}"
# With the starting sequence number, which is Java's default, its commit may drop equality deletes that rows still need
# (R3, apache/iceberg#10312): that would revive rows, and not by our fault.
_CALL = f"""
call lake.system.rewrite_data_files(table => '{writers.NAME}', options => map(
  'min-input-files', '3', 'partial-progress.enabled', 'true', 'partial-progress.max-failed-commits', '100',
  'use-starting-sequence-number', 'false'))
"""


def work(place: Place, pause: float, least: int) -> None:
    """Compact and read in turns until the time is up."""
    from py4j.protocol import Py4JJavaError

    session = _session(place)
    seen: set[int] = set()
    for _, _ in place.turns("java", least, pause):
        try:
            done = session.sql(_CALL).collect()[0]
            result = "landed" if done["rewritten_data_files_count"] else "nothing"
            result = "failed groups" if done["failed_data_files_count"] else result
        except Py4JJavaError as error:
            result = f"conflict: {str(error.java_exception)[:120]}"
        except Exception as error:  # noqa: BLE001 - Spark's own translations of the same
            result = f"conflict: {str(error)[:120]}"
        place.log("java", op="java", result=result)
        _read(place, session, seen)
    session.stop()


def read_last(place: Place) -> None:
    """Everything that is still there, and the table as it is in the end."""
    session = _session(place)
    _read(place, session, set(), also=place.table().current_snapshot())
    session.stop()


def _session(place: Place) -> SparkSession:
    return java.session(place.folder, cores=1)


def _read(place: Place, session: SparkSession, seen: set[int], also: Any = None) -> None:
    for snapshot in place.table().snapshots():
        sequence = snapshot.sequence_number or 0
        chosen = sequence % writers.EVERY == 0 or (also is not None and snapshot.snapshot_id == also.snapshot_id)
        if not chosen or sequence in seen:
            continue
        seen.add(sequence)
        try:
            found = session.read.option("versionAsOf", snapshot.snapshot_id).table(_TABLE).collect()
        except Exception as error:
            if "Cannot find snapshot" in str(error):
                continue  # it has expired meanwhile
            raise
        rows = sorted((row["id"], row["day"], row["name"]) for row in found)
        place.log("java-read", op="read", by="java", sequence=sequence, rows=rows)
