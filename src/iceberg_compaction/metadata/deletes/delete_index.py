"""Which delete files apply to which data files, and what a delete file still applies to (R17-R21). The live files of a
snapshot come in as Arrow columns; counts, bounds and, for the rows that are asked for, lists of rows go out. The answer
is Iceberg Java's before it looks at bounds: an equality delete that bounds would rule out (R24) still counts here."""

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
    from iceberg_compaction.metadata.deletes.sorted_ranges import Ints, Runs, SortedRanges


def build(files: pa.Table, *, unpartitioned_specs: frozenset[int]) -> DeleteIndex:
    """The index of one snapshot's live files (model.table.FILES). Equality deletes of `unpartitioned_specs`, which
    delete_scopes.unpartitioned finds, are global. MetadataError: deletes that contradict their data file."""
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
            "position": sum(self._runs(scope, chosen).counts for scope in self.scopes.position),
            "equality": sum(self._runs(scope, chosen).counts for scope in self.scopes.equality),
            "dv": (self.scopes.vectors.places >= 0).astype(np.int64),
        }
        return pa.table({"row": self.scopes.data_rows, **counted})

    def deleted_rows_per_data_file(self) -> pa.Table:
        """For each data file, what is known of its deleted rows. `known`: by its deletion vector or by position
        deletes of its own. `position_at_most`: by position deletes that it shares with its partition. `equality_keys`:
        the keys in equality deletes that apply, each of which may match none, one or many rows."""
        chosen = np.arange(len(self.scopes.data_rows))

        def added(*scopes: DeleteScope) -> Ints:
            zero = np.zeros(len(chosen), np.int64)
            return sum((scope.deletes.sums(self._runs(scope, chosen), self.records) for scope in scopes), zero)

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
            runs = self._runs(scope, chosen)
            counts += runs.counts
            if scope is self.scopes.vectors or scope is self.scopes.file_position:
                own += scope.deletes.sums(runs, self.records)
            else:
                upto = np.concatenate([np.zeros(1), np.cumsum(self._deleted_shares(scope))])
                shared += size * (upto[runs.stop] - upto[runs.start])
        rows = np.minimum(own + np.rint(shared).astype(np.int64), size)
        return pa.table({"row": self.scopes.data_rows, "delete_files": counts, "deleted_rows": rows})

    def _deleted_shares(self, scope: DeleteScope) -> NDArray[np.float64]:
        """For each delete of the scope, in its shelf's order, the share of the rows within its reach that it names."""
        data = self._data_shelf(scope, self._not_superseded() if scope.superseded else None)
        reach = data.sums(_older(scope, data), self.records)
        return np.minimum(self.records[scope.deletes.rows] / np.maximum(reach, 1), reach > 0)

    def live_targets(self) -> pa.Table:
        """For each delete file, how many live data files it applies to: `targets`; and `in_scope`, which also counts
        files whose deletion vector supersedes it. A delete with nothing in scope is dangling and may be dropped."""
        rows = self.scopes.delete_rows
        in_scope, targets = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        for scope in self.scopes.all:
            at = np.searchsorted(rows, scope.deletes.rows)
            in_scope[at] = targets[at] = _older(scope, self._data_shelf(scope, counted=True)).counts
            if scope.superseded and len(self.scopes.vectors.deletes.rows):
                free = self._data_shelf(scope, self._not_superseded(), counted=True)
                targets[at] = _older(scope, free).counts
        return pa.table({"row": rows, "targets": targets, "in_scope": in_scope})

    def dangling(self) -> pa.Array:
        """The rows of delete files that apply to no live data file."""
        found = self.live_targets()
        return found.filter(pa.array(found["in_scope"].to_numpy() == 0))["row"].combine_chunks()

    def for_data_files(self, rows: Iterable[int] | Ints) -> pa.Table:
        """For each of these data files, the rows of the delete files that apply to it: lists `position` and `equality`,
        and `dv` or null. Ask for many files at once; the lists of all of them are held in memory."""
        asked = _as_rows(rows)
        chosen = _find(asked, self.scopes.data_rows, "data file")

        def listed(*scopes: DeleteScope) -> pa.LargeListArray:
            return sorted_ranges.lists([(scope.deletes, self._runs(scope, chosen)) for scope in scopes])

        place, vectors = self.scopes.vectors.places[chosen], self.scopes.vectors.deletes
        # There is one vector at each place, so that a place is an index.
        vector = np.full(len(place), -1, np.int64) if not len(vectors.rows) else vectors.rows[place]
        columns = {
            "position": listed(*self.scopes.position),
            "equality": listed(*self.scopes.equality),
            "dv": pa.array(vector, mask=place < 0),
        }
        return pa.table({"row": asked, **columns})

    def for_slices(self, rows: Ints, starts: Ints) -> pa.LargeListArray:
        """For slices of these data files, the rows of the delete files that apply to one file of the slice or to
        several, each once. A slice begins at each of `starts` and ends where the next begins; its files are of one
        partition. So no list is made for a data file, whatever the number of deletes that its partition shares."""
        chosen = _find(rows, self.scopes.data_rows, "data file")
        if not len(starts):
            return pa.array([], pa.large_list(pa.int64()))

        def shared(scope: DeleteScope) -> Runs:
            # The files of a slice are at one place, where their runs have the same end: the longest holds the others.
            runs = self._runs(scope, chosen)
            begins = np.where(runs.counts > 0, runs.start, np.iinfo(np.int64).max)
            stop = np.maximum.reduceat(np.where(runs.counts > 0, runs.stop, 0), starts)
            return sorted_ranges.Runs(start=np.minimum(np.minimum.reduceat(begins, starts), stop), stop=stop)

        together = (*self.scopes.equality, self.scopes.partition_position)
        parts = [(scope.deletes, shared(scope)) for scope in together]
        own = [(scope.deletes, self._runs(scope, chosen)) for scope in (self.scopes.file_position, self.scopes.vectors)]
        return sorted_ranges.join(sorted_ranges.lists(parts), sorted_ranges.gather(sorted_ranges.lists(own), starts))

    def for_delete_files(self, rows: Iterable[int] | Ints) -> pa.Table:
        """For each of these delete files, the rows of the data files that it applies to: list `targets`."""
        asked = _as_rows(rows)
        chosen = _find(asked, self.scopes.delete_rows, "delete file")
        parts = []
        for scope in self.scopes.all:
            index = np.full(len(self.scopes.delete_rows), -1, np.int64)
            index[np.searchsorted(self.scopes.delete_rows, scope.deletes.rows)] = np.arange(len(scope.deletes.rows))
            mine = index[chosen]
            if (mine >= 0).any():
                parts.append(self._targets(scope, mine))
        targets = sorted_ranges.lists(parts) if parts else pa.array([], pa.large_list(pa.int64()))
        return pa.table({"row": asked, "targets": targets})

    def _targets(self, scope: DeleteScope, mine: Ints) -> tuple[SortedRanges, Runs]:
        """The data files of some deletes of this scope, by their index on its shelf (-1: of another scope)."""
        data = self._data_shelf(scope, self._not_superseded() if scope.superseded else None)
        runs = _older(scope, data)
        every = sorted_ranges.Runs(start=runs.start[mine], stop=runs.stop[mine])
        return data, every.only(mine >= 0)

    def _runs(self, scope: DeleteScope, chosen: Ints) -> Runs:
        """Where the deletes of some data files, by their index, are on the scope's shelf."""
        runs = scope.deletes.from_rank(scope.places[chosen], self.scopes.data_ranks[chosen], equal=scope.same_commit)
        return runs.only(self._not_superseded()[chosen]) if scope.superseded else runs

    def _not_superseded(self) -> NDArray[np.bool_]:
        """The data files whose position deletes count: a deletion vector takes the place of all of them (R19)."""
        return self.scopes.vectors.places < 0

    def _data_shelf(
        self, scope: DeleteScope, mask: NDArray[np.bool_] | None = None, *, counted: bool = False
    ) -> SortedRanges:
        """The data files, or those of the mask, at the places of the scope; `counted`: their rows are not asked for."""
        return sorted_ranges.stack(
            None if counted else self.scopes.data_rows,
            scope.places if mask is None else np.where(mask, scope.places, -1),
            self.scopes.data_ranks,
            size=len(scope.deletes.edges) - 1,
            steps=scope.deletes.steps,
        )


def _older(scope: DeleteScope, data: SortedRanges) -> Runs:
    """For each delete of the scope, in its shelf's order, the data files that it applies to."""
    return data.up_to_rank(scope.deletes.places, scope.deletes.ranks, equal=scope.same_commit)


def _as_rows(rows: Iterable[int] | Ints) -> Ints:
    return np.asarray(rows if isinstance(rows, np.ndarray) else list(rows), np.int64)


def _find(asked: Ints, known: Ints, kind: str) -> Ints:
    """Where each asked row is among the known ones, which are sorted."""
    at = np.searchsorted(known, asked)
    wrong = (at >= len(known)) | (known.take(at, mode="clip") != asked) if len(known) else np.ones(len(asked), bool)
    if wrong.any():
        raise ValueError(f"Row {asked[wrong][0]} is not a {kind}.")
    return at
