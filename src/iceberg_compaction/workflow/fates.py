"""Judges from the metadata of a dead run's own catalog entry whether its last snapshot can still land (R48). Another
snapshot with its sequence number proves that it did not land and never will (R49). Time proves nothing, and neither
does absence: an absent snapshot may have landed and expired since, and another entry may still have it."""

from __future__ import annotations

import enum
import gzip
import json
import zlib
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.metadata import fetch
from iceberg_compaction.storage import file_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from iceberg_compaction.model.run_record import Attempt
    from iceberg_compaction.storage.listing import Listed

_SLACK_S = 3600.0  # a store has one clock, but that may be set back
_MAX_FILES = 500  # to read


class Fate(enum.Enum):
    """The state of the commits that a run was about to make."""

    DECIDED = enum.auto()  # there was none, or the table has all of them
    REPLACED = enum.auto()  # in this table, another snapshot has the sequence number of the last one
    PENDING = enum.auto()  # the last snapshot has not landed, but may still land
    UNKNOWN = enum.auto()  # nothing proves either


def judge(attempt: Attempt | None, metadata: TableMetadata) -> Fate:
    """Judge the last attempt from the metadata of the catalog entry that the run worked on."""
    if attempt is None:
        return Fate.DECIDED
    snapshot_ids = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    if not snapshot_ids.issuperset(attempt.landed):
        return Fate.UNKNOWN
    if attempt.snapshot_id is None or attempt.snapshot_id in snapshot_ids:
        return Fate.DECIDED  # of a change without a snapshot, recovery keeps the files: table metadata and statistics
    number = attempt.sequence_number or 0
    if not number:  # format version 1: the branch may come back to the parent at any time
        ref = next((ref for ref in metadata.refs.values() if ref.snapshot_id == attempt.parent_snapshot_id), None)
        return Fate.UNKNOWN if ref is None else Fate.PENDING
    if metadata.next_sequence_number() <= number:
        return Fate.PENDING
    taken = any(snapshot.sequence_number == number for snapshot in metadata.snapshots)
    # Without the parent, the table may have been put back to an earlier state and the number used twice.
    return Fate.REPLACED if taken and attempt.parent_snapshot_id in snapshot_ids else Fate.UNKNOWN


def is_incomplete(io: FileIO, path: str) -> bool:
    """Whether a table metadata file was never written to its end. A complete one may be the only one of a catalog
    entry."""
    try:
        return _read(io, path) is None
    except errors.CompactionError:
        return False


def is_replaced_everywhere(table: Table, attempt: Attempt, listed: Sequence[Listed], since: float | None) -> bool:
    """Whether the attempt, which is REPLACED in the table, is in no other history of it either. A table that is
    registered twice, renamed, or put back to the parent of the attempt has several histories, and most often their
    metadata is in the same folder. `listed`: the files of that folder; `since`: the time of the run's first file."""
    current = _without_scheme(table.metadata_location)
    paths = {_without_scheme(file.path) for file in listed}
    if current not in paths or (attempt.metadata and _without_scheme(attempt.metadata) not in paths):
        return False  # metadata is in another folder that is not listed, or it was removed
    own = {current, *(_without_scheme(entry.metadata_file) for entry in table.metadata.metadata_log)}
    others = [
        file
        for file in listed
        if file_names.is_table_metadata(file.name)
        and _without_scheme(file.path) not in own
        and _is_younger(file, since)
    ]
    try:
        return len(others) <= _MAX_FILES and all(_excludes(_read(table.io, file.path), attempt) for file in others)
    except (errors.CompactionError, AttributeError, TypeError):  # it cannot be read, or has another structure
        return False


def first_modified(files: Iterable[Listed]) -> float | None:
    """The time of the oldest file. None: the store does not give the times of all files."""
    times = [file.modified for file in files]
    given = [time for time in times if time is not None]
    return min(given) if given and len(given) == len(times) else None


def _is_younger(file: Listed, since: float | None) -> bool:
    return file.modified is None or since is None or file.modified >= since - _SLACK_S


def _excludes(metadata: dict[str, Any] | None, attempt: Attempt) -> bool:
    """Whether the attempt can be neither in this state of the table nor in an earlier one: its sequence number is not
    used yet, or another snapshot has it."""
    if metadata is None or metadata.get("last-sequence-number", 0) < (attempt.sequence_number or 0):
        return True
    owners = [
        snapshot.get("snapshot-id")
        for snapshot in metadata.get("snapshots") or ()
        if snapshot.get("sequence-number") == attempt.sequence_number
    ]
    return bool(owners) and attempt.snapshot_id not in owners


def _read(io: FileIO, path: str) -> dict[str, Any] | None:
    """Read table metadata of any format version. None: the file is incomplete."""
    data = fetch.read_bytes(io, path, where=f"Table metadata {path}")
    try:
        content = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (ValueError, EOFError, OSError):
        return None
    except zlib.error as error:
        raise errors.MetadataError(f"Table metadata {path} is damaged.") from error
    return content if isinstance(content, dict) else None


def _without_scheme(path: str) -> str:
    """A path without its scheme, which has several spellings. The file name alone is not enough: some catalogs number
    their files, and do so in every folder."""
    return path.removeprefix("file:").partition("://")[2] or "/" + path.removeprefix("file:").lstrip("/")
