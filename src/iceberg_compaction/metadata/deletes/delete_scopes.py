"""Divides delete files by kind, and data files and deletes into buckets: only files of the same bucket can meet. A
bucket is a partition, a data file's path or the whole table. Rows of model.table_view.FILES come in, one scope for each
kind of delete goes out. Deletes that contradict their data file are errors, as they are for every reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import transforms

from iceberg_compaction import errors
from iceberg_compaction.metadata.deletes import sorted_ranges
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from pyiceberg.partitioning import PartitionSpec

    from iceberg_compaction.metadata.deletes.sorted_ranges import Ints, SortedRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteScope:
    """Delete files of one kind, and for each data file the bucket where it would meet them (-1: it meets none)."""

    deletes: SortedRanges
    buckets: Ints
    same_commit: bool  # a delete applies to data of its own sequence number: position yes, equality no (R2, R20)
    superseded: bool = False  # not applied to a data file that has a deletion vector (R19)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteScopes:
    """A table's data files, in order of their rows, and the scopes of its delete files."""

    data_rows: Ints
    data_ranks: Ints
    delete_rows: Ints
    partition_equality: DeleteScope
    global_equality: DeleteScope
    partition_position: DeleteScope
    file_position: DeleteScope
    vectors: DeleteScope

    @property
    def all(self) -> tuple[DeleteScope, ...]:
        return (*self.equality, *self.position, self.vectors)

    @property
    def equality(self) -> tuple[DeleteScope, ...]:
        return self.partition_equality, self.global_equality

    @property
    def position(self) -> tuple[DeleteScope, ...]:
        return self.partition_position, self.file_position


def unpartitioned(specs: Mapping[int, PartitionSpec]) -> frozenset[int]:
    """The specs whose equality deletes are global (R18): those without fields, or with nothing but dropped ones, which
    format version 1 keeps as void."""
    return frozenset(
        spec_id
        for spec_id, spec in specs.items()
        if all(isinstance(field.transform, transforms.VoidTransform) for field in spec.fields)
    )


def divide(files: pa.Table, unpartitioned_specs: frozenset[int]) -> DeleteScopes:
    """The scopes of a table. `files` are the live files of one snapshot, each data file once."""
    content = files["content"].to_numpy()
    data, deletes = np.flatnonzero(content == table_view.DATA), np.flatnonzero(content != table_view.DATA)
    if not len(deletes):
        return _without_deletes(data)
    sequence, ranks = np.unique(files["sequence_number"].to_numpy(), return_inverse=True)
    partitions = _partition_numbers(files)
    paths, references = _references(files, deletes)

    equality = content[deletes] == table_view.EQUALITY_DELETES
    is_global = equality & np.isin(files["spec_id"].to_numpy()[deletes], list(unpartitioned_specs))
    vector = ~equality & pc.equal(files["file_format"].take(deletes).cast(pa.string()), "PUFFIN").to_numpy()
    position = ~equality & ~vector
    _require_references(files, deletes, vector & (references < 0))

    def scope(chosen: NDArray[np.bool_], meet_by: tuple[Ints, Ints], **traits: bool) -> DeleteScope:
        size, delete_buckets, data_buckets = _buckets(meet_by[0][chosen], meet_by[1])
        rows = deletes[chosen]
        sorted_deletes = sorted_ranges.sort(rows, delete_buckets, ranks[rows], size=size, steps=len(sequence))
        return DeleteScope(deletes=sorted_deletes, buckets=data_buckets, **traits)

    by_partition = partitions[deletes], partitions[data]
    by_path = references, paths[data]
    by_table = np.zeros(len(deletes), np.int64), np.zeros(len(data), np.int64)
    shared, named = position & (references < 0), position & (references >= 0)
    scopes = DeleteScopes(
        data_rows=data,
        data_ranks=ranks[data],
        delete_rows=deletes,
        partition_equality=scope(equality & ~is_global, by_partition, same_commit=False),
        global_equality=scope(is_global, by_table, same_commit=False),
        partition_position=scope(shared, by_partition, same_commit=True, superseded=True),
        file_position=scope(named, by_path, same_commit=True, superseded=True),
        vectors=scope(vector, by_path, same_commit=True),
    )
    _check_vectors(files, scopes)
    _check_partitions(files, scopes, partitions)
    return scopes


