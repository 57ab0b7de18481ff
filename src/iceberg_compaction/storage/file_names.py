"""The names of all files that runs write, and the way back from a name to its run. Names never change their form: files
of older versions must be recognised. A path's folders say nothing; only its last part is a name."""

from __future__ import annotations

import re
import secrets
import uuid
from dataclasses import dataclass

_RUN_ID = re.compile(r"[0-9a-f]{32}")
_UUID = re.compile(r"-[0-9a-fA-F-]{36}(?=[^/]*$)")
_SHARED = 24  # hex digits of a metadata file's UUID that are the run's; the rest tells attempts apart
_TABLE_METADATA = ".metadata.json"  # with or without .gz, before or after it


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileNames:
    """The names of the files of one task attempt. A location provider may leave the partition out of a path, so an
    attempt with several partitions has their numbers in the names. Those of delete files end as Iceberg's own do."""

    task_id: int
    attempt: str
    run_id: str
    partition_number: int | None = None
    deletes: bool = False

    def name(self, number: int) -> str:
        partition = "" if self.partition_number is None else f"-p{self.partition_number:05d}"
        kind = "-deletes" if self.deletes else ""
        return f"{self.task_id:05d}-{self.attempt}-{self.run_id}{partition}-{number:05d}{kind}.parquet"


def manifest(run_id: str, number: int, *, snapshot_id: int | None = None) -> str:
    """With the snapshot's id where a run commits several snapshots, each with numbers of its own."""
    return f"{run_id}-m{number}.avro" if snapshot_id is None else f"{run_id}-{snapshot_id}-m{number}.avro"


def manifest_list(run_id: str, number: int, *, snapshot_id: int) -> str:
    return f"snap-{snapshot_id}-{number}-{run_id}.avro"


def partition_statistics(run_id: str, *, snapshot_id: int) -> str:
    """As Iceberg's own begin."""
    return f"partition-stats-{snapshot_id}-{run_id}.parquet"


def statistics(run_id: str, *, snapshot_id: int) -> str:
    return f"{snapshot_id}-{run_id}.stats"


def is_statistics(path: str) -> bool:
    name = base_name(path)
    return name.startswith("partition-stats-") or name.endswith(".stats")


def table_metadata(location: str, run_id: str) -> str:
    """The location that a catalog chose, with the run's id in the UUID of its name, as far as there is room; the rest
    of the UUID is random."""
    digits = run_id[:_SHARED] + secrets.token_hex((32 - _SHARED) // 2)
    return _UUID.sub(f"-{_dashed(digits)}", location)


def base_name(path: str) -> str:
    return path.rpartition("/")[2]


def is_table_metadata(path: str) -> bool:
    return _TABLE_METADATA in base_name(path)


def is_distinct(run_id: str) -> bool:
    """Whether no file of anybody else can have this id in its name."""
    return _RUN_ID.fullmatch(run_id) is not None


def marks(run_id: str) -> tuple[str, ...]:
    """The two texts of which every name of the run's files has one, and no other name has any."""
    return (run_id, _dashed(run_id[:_SHARED]))


def is_of_run(path: str, run_id: str) -> bool:
    return any(mark in base_name(path) for mark in marks(run_id))


def _dashed(digits: str) -> str:
    """The first digits of a UUID, at least 20 of them, as they are written."""
    return str(uuid.UUID(digits.ljust(32, "0")))[: len(digits) + 4]
