"""Deleted rows by their key. The keys of equality deletes that compare the same fields come in and become an index; for
a batch of a data file the deleted rows go out. Rows are matched by the hash of their key, then compared value by value,
so no row is deleted because of a hash that two keys share."""

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
    """Keys in the order of their hashes. The upper bits of a hash choose a bucket; there are so many buckets that most
    hold one key or none. Of equal keys only the newest is kept; it deletes whatever the older ones do."""

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
        """Keeps the first of the rows with the same hash, which follow one another, and those that differ from it."""
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
        """The deleted rows of a batch, given the data sequence number of its file; in no order, maybe twice. Only
        deletes that are newer than the file reach it."""
        arrays = columns.arrays(batch)
        hashes = columns.hashes(arrays, batch.num_rows)
        rows, slots = [], []
        for start in range(0, batch.num_rows, _SLICE):
            matches, match_slots = self._probe(hashes(start, min(start + _SLICE, batch.num_rows)))
            rows.append(matches + start)
            slots.append(match_slots)
        candidates, keys = np.concatenate(rows), self._order[np.concatenate(slots)]
        reaching = self._sequences[np.searchsorted(self._ends, keys, side="right")] > sequence
        candidates, keys = candidates[reaching], keys[reaching]
        if not len(candidates):
            return candidates
        chosen = pa.array(candidates)
        values = columns.values([array.take(chosen) for array in arrays])
        deleted = [array.take(pa.array(keys)) for array in self.values]
        return candidates[key_columns.equal(values, deleted)]

    def _probe(self, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of a row and a slot of the index with the same hash."""
        buckets = (hashes >> self._shift).astype(np.int64)
        at, ends = self._starts[buckets], self._starts[buckets + 1]
        active = np.flatnonzero(at < ends)
        at, ends, wanted = at[active], ends[active], hashes[active]
        rows, slots = [], []
        while len(active):
            indexed = self._hashes[at]
            hit = indexed == wanted
            if hit.any():
                rows.append(active[hit])
                slots.append(at[hit].astype(np.int64))
            at = at + 1
            going = np.flatnonzero((at < ends) & (indexed <= wanted))
            active, at, ends, wanted = active[going], at[going], ends[going], wanted[going]
        nothing = np.zeros(0, dtype=np.int64)
        return np.concatenate([nothing, *rows]), np.concatenate([nothing, *slots])


def _sorted(hashes: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Hashes in order, equal ones in the order of their rows; and the rows. Upper bits and row are sorted as a single
    number, which is several times faster than computing the order of the hashes."""
    low = np.uint64((1 << len(hashes).bit_length()) - 1)
    both = np.bitwise_and(hashes, ~low)
    both |= np.arange(len(hashes), dtype=np.uint64)
    both.sort()
    order = np.bitwise_and(both, low).astype(np.int32)
    ordered = hashes[order]
    if np.any(ordered[1:] < ordered[:-1]):  # hashes that differ in their lower bits alone, which is rare
        order = order[np.lexsort((order, ordered))]
        ordered = hashes[order]
    return ordered, order


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
