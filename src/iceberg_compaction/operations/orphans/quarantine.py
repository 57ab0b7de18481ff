"""The quarantine of a table: a hidden folder in which orphans wait. Manifest files say, line by line in JSON, where
each file came from. A manifest is written before the first of its files is touched; a file is copied, the size of the
copy is checked, once more right before the original goes, and only then that is removed. So whenever a run dies, every
file is at its own path, or in quarantine and in a manifest, or both. Names in quarantine are numbers: recovery must not
take them for files of a run."""

from __future__ import annotations

import enum
import logging
import re
from concurrent import futures
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from iceberg_compaction import errors
from iceberg_compaction.metadata import fetch
from iceberg_compaction.model.value import Count, Value
from iceberg_compaction.storage import file_names, passing_faults, redact, remove, store_trouble, translate
from iceberg_compaction.storage.tree import copy_file, path_forms, walk_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

    from iceberg_compaction.model.orphan_plan import OrphanFiles

FOLDER = ".iceberg-compaction-quarantine"
_MANIFEST = re.compile(r"manifest-\d+\.jsonl")
_ENDING = re.compile(r"\.[A-Za-z0-9.]{1,24}$")
_THREADS = 8
_log = logging.getLogger(__name__)


class Return(enum.Enum):
    """What has become of a file that was to come back."""

    BACK = "it is at its own path"
    WAITS = "it is at its own path, and a run may be about to remove it from there"
    LOST = "it is neither at its own path nor in quarantine"
    CHANGED = "{path} is there again with other content, and was left alone."
    FOLDER = "A folder is at {path}, and was left alone; rename it and restore again."
    UNWRITTEN = "{path} could not be written; its copy is still in quarantine."


class QuarantinedFile(Value):
    """One line of a manifest."""

    original: str
    moved: str
    size: Count
    modified_ms: int
    quarantined_ms: int
    run_id: str
    table: str
    table_uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineManifest:
    """A manifest, with the time of its file by the clock of the store."""

    path: str
    modified_ms: int | None
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Who brings files, and when."""

    run_id: str
    table: str
    table_uuid: str
    at_ms: int
    confirm: Callable[[OrphanFiles], OrphanFiles]  # those that are orphans still, right before originals go


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedBatch:
    """What became of files that were to go into quarantine."""

    gone: list[str]  # from their own paths, by this move
    left: list[str]  # where they were, with a reason if their copies or the manifest have gone
    absent: int  # were gone before they could be copied: somebody else removes orphans, too


def folder_of(table: Table, given: str | None) -> str:
    """The folder of the table's quarantine."""
    if given is None:
        return f"{table.location().rstrip('/')}/{FOLDER}"
    return f"{given.rstrip('/')}/{table.metadata.table_uuid}"


def check_folder(folder: str, roots: Sequence[str], spellings: path_forms.Spellings) -> None:
    """ConfigError: files in this folder would be orphans again."""
    prefix, path = spellings.split(folder)
    for root in roots:
        store, outer = spellings.split(root)
        if store == prefix and path_forms.is_below(path, outer) and not re.search(r"/[._]", path[len(outer) :]):
            raise errors.ConfigError(
                f"The quarantine {folder} lies in a folder of the table, where its files would be orphans again; "
                "choose one outside, or one whose name begins with a dot."
            )


def put(io: FileIO, folder: str, number: int, files: OrphanFiles, arrival: Arrival) -> MovedBatch:
    """Move the files into quarantine, under the manifest of this number."""
    base = f"{folder}/{arrival.run_id}"
    rows = zip(files.paths, files.sizes, files.modified_ms, strict=True)
    lines = [
        QuarantinedFile(
            original=path,
            moved=f"{base}/{number:05d}-{at:05d}{_ending(path)}",
            size=size,
            modified_ms=modified_ms,
            quarantined_ms=arrival.at_ms,
            run_id=arrival.run_id,
            table=arrival.table,
            table_uuid=arrival.table_uuid,
        )
        for at, (path, size, modified_ms) in enumerate(rows)
    ]
    manifest = f"{base}/manifest-{number:05d}.jsonl"
    _write(io, manifest, lines)
    with futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="quarantine") as pool:
        copied = list(pool.map(lambda line: _copy(io, line.original, line.moved, line.size), lines))
    there = [at for at, is_there in enumerate(copied) if is_there]
    # Copies take time. A copy of a file that is needed by now does no harm.
    confirmed = frozenset(arrival.confirm(files.select(there)).paths)
    uncopied = [line.original for line, is_there in zip(lines, copied, strict=True) if not is_there]
    missed = [path for path in uncopied if not _is_gone(io, path)]
    gone, left = _remove_originals(io, manifest, [line for line in lines if line.original in confirmed])
    return MovedBatch(gone=gone, left=[*missed, *left], absent=len(uncopied) - len(missed))


def _remove_originals(io: FileIO, manifest: str, lines: Sequence[QuarantinedFile]) -> tuple[list[str], list[str]]:
    """Remove the files whose copies are there. Somebody else may have taken copies out of quarantine since they were
    made, by another run store, and with them the manifest, without which nobody finds the copies that are left. So each
    copy is looked at right before its original goes, which leaves the time of one request for that to happen."""
    if not _is_there(io, manifest):
        return [], [_without(line, "manifest") for line in lines]
    with futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="quarantine") as pool:
        left = list(pool.map(lambda line: _remove_original(io, line), lines))
    gone = [line.original for line, reason in zip(lines, left, strict=True) if reason is None]
    return gone, sorted(filter(None, left))


