"""Which partitions of the current spec the rows of files of older specs belong to, as far as metadata tells: a range of
numbers for each partition field, from the old tuple where that determines the new value, else from column bounds. An
inventory comes in and goes out with them. For expectations only: rows are asked where they belong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg import transforms, types
from pyiceberg.manifest import ManifestContent

from iceberg_compaction.metadata import fetch, partition_tuples, time_units
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.metadata.manifest import column_metrics, live_files
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_NUMBERS = (
    types.IntegerType,
    types.LongType,
    types.DateType,
    types.TimeType,
    types.TimestampType,
    types.TimestamptzType,
)


def add(table: Table, view: table_view.TableView, *, cache: arrow_cache.Cache | None = None) -> table_view.TableView:
    """The inventory with `feeds`, if the planned snapshot has data files of other specs than the current one."""
    pin = view.pin
    snapshot = None if pin is None else table.metadata.snapshot_by_id(pin.snapshot_id)
    if pin is None or snapshot is None or view.unsupported:
        return view
    data = view.files["content"].to_numpy() == table_view.DATA
    current = view.files["spec_id"].to_numpy() == pin.spec_id
    old, new = np.flatnonzero(data & ~current), np.flatnonzero(data & current)
    if not len(old):
        return view
    files = _with_bounds(table, snapshot, pin, arrow_cache.from_environment() if cache is None else cache)
    if files.num_rows != len(old):
        return view
    files = pa.concat_tables([files, view.files.take(pa.array(new))], promote_options="default")
    columns: dict[str, Any] = {"row": np.concatenate([old, new])}
    for place, field in enumerate(table.specs()[pin.spec_id].fields):
        found = _Ranges(field, table.schema(), files.num_rows)
        found.by_tuples(files.unify_dictionaries(), table.specs())
        found.by_bounds(files)
        columns |= {f"low_{place}": found.column(found.low), f"high_{place}": found.column(found.high)}
        columns[f"null_{place}"] = found.null
    return replace(view, feeds=pa.table(columns).sort_by("row"))


def _with_bounds(table: Table, snapshot: Snapshot, pin: table_view.Pin, cache: arrow_cache.Cache) -> pa.Table:
    """The data files of older specs, with the metrics of what the current one is derived from. A manifest holds files
    of one spec, so they come in the order of the inventory."""
    listed = [
        row
        for row in fetch.list_manifests(table.io, snapshot)
        if row.content == ManifestContent.DATA and row.partition_spec_id != pin.spec_id
    ]
    sources = tuple(sorted({field.source_id for field in table.specs()[pin.spec_id].fields}))
    return live_files.live_files(table, snapshot, metrics=sources, manifests=listed, cache=cache, branch=pin.branch)


class _Ranges:
    """What files have of one partition field: the least and the greatest number of its values."""

    def __init__(self, field: PartitionField, schema: Schema, rows: int) -> None:
        self._field = field
        self._source = schema.find_type(field.source_id)
        self._schema = schema
        self._codes: dict[Any, int] = {}  # of values that are no whole numbers
        self.low, self.high = np.zeros((2, rows), np.int64)
        self.null = np.zeros(rows, np.bool_)  # whether some rows may have none beside those in the range
        self._known = np.zeros(rows, np.bool_)

    def column(self, numbers: NDArray[np.int64]) -> pa.Array:
        """Null where nothing is known."""
        return pa.array(numbers, mask=~self._known)

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
            self._known[rows] = True  # of nulls, too: the tuple has them

    def by_bounds(self, files: pa.Table) -> None:
        """Where bounds of the source column do, or at least say between which values the others lie."""
        if self._known.all():
            return
        names = [column_metrics.column(name, self._field.source_id) for name in ("value_counts", "null_value_counts")]
        values, nulls = (files[name].fill_null(-1).to_numpy() for name in names)
        lower, upper = (
            column_metrics.comparable(files[column_metrics.column(name, self._field.source_id)], self._source)
            for name in column_metrics.BOUNDS
        )
        self._set((values == nulls) & (values >= 0), table_view.NULL, table_view.NULL)
        self.null = ~self._known & (nulls != 0)
        if isinstance(self._field.transform, transforms.VoidTransform):
            self._set(np.ones(len(values), np.bool_), table_view.NULL, table_view.NULL)
            self.null[:] = False
        elif lower is not None and upper is not None:
            told = np.logical_and(*(bound.is_valid().to_numpy(zero_copy_only=False) for bound in (lower, upper)))
            self._between(lower, upper, told)
        if isinstance(self._field.transform, transforms.BucketTransform):
            self._set(np.ones(len(values), np.bool_), 0, self._field.transform.num_buckets - 1)

    def _between(self, lower: pa.Array, upper: pa.Array, told: NDArray[np.bool_]) -> None:
        numbers = isinstance(self._source, (*_NUMBERS, types.BooleanType))
        steps = self._steps() if numbers else None
        if steps is not None:
            low, high = (steps(bound.fill_null(0).to_numpy().astype(np.int64)) for bound in (lower, upper))
            self._set(told, low, high)
            return
        for row in np.flatnonzero(told & ~self._known).tolist():
            ends = [bound[row].as_py() for bound in (lower, upper)]
            pair = [self._transformed(end) for end in ends]
            ordered = not isinstance(self._field.transform, transforms.BucketTransform)  # what lies between is, too
            if pair[0] is not None and pair[0] == pair[1] and (ordered or ends[0] == ends[1]):
                self.low[row] = self.high[row] = self._code(pair[0])
                self._known[row] = True

    def _steps(self) -> Callable[[NDArray[np.int64]], NDArray[np.int64]] | None:
        """What numbers neighbouring values have, so that a range tells how many there are."""
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
        """What the transform makes of a bound; None: not known."""
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
        """For files that nothing better is known of."""
        here = mask & ~self._known
        self.low, self.high = np.where(here, low, self.low), np.where(here, high, self.high)
        self._known |= mask


def _determined(new: PartitionField, old: PartitionSpec, source: types.IcebergType) -> Callable[[Any], Any] | None:
    """How the value of a partition field follows from a tuple of another spec; None: it does not."""
    for place, field in enumerate(old.fields):
        if field.source_id != new.source_id:
            continue
        if field.transform == new.transform:
            return lambda record, place=place: record[place]  # type: ignore[misc]
        value_of = _coarser(field.transform, new.transform, source)
        if value_of is not None:
            return lambda record, place=place, value_of=value_of: (  # type: ignore[misc]
                None if record[place] is None else value_of(record[place])
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
