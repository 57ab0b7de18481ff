"""Reads metadata files through the table's FileIO: manifest lists as entries, manifests as bytes. A missing or damaged
file is a MetadataError that names it; a store that refuses or is silent is another error."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pyiceberg import manifest as iceberg_manifest

from iceberg_compaction import errors
from iceberg_compaction.storage import passing_faults, redact, store_trouble, translate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.snapshots import Snapshot


def list_manifests(io: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """Reads the snapshot's manifest list, past PyIceberg's own cache, which would keep it for the life of the
    process."""
    where = f"Manifest list {snapshot.manifest_list} of snapshot {snapshot.snapshot_id}"
    if not snapshot.manifest_list:
        raise errors.MetadataError(f"Snapshot {snapshot.snapshot_id} has no manifest list.")
    try:
        with storage_errors(where, io, snapshot.manifest_list):
            location = snapshot.manifest_list
            return passing_faults.patiently(lambda: list(iceberg_manifest.read_manifest_list(io.new_input(location))))
    except errors.CompactionError:
        raise
    except Exception as error:
        raise errors.MetadataError(f"{where} could not be read: it is damaged or not a manifest list.") from error


def read_bytes(io: FileIO, location: str, *, where: str) -> bytes:
    """Reads a whole metadata file. `where` names it in errors."""
    with storage_errors(where, io, location):
        return passing_faults.patiently(lambda: _read(io, location))


def _read(io: FileIO, location: str) -> bytes:
    with io.new_input(location).open() as stream:
        return bytes(stream.read())


@contextlib.contextmanager
def storage_errors(where: str, io: FileIO, location: str) -> Iterator[None]:
    """Turns errors of the store into ours. `where` names the file."""
    try:
        yield
    except Exception as error:
        if not store_trouble.is_of_store(error):
            raise
        trouble = store_trouble.explain_io(error, location, io)
        raise trouble or _of_file(error, where) from translate.safe_cause(error, redact.secrets_of(io.properties))


def _of_file(error: Exception, where: str) -> errors.CompactionError:
    """Our error where the store is well."""
    if isinstance(error, FileNotFoundError):
        return errors.MetadataError(f"{where} is missing.")
    if isinstance(error, PermissionError):
        return errors.UnauthorizedError(f"{where} may not be read with the credentials given.")
    lasting = isinstance(error, passing_faults.LastingFault)
    reason = translate.sentence_of(error) if lasting else type(error).__name__
    return errors.UnreachableError(f"{where} could not be read from storage: {reason}.")
