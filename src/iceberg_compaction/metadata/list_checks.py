"""Whether a manifest list is the whole list of its snapshot. Avro tells a file that was cut within a block, but not one
that was cut between two of them, nor one that was exchanged; what such a list lacks would look as if nobody needed it.
A snapshot tells in its summary how many files it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.formats.avro import container
    from iceberg_compaction.metadata.reach.avro_bulk import BulkFile

COUNTS = ("added", "existing", "deleted")  # files that each entry counts
_LIVE = COUNTS[:2]
_ID = "snapshot-id"  # in the header of a list
_FULL = 32  # entries of a block after which there may be another: Iceberg Java's have 64,000 bytes
_TOTALS = {0: ("total-data-files", "data"), 1: ("total-delete-files", "delete")}  # by the content of manifests


def check_header(file: BulkFile, parsed: container.Container) -> None:
    """MetadataError: the list says that it is the one of another snapshot."""
    stated = parsed.metadata.get(_ID)
    if file.snapshot is not None and stated is not None and stated != str(file.snapshot.snapshot_id).encode():
        raise errors.MetadataError(
            f"{file.where} is the list of another snapshot, {stated.decode(errors='replace')}; nothing may be decided "
            "by it."
        )


def check_counts(files: Sequence[BulkFile], parsed: Sequence[container.Container], entries: pa.Table) -> None:
    """MetadataError: a list has fewer files than its snapshot, and may have been cut. `entries` are those of all lists
    in a row. A list that does not count its files, or a snapshot that does not, says nothing."""
    if not any(file.snapshot for file in files):
        return
    live = files_of(entries, _LIVE)
    content = entries["content"] if "content" in entries.column_names else None
    of_content = np.zeros(entries.num_rows, np.int64) if content is None else pc.fill_null(content, 0).to_numpy()
    ends = np.cumsum([0, *(each.rows for each in parsed)])
    untold = _sums(pc.is_null(live).to_numpy(), ends)
    counts = pc.fill_null(live, 0).to_numpy()
    for number, (total, word) in _TOTALS.items():
        listed = _sums(np.where(of_content == number, counts, 0), ends)
        for file, each, has, gaps in zip(files, parsed, listed.tolist(), untold.tolist(), strict=True):
            stated = _stated(file.snapshot, total)
            if not gaps and has < stated and _may_be_cut(each):
                raise errors.MetadataError(
                    f"{file.where} lists {has:,} {word} files, but the snapshot has {stated:,} by its summary; it may "
                    "be cut short, so that nothing may be decided by it."
                )


def _may_be_cut(parsed: container.Container) -> bool:
    """Whether there may have been further blocks. Writers begin another one only when a block is full, and summaries
    of whole lists can be wrong: writers that drop a file which a table has twice count it once."""
    return not len(parsed.counts) or int(parsed.counts[-1]) >= _FULL


def files_of(entries: pa.Table, kinds: Sequence[str]) -> pa.ChunkedArray:
    """How many files each entry of a list counts; null where it does not."""
    total = pa.chunked_array([pa.repeat(pa.scalar(0, pa.int64()), entries.num_rows)])
    for each in kinds:
        stated = [entries[name].cast(pa.int64()) for name in (each, f"{each}_data") if name in entries.column_names]
        total = pc.add(total, stated[0] if stated else pa.scalar(None, pa.int64()))
    return total


def _sums(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The sum of the values between each two ends."""
    return np.diff(np.concatenate(([0], np.cumsum(values, dtype=np.int64)))[ends])


def _stated(snapshot: Snapshot | None, total: str) -> int:
    """What the summary says; 0: nothing, or nothing that is a number."""
    if snapshot is None or snapshot.summary is None:
        return 0
    text = snapshot.summary.additional_properties.get(total, "")
    return int(text) if text.isascii() and text.isdigit() else 0
