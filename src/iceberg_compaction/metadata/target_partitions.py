"""The partitions of the current spec that the rows of files of older specs belong to, as far as metadata tells: a range
of numbers for each partition field, from the old tuple where that determines the new value, else from column bounds. A
view comes in and goes out with them. For expectations only: the worker computes each row's own partition."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg import transforms, types

from iceberg_compaction.metadata import partition_tuples, time_units
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.metadata.manifest import column_metrics, live_files, snapshot_manifests
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from iceberg_compaction.metadata.manifest.snapshot_manifests import SnapshotManifests

_NUMBERS = (
    types.IntegerType,
    types.LongType,
    types.DateType,
    types.TimeType,
    types.TimestampType,
    types.TimestamptzType,
)


def add(
    table: Table,
    view: table_view.TableView,
    manifests: SnapshotManifests | None,
    cache: arrow_cache.ArrowCache = arrow_cache.NO_CACHE,
) -> table_view.TableView:
    """The view with `feeds`, if its snapshot, which has these manifests, has data files of older specs."""
    pin = view.pin
    if pin is None or manifests is None or view.unsupported:
        return view
    data = view.files["content"].to_numpy() == table_view.DATA
    current = view.files["spec_id"].to_numpy() == pin.spec_id
    old, new = np.flatnonzero(data & ~current), np.flatnonzero(data & current)
    if not len(old):
        return view
    files = _with_bounds(table, manifests, pin, cache)
    if files.num_rows != len(old):
        return view
    files = pa.concat_tables([files, view.files.take(pa.array(new))], promote_options="default")
    columns: dict[str, Any] = {"row": np.concatenate([old, new])}
    for number, field in enumerate(table.specs()[pin.spec_id].fields):
        ranges = _FieldRanges(field, table.schema(), files.num_rows)
        ranges.by_tuples(files.unify_dictionaries(), table.specs())
        ranges.by_bounds(files)
        columns |= {f"low_{number}": ranges.column(ranges.low), f"high_{number}": ranges.column(ranges.high)}
        columns[f"null_{number}"] = ranges.null
    return replace(view, feeds=pa.table(columns).sort_by("row"))


def _with_bounds(
    table: Table, manifests: SnapshotManifests, pin: table_view.Pin, cache: arrow_cache.ArrowCache
) -> pa.Table:
    """The data files of older specs, with the metrics of the columns that the current spec is derived from. A manifest
    holds files of one spec, so they come in the order of the view."""
    data = manifests.live(snapshot_manifests.DATA)
    older = replace(
        manifests, manifest_files=tuple(manifest for manifest in data if manifest.partition_spec_id != pin.spec_id)
    )
    sources = tuple(sorted({field.source_id for field in table.specs()[pin.spec_id].fields}))
    return live_files.live_files(table, older, metrics=sources, cache=cache, branch=pin.branch)


class _FieldRanges:
    """The values of one partition field in each file: the least and the greatest of their numbers."""

    def __init__(self, field: PartitionField, schema: Schema, rows: int) -> None:
        self._field = field
        self._source = schema.find_type(field.source_id)
        self._schema = schema
        self._codes: dict[Any, int] = {}  # of values that are no whole numbers
        self.low, self.high = np.zeros((2, rows), np.int64)
        self.null = np.zeros(rows, np.bool_)  # whether some rows may have none beside those in the range
        self._has_range = np.zeros(rows, np.bool_)

    def column(self, numbers: NDArray[np.int64]) -> pa.Array:
        """The numbers as a column; null where nothing is known."""
        return pa.array(numbers, mask=~self._has_range)

    def by_tuples(self, files: pa.Table, specs: Mapping[int, PartitionSpec]) -> None:
        """Where the tuple that a file has determines the value of all its rows."""
        column = files["partition"].combine_chunks()
        texts, spec_ids, codes = column.dictionary, files["spec_id"].to_numpy(), column.indices.to_numpy()
        for spec_id in np.unique(spec_ids).tolist():
            value_of = _determined(self._field, specs[spec_id], self._source)
            if value_of is None:
                continue
            rows = np.flatnonzero(spec_ids == spec_id)
            used, back = np.unique(codes[rows], return_inverse=True)
            records = [partition_tuples.decode(texts[int(code)].as_py(), specs[spec_id], self._schema) for code in used]
            numbers = np.array([self._code(value_of(record)) for record in records], np.int64)
            self.low[rows] = self.high[rows] = numbers[back]
            self._has_range[rows] = True  # of nulls, too: the tuple has them

    def by_bounds(self, files: pa.Table) -> None:
        """Where bounds of the source column do, or at least say between which values the others lie."""
        if self._has_range.all():
            return
        names = [column_metrics.column(name, self._field.source_id) for name in ("value_counts", "null_value_counts")]
        values, nulls = (files[name].fill_null(-1).to_numpy() for name in names)
        lower, upper = (
            column_metrics.comparable(files[column_metrics.column(name, self._field.source_id)], self._source)
            for name in column_metrics.BOUNDS
        )
        self._set((values == nulls) & (values >= 0), table_view.NULL, table_view.NULL)
        self.null = ~self._has_range & (nulls != 0)
        if isinstance(self._field.transform, transforms.VoidTransform):
            self._set(np.ones(len(values), np.bool_), table_view.NULL, table_view.NULL)
            self.null[:] = False
        elif lower is not None and upper is not None:
            bounded = np.logical_and(*(bound.is_valid().to_numpy(zero_copy_only=False) for bound in (lower, upper)))
            self._between(lower, upper, bounded)
        if isinstance(self._field.transform, transforms.BucketTransform):
            self._set(np.ones(len(values), np.bool_), 0, self._field.transform.num_buckets - 1)

    def _between(self, lower: pa.Array, upper: pa.Array, bounded: NDArray[np.bool_]) -> None:
        numbers = isinstance(self._source, (*_NUMBERS, types.BooleanType))
        steps = self._steps() if numbers else None
        if steps is not None:
            low, high = (steps(bound.fill_null(0).to_numpy().astype(np.int64)) for bound in (lower, upper))
            self._set(bounded, low, high)
            return
        for row in np.flatnonzero(bounded & ~self._has_range).tolist():
            ends = [bound[row].as_py() for bound in (lower, upper)]
            pair = [self._transformed(end) for end in ends]
            ordered = not isinstance(self._field.transform, transforms.BucketTransform)  # values between agree, then
            if pair[0] is not None and pair[0] == pair[1] and (ordered or ends[0] == ends[1]):
                self.low[row] = self.high[row] = self._code(pair[0])
                self._has_range[row] = True

    def _steps(self) -> Callable[[NDArray[np.int64]], NDArray[np.int64]] | None:
        """Gives neighbouring values neighbouring numbers, so that a range tells how many there are."""
        transform, source = self._field.transform, self._source
        if isinstance(transform, transforms.IdentityTransform):
            return lambda numbers: numbers
        if isinstance(transform, transforms.TruncateTransform):
            width = transform.width
            return lambda numbers: np.floor_divide(numbers, width)
        if isinstance(transform, time_units.TIMES):
            return lambda numbers: time_units.count(transform, source, numbers).astype(np.int64)
        return None

    def _transformed(self, value: Any) -> Any:
        """The partition value of a bound; None: not known."""
        try:
            whole = value.decode() if isinstance(self._source, types.StringType) else value
            return self._field.transform.transform(self._source)(whole)
        except (ValueError, TypeError, OverflowError):  # a text that was cut in the middle of a character
            return None

    def _code(self, value: Any) -> int:
        if value is None:
            return table_view.NULL
        if isinstance(value, int):
            width = getattr(self._field.transform, "width", 1)
            return int(value) // width
        return self._codes.setdefault(value, len(self._codes))

    def _set(self, mask: NDArray[np.bool_], low: Any, high: Any) -> None:
        """Sets the range of those masked files that have none yet."""
        new = mask & ~self._has_range
        self.low, self.high = np.where(new, low, self.low), np.where(new, high, self.high)
        self._has_range |= mask


def _determined(new: PartitionField, old: PartitionSpec, source: types.IcebergType) -> Callable[[Any], Any] | None:
    """How the value of a partition field follows from a tuple of another spec; None: it does not."""
    for number, field in enumerate(old.fields):
        if field.source_id != new.source_id:
            continue
        if field.transform == new.transform:
            return lambda record, number=number: record[number]  # type: ignore[misc]
        value_of = _coarser(field.transform, new.transform, source)
        if value_of is not None:
            return lambda record, number=number, value_of=value_of: (  # type: ignore[misc]
                None if record[number] is None else value_of(record[number])
            )
    return None


def _coarser(old: Any, new: Any, source: types.IcebergType) -> Callable[[Any], Any] | None:
    """The new transform of a value that the old one has transformed already."""
    if isinstance(old, transforms.IdentityTransform) and isinstance(new, time_units.TIMES):
        return lambda value: _in_units(new, source, value)
    if isinstance(old, transforms.IdentityTransform) and new.can_transform(source):
        function = new.transform(source)
        return lambda value: function(value)
    if isinstance(old, transforms.BucketTransform) and isinstance(new, transforms.BucketTransform):
        many, few = old.num_buckets, new.num_buckets
        return (lambda value: value % few) if many % few == 0 else None
    if isinstance(old, time_units.TIMES) and isinstance(new, time_units.TIMES):
        finer = time_units.TIMES.index(type(old)) > time_units.TIMES.index(type(new))
        return (lambda value: _in_units(new, source, time_units.begin(old, source, value))) if finer else None
    return None


def _in_units(transform: Any, source: types.IcebergType, moment: int) -> int:
    return int(time_units.count(transform, source, np.array([moment], np.int64))[0])
