"""Deleted rows by their key. The keys of equality deletes that compare the same fields come in and become an index; for
every batch of a data file it says which rows are deleted. Rows are found by the hash of their key, then compared value
by value, so a hash that two keys share deletes nothing too much."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction.execute.worker.deletes import key_columns
from iceberg_compaction.execute.worker.proof import checksum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

ROW_BYTES = 32  # that the index takes per key while it is built, beside the values
_SLICE = 4 * checksum.CHUNK


class EqualityIndex:
    """Keys in the order of their hashes. The upper bits of a hash say where to look: buckets are so many that most hold
    one key or none. Of equal keys only the newest is kept; it deletes whatever the older ones do."""

    def __init__(self, fields: Sequence[key_columns.KeyField], parts: Sequence[tuple[int, pa.RecordBatch]]) -> None:
        """`parts` are deletes with their sequence number; the columns of a batch are those of the fields, in their own
        types."""
        ordered = sorted(parts, key=lambda part: -part[0])
        self.fields = fields
        self.newest = ordered[0][0]
        self._sequences = np.array([sequence for sequence, _ in ordered], dtype=np.int64)
        self._ends = np.cumsum([batch.num_rows for _, batch in ordered])
        schema = pa.schema([field.stored for field in fields])
        # The keys themselves, a column per field, repeated ones too.
        self.values = [pa.concat_arrays([batch.column(at) for _, batch in ordered]) for at in range(len(fields))]
        self._hashes, self._order = _sorted(
            _hashes(key_columns.KeyColumns(fields, schema), [batch for _, batch in ordered])
        )
        self._drop_repeated()
        size = max(1, len(self._hashes).bit_length())
        self._shift = np.uint64(64 - size)
        counts = np.bincount((self._hashes >> self._shift).view(np.int64), minlength=1 << size)
        self._starts = np.zeros(len(counts) + 1, dtype=np.int32)
        np.cumsum(counts, out=self._starts[1:])

    def _drop_repeated(self) -> None:
        """Of rows with the same hash, which follow one another, keep the first and those that are not equal to it."""
        first = np.append(True, self._hashes[1:] != self._hashes[:-1])
        if first.all():
            return
        heads = np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))
        again = np.flatnonzero(~first)
        mine, other = pa.array(self._order[again]), pa.array(self._order[heads[again]])
        same = key_columns.equal(
            [array.take(mine) for array in self.values], [array.take(other) for array in self.values]
        )
        self._hashes = np.delete(self._hashes, again[same])
        self._order = np.delete(self._order, again[same])

    def find(self, columns: key_columns.KeyColumns, batch: pa.RecordBatch, sequence: int) -> NDArray[np.int64]:
        """The rows of a batch that are deleted, given the data sequence number of its file; in no order, maybe twice.
        Only deletes that are newer than the file reach it."""
        arrays = columns.arrays(batch)
        hashes = columns.hashes(arrays, batch.num_rows)
        rows, slots = [], []
        for start in range(0, batch.num_rows, _SLICE):
            found = self._probe(hashes(start, min(start + _SLICE, batch.num_rows)))
            rows.append(found[0] + start)
            slots.append(found[1])
        candidates, places = np.concatenate(rows), self._order[np.concatenate(slots)]
        reaching = self._sequences[np.searchsorted(self._ends, places, side="right")] > sequence
        candidates, places = candidates[reaching], places[reaching]
        if not len(candidates):
            return candidates
        chosen = pa.array(candidates)
        values = columns.values([array.take(chosen) for array in arrays])
        other = [array.take(pa.array(places)) for array in self.values]
        return candidates[key_columns.equal(values, other)]

    def _probe(self, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of a row and a place in the index with the same hash."""
        buckets = (hashes >> self._shift).astype(np.int64)
        places, ends = self._starts[buckets], self._starts[buckets + 1]
        active = np.flatnonzero(places < ends)
        places, ends, wanted = places[active], ends[active], hashes[active]
        rows, slots = [], []
        while len(active):
            there = self._hashes[places]
            hit = there == wanted
            if hit.any():
                rows.append(active[hit])
                slots.append(places[hit].astype(np.int64))
            places = places + 1
            going = np.flatnonzero((places < ends) & (there <= wanted))
            active, places, ends, wanted = active[going], places[going], ends[going], wanted[going]
        nothing = np.zeros(0, dtype=np.int64)
        return np.concatenate([nothing, *rows]), np.concatenate([nothing, *slots])


def _sorted(hashes: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Hashes in order, those that are equal in the order of their rows; and the rows. Upper bits and row are sorted as
    one number, which is several times faster than asking for the order of the hashes."""
    low = np.uint64((1 << len(hashes).bit_length()) - 1)
    both = np.bitwise_and(hashes, ~low)
    both |= np.arange(len(hashes), dtype=np.uint64)
    both.sort()
    order = np.bitwise_and(both, low).astype(np.int32)
    found = hashes[order]
    if np.any(found[1:] < found[:-1]):  # hashes that differ in their lower bits alone, which is rare
        order = order[np.lexsort((order, found))]
        found = hashes[order]
    return found, order


def _hashes(columns: key_columns.KeyColumns, batches: Sequence[pa.RecordBatch]) -> NDArray[np.uint64]:
    total = np.empty(sum(batch.num_rows for batch in batches), dtype=np.uint64)
    at = 0
    for batch in batches:
        of_range = columns.hashes(columns.arrays(batch), batch.num_rows)
        for start in range(0, batch.num_rows, checksum.CHUNK):
            stop = min(start + checksum.CHUNK, batch.num_rows)
            total[at + start : at + stop] = of_range(start, stop)
        at += batch.num_rows
    return total
