"""Which delete files apply to which data files, and the reverse (R17-R21). The live files of a snapshot come in as
Arrow columns; counts, sums and, for given rows, lists of rows go out. The answer is Iceberg Java's before it looks at
bounds: an equality delete that bounds would rule out (R24) still counts here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction.metadata.deletes import delete_scopes, sorted_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from iceberg_compaction.metadata.deletes.delete_scopes import DeleteScope, DeleteScopes
    from iceberg_compaction.metadata.deletes.sorted_ranges import Ints, Ranges, SortedRanges


def build(files: pa.Table, *, unpartitioned_specs: frozenset[int]) -> DeleteIndex:
    """The index of one snapshot's live files (model.table_view.FILES). Equality deletes of `unpartitioned_specs`, which
    delete_scopes.unpartitioned gives, are global. MetadataError: deletes that contradict their data file."""
    scopes = delete_scopes.divide(files, unpartitioned_specs)
    return DeleteIndex(scopes=scopes, records=files["record_count"].to_numpy())


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteIndex:
    """Every answer is a table whose column `row` holds row numbers of the files that the index was built from."""

    scopes: DeleteScopes
    records: Ints  # of every file

    def counts_per_data_file(self) -> pa.Table:
        """For each data file, how many delete files apply to it: `position`, `equality`, `dv`."""
        chosen = np.arange(len(self.scopes.data_rows))
        counted = {
            "position": sum(self._ranges(scope, chosen).counts for scope in self.scopes.position),
            "equality": sum(self._ranges(scope, chosen).counts for scope in self.scopes.equality),
            "dv": (self.scopes.vectors.buckets >= 0).astype(np.int64),
        }
        return pa.table({"row": self.scopes.data_rows, **counted})

    def deleted_rows_per_data_file(self) -> pa.Table:
        """For each data file, the number of its deleted rows, as far as metadata tells. `known`: by its deletion vector
        or by position deletes of its own. `position_at_most`: by position deletes that it shares with its partition.
        `equality_keys`: the keys in equality deletes that apply, each of which may match no row, one or many."""
        chosen = np.arange(len(self.scopes.data_rows))

        def added(*scopes: DeleteScope) -> Ints:
            zero = np.zeros(len(chosen), np.int64)
            return sum((scope.deletes.sums(self._ranges(scope, chosen), self.records) for scope in scopes), zero)

        size = self.records[self.scopes.data_rows]
        known = np.minimum(added(self.scopes.vectors, self.scopes.file_position), size)
        shared = np.minimum(added(self.scopes.partition_position), size)
        keys = added(*self.scopes.equality)
        columns = {"known": known, "position_at_most": shared, "equality_keys": keys}
        return pa.table({"row": self.scopes.data_rows, **columns})

    def figures_per_data_file(self) -> pa.Table:
        """For each data file, how many delete files apply to it, `delete_files`, and an estimate of the rows that they
        delete, `deleted_rows`. Deletes of its own count in full. Those that it shares are shared out among all data
        files that they apply to, in proportion to their rows: each row that they name is in one of these files, and
        nothing says in which. So over a table the estimates add up to the rows that delete files name."""
        chosen = np.arange(len(self.scopes.data_rows))
        size = self.records[self.scopes.data_rows]
        counts, own, shared = np.zeros(len(size), np.int64), np.zeros(len(size), np.int64), np.zeros(len(size))
        for scope in self.scopes.all:
            if not len(scope.deletes.rows):
                continue
            ranges = self._ranges(scope, chosen)
            counts += ranges.counts
            if scope is self.scopes.vectors or scope is self.scopes.file_position:
                own += scope.deletes.sums(ranges, self.records)
            else:
                upto = np.concatenate([np.zeros(1), np.cumsum(self._deleted_shares(scope))])
                shared += size * (upto[ranges.stop] - upto[ranges.start])
        rows = np.minimum(own + np.rint(shared).astype(np.int64), size)
        return pa.table({"row": self.scopes.data_rows, "delete_files": counts, "deleted_rows": rows})

    def _deleted_shares(self, scope: DeleteScope) -> NDArray[np.float64]:
        """For each delete of the scope, in sorted order, the share of the rows within its reach that it names."""
        data = self._sorted_data(scope, self._not_superseded() if scope.superseded else None)
        reach = data.sums(_older(scope, data), self.records)
        return np.minimum(self.records[scope.deletes.rows] / np.maximum(reach, 1), reach > 0)

    def live_targets(self) -> pa.Table:
        """For each delete file, how many live data files it applies to: `targets`; and `in_scope`, which also counts
        files whose deletion vector supersedes it. A delete with nothing in scope is dangling and may be dropped."""
        rows = self.scopes.delete_rows
        in_scope, targets = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        for scope in self.scopes.all:
            at = np.searchsorted(rows, scope.deletes.rows)
            in_scope[at] = targets[at] = _older(scope, self._sorted_data(scope, counted=True)).counts
            if scope.superseded and len(self.scopes.vectors.deletes.rows):
                free = self._sorted_data(scope, self._not_superseded(), counted=True)
                targets[at] = _older(scope, free).counts
        return pa.table({"row": rows, "targets": targets, "in_scope": in_scope})

    def dangling(self) -> pa.Array:
        """The rows of delete files that apply to no live data file."""
        targets = self.live_targets()
        return targets.filter(pa.array(targets["in_scope"].to_numpy() == 0))["row"].combine_chunks()

    def for_data_files(self, rows: Iterable[int] | Ints) -> pa.Table:
        """For each of these data files, the rows of the delete files that apply to it: lists `position` and `equality`,
        and `dv` or null. The lists of all files are held in memory."""
        numbers = _as_rows(rows)
        chosen = _find(numbers, self.scopes.data_rows, "data file")

        def listed(*scopes: DeleteScope) -> pa.LargeListArray:
            return sorted_ranges.lists([(scope.deletes, self._ranges(scope, chosen)) for scope in scopes])

        bucket, vectors = self.scopes.vectors.buckets[chosen], self.scopes.vectors.deletes
        # Each bucket has one vector, so that a bucket is an index.
        vector = np.full(len(bucket), -1, np.int64) if not len(vectors.rows) else vectors.rows[bucket]
        columns = {
            "position": listed(*self.scopes.position),
            "equality": listed(*self.scopes.equality),
            "dv": pa.array(vector, mask=bucket < 0),
        }
        return pa.table({"row": numbers, **columns})

    def for_slices(self, rows: Ints, starts: Ints) -> pa.LargeListArray:
        """For slices of these data files, the rows of the delete files that apply to one file of the slice or to
        several, each once. A slice begins at each of `starts` and ends where the next begins; its files are of one
        partition. So no list is made for a data file, whatever the number of deletes that its partition shares."""
        chosen = _find(rows, self.scopes.data_rows, "data file")
        if not len(starts):
            return pa.array([], pa.large_list(pa.int64()))

        def shared(scope: DeleteScope) -> Ranges:
            # Files of a slice are in one bucket, where their ranges have the same end: the longest holds the others.
            ranges = self._ranges(scope, chosen)
            begins = np.where(ranges.counts > 0, ranges.start, np.iinfo(np.int64).max)
            stop = np.maximum.reduceat(np.where(ranges.counts > 0, ranges.stop, 0), starts)
            return sorted_ranges.Ranges(start=np.minimum(np.minimum.reduceat(begins, starts), stop), stop=stop)

        together = (*self.scopes.equality, self.scopes.partition_position)
        parts = [(scope.deletes, shared(scope)) for scope in together]
        own = [
            (scope.deletes, self._ranges(scope, chosen)) for scope in (self.scopes.file_position, self.scopes.vectors)
        ]
        return sorted_ranges.join(sorted_ranges.lists(parts), sorted_ranges.gather(sorted_ranges.lists(own), starts))

    def for_delete_files(self, rows: Iterable[int] | Ints) -> pa.Table:
        """For each of these delete files, the rows of the data files that it applies to: list `targets`."""
        numbers = _as_rows(rows)
        chosen = _find(numbers, self.scopes.delete_rows, "delete file")
        parts = []
        for scope in self.scopes.all:
            index = np.full(len(self.scopes.delete_rows), -1, np.int64)
            index[np.searchsorted(self.scopes.delete_rows, scope.deletes.rows)] = np.arange(len(scope.deletes.rows))
            in_scope = index[chosen]
            if (in_scope >= 0).any():
                parts.append(self._targets(scope, in_scope))
        targets = sorted_ranges.lists(parts) if parts else pa.array([], pa.large_list(pa.int64()))
        return pa.table({"row": numbers, "targets": targets})

    def _targets(self, scope: DeleteScope, chosen: Ints) -> tuple[SortedRanges, Ranges]:
        """The data files of the chosen deletes of this scope, by their index in it (-1: of another scope)."""
        data = self._sorted_data(scope, self._not_superseded() if scope.superseded else None)
        ranges = _older(scope, data)
        every = sorted_ranges.Ranges(start=ranges.start[chosen], stop=ranges.stop[chosen])
        return data, every.only(chosen >= 0)

    def _ranges(self, scope: DeleteScope, chosen: Ints) -> Ranges:
        """The deletes of the scope that apply to the chosen data files, given by their index."""
        ranges = scope.deletes.from_rank(scope.buckets[chosen], self.scopes.data_ranks[chosen], equal=scope.same_commit)
        return ranges.only(self._not_superseded()[chosen]) if scope.superseded else ranges

    def _not_superseded(self) -> NDArray[np.bool_]:
        """The data files whose position deletes count: a deletion vector takes the place of all of them (R19)."""
        return self.scopes.vectors.buckets < 0

    def _sorted_data(
        self, scope: DeleteScope, mask: NDArray[np.bool_] | None = None, *, counted: bool = False
    ) -> SortedRanges:
        """The data files, or those of the mask, sorted into the scope's buckets; `counted`: without their rows."""
        return sorted_ranges.sort(
            None if counted else self.scopes.data_rows,
            scope.buckets if mask is None else np.where(mask, scope.buckets, -1),
            self.scopes.data_ranks,
            size=len(scope.deletes.edges) - 1,
            steps=scope.deletes.steps,
        )


def _older(scope: DeleteScope, data: SortedRanges) -> Ranges:
    """For each delete of the scope, in sorted order, the data files that it applies to."""
    return data.up_to_rank(scope.deletes.buckets, scope.deletes.ranks, equal=scope.same_commit)


def _as_rows(rows: Iterable[int] | Ints) -> Ints:
    return np.asarray(rows if isinstance(rows, np.ndarray) else list(rows), np.int64)


def _find(rows: Ints, among: Ints, kind: str) -> Ints:
    """The index of each row among others, which are sorted."""
    at = np.searchsorted(among, rows)
    wrong = (at >= len(among)) | (among.take(at, mode="clip") != rows) if len(among) else np.ones(len(rows), bool)
    if wrong.any():
        raise ValueError(f"Row {rows[wrong][0]} is not a {kind}.")
    return at
