"""What became of a dead run's last snapshot, as the run's own catalog entry tells (R48). That another one has its place
proves that it did not land and never will (R49); time proves nothing, nor does absence: a snapshot that is not there
may have landed and left the table since, and another entry may have it still."""

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
_MOST_LINES = 500  # to read


class Fate(enum.Enum):
    """Of all that a run was about to publish."""

    SETTLED = enum.auto()  # it was nothing, or the table has it
    REPLACED = enum.auto()  # as SETTLED, except that in this table another has the place of the last snapshot
    PENDING = enum.auto()  # the last snapshot has not landed, but may yet
    UNKNOWN = enum.auto()  # nobody can tell


def judge(attempt: Attempt | None, metadata: TableMetadata) -> Fate:
    """From the metadata of the entry that the run worked on."""
    if attempt is None:
        return Fate.SETTLED
    known = {one.snapshot_id for one in metadata.snapshots}
    if not known.issuperset(attempt.landed):
        return Fate.UNKNOWN
    if attempt.snapshot_id is None or attempt.snapshot_id in known:
        return Fate.SETTLED  # a change without a snapshot has no files but table metadata
    number = attempt.sequence_number or 0
    if not number:  # format version 1: the branch may come back to the parent at any time
        ref = next((ref for ref in metadata.refs.values() if ref.snapshot_id == attempt.parent_snapshot_id), None)
        return Fate.UNKNOWN if ref is None else Fate.PENDING
    if metadata.next_sequence_number() <= number:
        return Fate.PENDING
    taken = any(one.sequence_number == number for one in metadata.snapshots)
    # Without its parent the table may have been put back to a state before it, and the number given away twice.
    return Fate.REPLACED if taken and attempt.parent_snapshot_id in known else Fate.UNKNOWN


def is_torn(io: FileIO, path: str) -> bool:
    """Whether the table metadata was never written to its end. Any other may be all that some catalog entry has."""
    try:
        return _read(io, path) is None
    except errors.CompactionError:
        return False


def is_nowhere(table: Table, attempt: Attempt, listed: Sequence[Listed], since: float | None) -> bool:
    """Whether the attempt, which is REPLACED in the table, is in no other line of metadata either. A table that is
    registered twice, renamed, or put back to where the attempt set out has several of them, and most often they are in
    the same folder. `listed`: what is in there; `since`: when the run's first file was written."""
    current = _place(table.metadata_location)
    places = {_place(file.path) for file in listed}
    if current not in places or (attempt.metadata and _place(attempt.metadata) not in places):
        return False  # metadata is somewhere else, where it cannot be listed, or it was and is removed
    own = {current, *(_place(entry.metadata_file) for entry in table.metadata.metadata_log)}
    lines = [
        file
        for file in listed
        if file_names.is_table_metadata(file.name) and _place(file.path) not in own and _is_younger(file, since)
    ]
    try:
        return len(lines) <= _MOST_LINES and all(_is_taken(_read(table.io, file.path), attempt) for file in lines)
    except (errors.CompactionError, AttributeError, TypeError):  # not to be had, or nothing that anybody understands
        return False


def oldest(files: Iterable[Listed]) -> float | None:
    """When the first of the files was written. None: nobody knows."""
    times = [file.modified for file in files]
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None


def _is_younger(file: Listed, since: float | None) -> bool:
    return file.modified is None or since is None or file.modified >= since - _SLACK_S


def _is_taken(metadata: dict[str, Any] | None, attempt: Attempt) -> bool:
    """Whether the attempt cannot be in this state of the table, nor in any that came before: nobody has its sequence
    number so far, or another snapshot has it."""
    if metadata is None or metadata.get("last-sequence-number", 0) < (attempt.sequence_number or 0):
        return True
    having = [
        one.get("snapshot-id")
        for one in metadata.get("snapshots") or ()
        if one.get("sequence-number") == attempt.sequence_number
    ]
    return bool(having) and attempt.snapshot_id not in having


def _read(io: FileIO, path: str) -> dict[str, Any] | None:
    """Table metadata as it was written, whatever its version; None: it is incomplete."""
    data = fetch.read_bytes(io, path, where=f"Table metadata {path}")
    try:
        found = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (ValueError, EOFError, OSError):
        return None
    except zlib.error as error:
        raise errors.MetadataError(f"Table metadata {path} is damaged.") from error
    return found if isinstance(found, dict) else None


def _place(path: str) -> str:
    """A path without its scheme, which may be written in several ways. The name alone would not do: some catalogs
    number their files, and do so in every folder."""
    return path.removeprefix("file:").partition("://")[2] or "/" + path.removeprefix("file:").lstrip("/")
