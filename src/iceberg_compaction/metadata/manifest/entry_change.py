"""Turns entries of old manifests into entries of a new one (R10): removed files become DELETED, the other live ones
EXISTING with nothing left to inherit, and entries that were DELETED before are left out. Entries of this very commit
stay as they are. A few columns of the entries come in, one decision per entry goes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata.manifest import entry_fields, written_manifests
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyiceberg.manifest import ManifestFile

    Mask = NDArray[np.bool_]

SLIM = {
    "status": ("status",),
    "snapshot_id": ("snapshot_id",),
    "sequence_number": ("sequence_number",),
    "file_sequence_number": ("file_sequence_number",),
    "content": ("data_file", "content"),
    "file_path": ("data_file", "file_path"),
    "record_count": ("data_file", "record_count"),
    "file_size_in_bytes": ("data_file", "file_size_in_bytes"),
}
_NO_SNAPSHOT = -1  # no snapshot has this id


class Removed:
    """The removed paths, quick to look up for manifests of any size."""

    def __init__(self, paths: pa.Array) -> None:
        self._paths = paths
        self._set = frozenset(paths.to_pylist())

    def among(self, paths: pa.ChunkedArray) -> Mask:
        """Which of these paths are removed."""
        # Arrow hashes all removed paths on each call, which a small manifest cannot repay.
        if len(paths) * 8 < len(self._set):
            return np.fromiter((path in self._set for path in paths.to_pylist()), np.bool_, len(paths))
        return _mask(pc.is_in(paths, value_set=self._paths.cast(paths.type)))


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryOrigin:
    """The manifests that entries come from, one after the other, and how many each has."""

    manifest_files: Sequence[ManifestFile]
    counts: NDArray[np.int64]

    def spread(self, values: Sequence[int]) -> NDArray[np.int64]:
        """Repeats a value of each manifest for each of its entries."""
        return np.repeat(np.array(values, np.int64), self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryChange:
    """A decision about each entry, as parallel columns. An entry that neither stays nor is gone is left out."""

    slim: pa.Table
    stay: Mask  # live from now on
    added: Mask  # of these, ADDED by this commit
    gone: Mask  # DELETED by this commit
    stale: Mask  # does not look as it must from now on
    fields: dict[str, pa.ChunkedArray]  # the entry's own fields, explicit, as they must look

    @property
    def kept(self) -> Mask:
        return self.stay | self.gone

    @property
    def removed(self) -> list[str]:
        """The paths of the files that are gone."""
        paths: list[str] = self.slim["file_path"].filter(pa.array(self.gone)).to_pylist()
        return paths

    @property
    def removed_numbers(self) -> list[int]:
        """The file sequence numbers of the files that are gone, in the same order."""
        numbers: list[int] = self.fields["file_sequence_number"].filter(pa.array(self.gone)).to_pylist()
        return numbers

    @property
    def min_sequence_number(self) -> int | None:
        numbers = self.fields["sequence_number"].to_numpy()[self.stay]
        return int(numbers.min()) if len(numbers) else None

    def slice(self, first: int, count: int) -> EntryChange:
        """The decisions about a slice of the entries."""
        own = slice(first, first + count)
        return EntryChange(
            slim=self.slim.slice(first, count),
            stay=self.stay[own],
            added=self.added[own],
            gone=self.gone[own],
            stale=self.stale[own],
            fields={name: column.slice(first, count) for name, column in self.fields.items()},
        )

    def counts(self, chosen: Mask) -> written_manifests.Counts:
        return written_manifests.Counts(
            files=int(chosen.sum()),
            records=int(self.slim["record_count"].to_numpy()[chosen].sum()),
            bytes=int(self.slim["file_size_in_bytes"].to_numpy()[chosen].sum()),
        )

    def removed_counts(self) -> dict[int, written_manifests.Counts]:
        """The files that are gone, by content. Version 1 does not state it, and has data files only."""
        if "content" not in self.slim.column_names:
            return {table_view.DATA: self.counts(self.gone)}
        content = pc.fill_null(self.slim["content"], table_view.DATA).to_numpy()
        return {int(kind): self.counts(self.gone & (content == kind)) for kind in np.unique(content[self.gone])}


def decide(slim: pa.Table, origin: EntryOrigin, writing: written_manifests.Writing, removed: Removed) -> EntryChange:
    """Decides each entry's status, and makes explicit the fields that it inherits from its manifest."""
    status = slim["status"].to_numpy()
    live = status != entry_fields.DELETED
    added_by = [manifest.added_snapshot_id for manifest in origin.manifest_files]
    adding = origin.spread([_NO_SNAPSHOT if snapshot_id is None else snapshot_id for snapshot_id in added_by])
    snapshot_ids, missing = _stated(slim, "snapshot_id", adding)
    _check_stated(missing & live & (adding == _NO_SNAPSHOT), "snapshot_id", origin)
    mine = snapshot_ids == writing.snapshot_id
    leaving = live & removed.among(slim["file_path"])
    stay = live & ~leaving
    added = stay & mine & (status == entry_fields.ADDED)
    stale = leaving | missing | (stay & ~added & (status != entry_fields.EXISTING))
    fields = {"snapshot_id": _column(np.where(leaving, writing.snapshot_id, snapshot_ids))}
    # Only ADDED entries inherit sequence numbers; all others must state them, except those of format version 1 (0).
    of_version_1 = writing.format_version == 1
    numbers_of = [0 if of_version_1 else manifest.sequence_number for manifest in origin.manifest_files]
    inherited = origin.spread(numbers_of)
    heirs = (status == entry_fields.ADDED) | (inherited == 0)
    for name in ("sequence_number", "file_sequence_number"):
        numbers, missing = _stated(slim, name, inherited)
        _check_stated(missing & live & ~heirs, name, origin)
        # Files that this commit adds get their file sequence number when it is published.
        open_numbers = missing & added & (name == "file_sequence_number")
        fields[name] = _column(numbers, open_numbers)
        stale = stale | (missing & ~open_numbers)
    statuses = np.where(added, entry_fields.ADDED, np.where(stay, entry_fields.EXISTING, entry_fields.DELETED))
    fields["status"] = _column(statuses.astype(np.int32))
    gone = leaving | (~live & mine)
    return EntryChange(slim=slim, stay=stay, added=added, gone=gone, stale=stale, fields=fields)


def _stated(slim: pa.Table, name: str, inherited: NDArray[np.int64]) -> tuple[NDArray[np.int64], Mask]:
    """A column with the inherited value where an entry states none, and a mask of those entries."""
    if name not in slim.column_names:
        return inherited, np.ones(slim.num_rows, np.bool_)
    missing = _mask(slim[name].is_null())
    stated = pc.fill_null(slim[name], 0).to_numpy()
    return np.where(missing, inherited, stated), missing


def _check_stated(wrong: Mask, name: str, origin: EntryOrigin) -> None:
    if wrong.any():
        at = int(np.searchsorted(np.cumsum(origin.counts), int(np.argmax(wrong)), side="right"))
        raise errors.MetadataError(
            f"Manifest {origin.manifest_files[at].manifest_path} has live entries without a {name} that do not inherit "
            "one."
        )


def _column(values: NDArray[np.int64] | NDArray[np.int32], null: Mask | None = None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, mask=null)])


def _mask(column: pa.ChunkedArray) -> Mask:
    mask: Mask = column.to_numpy()
    return mask