def _without_deletes(data: Ints) -> DeleteScopes:
    """The scopes of most tables, where there is nothing to sort."""
    none = np.empty(0, np.int64)
    no_buckets = np.full(len(data), -1, np.int64)
    no_deletes = sorted_ranges.sort(none, none, none, size=0, steps=1)
    scope = DeleteScope(deletes=no_deletes, buckets=no_buckets, same_commit=True)
    return DeleteScopes(
        data_rows=data,
        data_ranks=np.zeros(len(data), np.int64),
        delete_rows=none,
        partition_equality=scope,
        global_equality=scope,
        partition_position=scope,
        file_position=scope,
        vectors=scope,
    )


def _partition_numbers(files: pa.Table) -> Ints:
    """A number for each pair of spec and partition tuple: equal pairs are equal numbers."""
    column = files["partition"].unify_dictionaries().combine_chunks()
    distinct = column.dictionary.dictionary_encode()  # whatever made it, no text counts twice
    codes: Ints = distinct.indices.to_numpy().astype(np.int64)[column.indices.to_numpy()]
    specs: Ints = files["spec_id"].to_numpy().astype(np.int64)
    return specs * len(distinct.dictionary) + codes


def _references(files: pa.Table, deletes: Ints) -> tuple[Ints, Ints]:
    """Numbers of the paths that delete files refer to: each file's own path, and each delete's reference; or -1."""
    referenced = files["referenced_data_file"].take(deletes).combine_chunks().dictionary_encode()
    numbers = referenced.indices.cast(pa.int64()).fill_null(-1).to_numpy()
    if not len(referenced.dictionary):
        return np.full(files.num_rows, -1, np.int64), numbers
    paths = pc.index_in(files["file_path"], value_set=referenced.dictionary)
    return paths.cast(pa.int64()).fill_null(-1).to_numpy(), numbers


def _buckets(deletes: Ints, data: Ints) -> tuple[int, Ints, Ints]:
    """The distinct values of `deletes` as buckets 0, 1, ...: their number, each delete's, each data file's or -1."""
    distinct, own = np.unique(deletes, return_inverse=True)
    if not len(distinct):
        return 0, own, np.full(len(data), -1, np.int64)
    near = np.minimum(np.searchsorted(distinct, data), len(distinct) - 1)
    return len(distinct), own, np.where(distinct[near] == data, near, -1)


def _require_references(files: pa.Table, deletes: Ints, lost: NDArray[np.bool_]) -> None:
    if lost.any():
        path = files["file_path"][deletes[lost][0]].as_py()
        raise errors.MetadataError(f"Deletion vector {path} does not say which data file it is for.")


def _check_vectors(files: pa.Table, scopes: DeleteScopes) -> None:
    """R19: at most one deletion vector for a data file, and none older than the file."""
    vectors = scopes.vectors
    crowded = np.flatnonzero(np.diff(vectors.deletes.edges) > 1)
    if len(crowded):
        row = vectors.deletes.rows[vectors.deletes.edges[crowded[0]]]
        path = files["referenced_data_file"][row].as_py()
        raise errors.MetadataError(f"Data file {path} has more than one deletion vector in the same snapshot.")
    met = np.flatnonzero(vectors.buckets >= 0)
    own = vectors.deletes.ranks[vectors.deletes.edges[vectors.buckets[met]]]
    late = met[own < scopes.data_ranks[met]]
    if len(late):
        path = files["file_path"][scopes.data_rows[late[0]]].as_py()
        raise errors.MetadataError(f"The deletion vector of data file {path} is older than the file.")


def _check_partitions(files: pa.Table, scopes: DeleteScopes, partitions: Ints) -> None:
    """R18: a delete for a single file is in that file's partition. Other readers fail if not: the table is damaged."""
    free = scopes.vectors.buckets < 0
    for scope, checked in ((scopes.vectors, ~free), (scopes.file_position, free)):
        ranges = scope.deletes.from_rank(scope.buckets, scopes.data_ranks, equal=True).only(checked)
        data = np.repeat(scopes.data_rows, ranges.counts)
        deletes = sorted_ranges.lists([(scope.deletes, ranges)]).values.to_numpy()
        wrong = np.flatnonzero(partitions[data] != partitions[deletes])
        if len(wrong):
            paths = files["file_path"]
            raise errors.MetadataError(
                f"Delete file {paths[deletes[wrong[0]]].as_py()} and data file {paths[data[wrong[0]]].as_py()}, "
                "which it is for, are not in the same partition."
            )