def _remove_original(io: FileIO, line: QuarantinedFile) -> str | None:
    """None: it is gone. Else its path, with the reason if it has no copy any more."""
    if not _is_there(io, line.moved, line.size):
        return _without(line, "copy")
    return next(iter(remove.remove_files(io, [line.original], remove.RemovalProof.ORPHAN)), None)


def _without(line: QuarantinedFile, what: str) -> str:
    return f"{line.original}, whose {what} is not in quarantine any more"


def manifests(io: FileIO, folder: str) -> list[QuarantineManifest]:
    """All manifests of a quarantine, the oldest first."""
    result = []
    for page in walk_files.walk(io, folder, walk_files.StoreTime()):
        for path, modified_ms in zip(page["path"].to_pylist(), page["modified_ms"].to_pylist(), strict=True):
            parts = path.removeprefix(f"{folder.rstrip('/')}/").split("/")
            if len(parts) == 2 and _MANIFEST.fullmatch(parts[1]):
                result.append(QuarantineManifest(path=path, modified_ms=modified_ms, run_id=parts[0]))
    return sorted(result, key=lambda each: (each.modified_ms or 0, each.path))


def read(io: FileIO, manifest: QuarantineManifest, table_uuid: str) -> list[QuarantinedFile]:
    """The files of a manifest. MetadataError: it is damaged, or not one of this table."""
    where = f"The quarantine's manifest {manifest.path}"
    content = fetch.read_bytes(io, manifest.path, where=where)
    try:
        lines = [QuarantinedFile.model_validate_json(line) for line in content.splitlines() if line.strip()]
    except ValidationError as error:
        raise errors.MetadataError(f"{where} is damaged; nothing was done with its files.") from error
    base = manifest.path.rpartition("/")[0]
    for line in lines:
        if line.table_uuid != table_uuid or line.run_id != manifest.run_id:
            raise errors.MetadataError(f"{where} names files of another table or run; nothing was done with them.")
        if line.moved.rpartition("/")[0] != base:
            raise errors.MetadataError(f"{where} names {line.moved}, which is not beside it; nothing was done.")
    return lines


def bring_back(io: FileIO, line: QuarantinedFile, *, is_young: bool) -> Return:
    """Copy a file back to its own path. `is_young`: the run that moves it may still be at work. Then a file at its own
    path is about to go from there, and its copy and manifest are all that will be left of it."""
    try:
        moved, original = _size(io, line.moved), _size(io, line.original)
        if original is None:
            if moved is None:
                return Return.LOST
            return Return.BACK if _copy(io, line.moved, line.original, moved) else Return.UNWRITTEN
        if moved is not None and not (original == moved and copy_file.is_same(io, line.original, line.moved)):
            return Return.CHANGED
    except IsADirectoryError:
        return Return.FOLDER
    return Return.WAITS if is_young else Return.BACK


def _write(io: FileIO, path: str, lines: Sequence[QuarantinedFile]) -> None:
    content = "".join(f"{line.model_dump_json()}\n" for line in lines).encode()
    try:
        with io.new_output(path).create(overwrite=False) as stream:
            stream.write(content)
    except OSError as error:
        trouble = store_trouble.explain_io(error, path, io)
        raise trouble or translate.storage_error(error, path, redact.secrets_of(io.properties)) from error


def _copy(io: FileIO, source: str, target: str, size: int) -> bool:
    try:
        copy_file.copy(io, source, target, size)
    except Exception as error:  # noqa: BLE001 - stores raise errors of any kind, and the file stays where it is
        _log.warning("%s was not copied to %s: %s", source, target, passing_faults.first_line(error))
        return False
    return True


def _is_there(io: FileIO, path: str, size: int | None = None) -> bool:
    """Whether a file is surely there, with so many bytes."""
    try:
        present = _size(io, path)
    except Exception as error:  # noqa: BLE001 - stores raise errors of any kind, and doubt keeps the original
        _log.warning("%s could not be looked at: %s", path, passing_faults.first_line(error))
        return False
    return present is not None and size in (None, present)


def _is_gone(io: FileIO, path: str) -> bool:
    """Whether a file is surely not there."""
    try:
        return _size(io, path) is None
    except Exception as error:  # noqa: BLE001 - stores raise errors of any kind
        _log.warning("%s could not be looked at: %s", path, passing_faults.first_line(error))
        return False


def _size(io: FileIO, path: str) -> int | None:
    """None: there is no such file. IsADirectoryError: there is a folder."""
    try:
        return passing_faults.patiently(lambda: len(io.new_input(path)))
    except FileNotFoundError:
        return None
    except TypeError as error:  # PyArrow has no size for a folder, and PyIceberg does not expect that
        raise IsADirectoryError(path) from error


def _ending(path: str) -> str:
    match = _ENDING.search(file_names.base_name(path))
    return match[0] if match else ""


def batches(count: int, size: int) -> Iterator[range]:
    """Numbers in ranges of a size."""
    return (range(start, min(start + size, count)) for start in range(0, count, size))
