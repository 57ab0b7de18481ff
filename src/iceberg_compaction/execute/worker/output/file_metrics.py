"""The metrics of a data file that its manifest entry carries (R40). They come from the footer as written, and where a
footer has none (floats in full, bounds of long values) from the rows on their way into the writer."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg

from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.output import column_bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyiceberg.schema import Schema

_FLOATS = (iceberg.FloatType, iceberg.DoubleType)
_TEXTS = (iceberg.StringType, iceberg.BinaryType)
_KEPT = 4096  # bytes; a footer holds no longer bound


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestMetrics:
    """The metrics of a column in an input's manifest, as far as it has any; bounds are in Iceberg's binary form."""

    nulls: int | None = None
    low: bytes | None = None
    high: bytes | None = None

    @property
    def floats(self) -> tuple[float | None, float | None]:
        """The bounds of a float column, of which an older file has narrower ones; none if one of them is NaN."""
        widths = {4: "<f", 8: "<d"}
        if self.low is None or self.high is None or not {len(self.low), len(self.high)} <= widths.keys():
            return None, None
        low, high = (struct.unpack(widths[len(raw)], raw)[0] for raw in (self.low, self.high))
        return (None, None) if _has_nan(low, high) else (low, high)


def merge_manifest_metrics(parts: Sequence[ManifestMetrics], rows: Sequence[int], *, floats: bool) -> ManifestMetrics:
    """The metrics of a column in several whole inputs with so many rows. What one of them lacks is left out, except for
    the bounds of an input without values."""
    nulls = [part.nulls for part in parts]
    total = None if None in nulls else sum(count or 0 for count in nulls)
    filled = [part for part, count in zip(parts, rows, strict=True) if part.nulls != count]
    bounds = [part.floats if floats else (part.low, part.high) for part in filled]
    if not filled or any(None in pair for pair in bounds):
        return ManifestMetrics(nulls=total)
    numbers = range(len(filled))
    low = filled[min(numbers, key=lambda number: _orderable(bounds[number][0]))].low
    high = filled[max(numbers, key=lambda number: _orderable(bounds[number][1]))].high
    return ManifestMetrics(nulls=total, low=low, high=high)


def _orderable(bound: Any) -> Any:
    return _order(bound) if isinstance(bound, float) else bound


def _has_nan(*values: float) -> bool:
    return any(math.isnan(value) for value in values)


_NOTHING = ManifestMetrics()


@dataclass(slots=True, kw_only=True)
class Floats:
    """The metrics of a float column as Iceberg counts them: NaNs are no bounds, and a negative zero is the smaller."""

    nulls: int = 0
    nans: int | None = 0  # None: not counted
    bounded: bool = True  # whether the bounds are those of all values
    smallest: float | None = None
    largest: float | None = None

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Floats:
        """The metrics of values."""
        nans = pc.sum(pc.is_nan(column)).as_py() or 0
        if nans + column.null_count == len(column):
            return cls(nulls=column.null_count, nans=nans)
        bounds = pc.min_max(column).as_py()
        low, high = bounds["min"], bounds["max"]
        if low == 0:
            low = -0.0 if _has_zero(column, negative=True) else 0.0
        if high == 0:
            high = 0.0 if _has_zero(column, negative=False) else -0.0
        return cls(nulls=column.null_count, nans=nans, smallest=low, largest=high)

    @classmethod
    def of_chunk(cls, chunk: Any, nans: int | None, manifest: ManifestMetrics) -> Floats | None:
        """The metrics of a column chunk by its footer, or else by the manifest, which may have counted its NaNs. None:
        not even the nulls are known."""
        stored = chunk.statistics
        nulls = stored.null_count if stored is not None and stored.has_null_count else manifest.nulls
        if nulls is None:
            return None
        low, high = manifest.floats
        if stored is not None and stored.has_min_max and not _has_nan(stored.min_raw, stored.max_raw):
            low, high = stored.min_raw, stored.max_raw
        if low is not None and high is not None:
            return cls(nulls=nulls, nans=nans, smallest=low, largest=high)
        return cls(nulls=nulls, nans=nans, bounded=nulls + (nans or 0) == chunk.num_values)

    def __add__(self, other: Floats) -> Floats:
        lows = [low for low in (self.smallest, other.smallest) if low is not None]
        highs = [high for high in (self.largest, other.largest) if high is not None]
        return Floats(
            nulls=self.nulls + other.nulls,
            nans=None if self.nans is None or other.nans is None else self.nans + other.nans,
            bounded=self.bounded and other.bounded,
            smallest=min(lows, key=_order, default=None),
            largest=max(highs, key=_order, default=None),
        )


@dataclass(slots=True, kw_only=True)
class RowMetrics:
    """The metrics of one file's rows that a footer lacks, by row group and field id."""

    columns: pa.Schema
    floats: dict[tuple[int, int], Floats] = field(default_factory=dict)
    nans: dict[tuple[int, int], int] = field(default_factory=dict)  # of copied row groups, as far as counted
    by_manifest: dict[tuple[int, int], ManifestMetrics] = field(default_factory=dict)  # likewise
    long: dict[tuple[int, int], tuple[bytes, bytes]] = field(default_factory=dict)
    groups: int = 0

    def add(self, table: pa.Table) -> None:
        """Measures the rows of the next row group."""
        self._measure(table, self.columns)
        self.groups += 1

    def add_copied(self, patch: pa.Table | None = None) -> None:
        """Counts a row group that comes as bytes, except for the columns of the patch; metrics of the others can be
        added later."""
        if patch is not None:
            self._measure(patch, patch.schema)
        self.groups += 1

    def _measure(self, table: pa.Table, columns: pa.Schema) -> None:
        for leaf in arrow_schemas.leaves(columns):
            if leaf.repeated:
                continue
            kind = leaf.type.value_type if pa.types.is_dictionary(leaf.type) else leaf.type
            if pa.types.is_floating(kind):
                self.floats[self.groups, leaf.field_id] = Floats.of(_column(table, leaf))
            elif pa.types.is_string(kind) or pa.types.is_binary(kind):
                bounds = _long_bounds(_column(table, leaf))
                if bounds is not None:
                    self.long[self.groups, leaf.field_id] = bounds

    def floats_of(self, number: int, chunks: Sequence[Any]) -> Floats | None:
        """A float column of the whole file, given its chunks; None: the nulls of a chunk are not known."""
        total = Floats()
        for group, chunk in enumerate(chunks):
            floats = self.floats.get((group, number)) or Floats.of_chunk(
                chunk, self.nans.get((group, number)), self.by_manifest.get((group, number), _NOTHING)
            )
            if floats is None:
                return None
            total += floats
        return total

    def nulls_of(self, group: int, number: int, chunk: Any) -> int | None:
        """The nulls of a column of a row group, by its footer or else by the input's manifest."""
        stored = chunk.statistics
        if stored is not None and stored.has_null_count:
            return int(stored.null_count)
        return self.by_manifest.get((group, number), _NOTHING).nulls


def _column(table: pa.Table, leaf: arrow_schemas.ArrowLeaf) -> pa.ChunkedArray:
    column = table.column(leaf.path[0])
    return column if len(leaf.path) == 1 else pc.struct_field(column, list(leaf.path[1:]))


def _has_zero(column: pa.ChunkedArray, *, negative: bool) -> bool:
    for chunk in column.chunks:
        values = chunk.drop_null().to_numpy(zero_copy_only=False)
        if bool(((values == 0) & (np.signbit(values) == negative)).any()):
            return True
    return False


def _long_bounds(column: pa.ChunkedArray) -> tuple[bytes, bytes] | None:
    """The bounds of text and binary, if one may be too long for a footer."""
    lows, highs, longest = [], [], 0
    for chunk in column.chunks:
        values = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
        longest = max(longest, pc.max(pc.binary_length(values)).as_py() or 0)
    if longest <= _KEPT:
        return None
    for chunk in column.chunks:
        values = chunk
        if pa.types.is_dictionary(chunk.type):
            values = chunk.dictionary.take(chunk.indices.unique().drop_null())
        bounds = pc.min_max(values.view(pa.binary())).as_py()
        if bounds["min"] is not None:
            lows.append(bounds["min"])
            highs.append(bounds["max"])
    return (min(lows), max(highs)) if lows else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The metric maps of a manifest entry, by field id."""

    column_sizes: dict[int, int] = field(default_factory=dict)
    value_counts: dict[int, int] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    nan_value_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)


def file_metrics(
    metadata: Any, schema: Schema, columns: pa.Schema, rows: RowMetrics, modes: Mapping[int, column_bounds.Mode]
) -> Metrics:
    """The metrics of a file. Columns below lists and maps have a size and nothing else; a column whose statistics are
    switched off has a size too, and further metrics only where they do not come from the footer."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    metrics = Metrics()
    for index, leaf in enumerate(arrow_schemas.leaves(columns)):
        chunks = [group.column(index) for group in groups]
        number, mode = leaf.field_id, modes.get(leaf.field_id, column_bounds.NONE)
        if not mode.counts:
            continue
        metrics.column_sizes[number] = sum(chunk.total_compressed_size for chunk in chunks)
        if leaf.repeated:
            continue
        values, kind = sum(chunk.num_values for chunk in chunks), schema.find_type(number)
        if isinstance(kind, _FLOATS):
            if (floats := rows.floats_of(number, chunks)) is not None:
                _add(metrics, number, values, floats.nulls)
                if floats.nans is not None:
                    metrics.nan_value_counts[number] = floats.nans
                if floats.bounded:
                    _add_bounds(metrics, number, kind, (floats.smallest, floats.largest), mode)
            continue
        nulls = [rows.nulls_of(group, number, chunk) for group, chunk in enumerate(chunks)]
        if all(count is not None for count in nulls):
            _add(metrics, number, values, sum(count or 0 for count in nulls))
            _add_bounds(metrics, number, kind, _range(number, kind, chunks, rows), mode)
    return metrics


def _add(metrics: Metrics, number: int, values: int, nulls: int) -> None:
    metrics.value_counts[number] = values
    metrics.null_value_counts[number] = nulls


def _range(number: int, kind: Any, chunks: list[Any], rows: RowMetrics) -> tuple[Any, Any]:
    """The smallest and largest value of all row groups, in physical form; None if unknown or if there are none."""
    lows, highs = [], []
    for group, chunk in enumerate(chunks):
        stored, manifest = chunk.statistics, rows.by_manifest.get((group, number), _NOTHING)
        if stored is not None and stored.has_min_max:
            low, high = stored.min_raw, stored.max_raw
        elif (group, number) in rows.long:
            low, high = rows.long[group, number]
        elif rows.nulls_of(group, number, chunk) == chunk.num_values:
            continue
        elif isinstance(kind, _TEXTS) and manifest.low is not None and manifest.high is not None:
            low, high = manifest.low, manifest.high
        else:
            return None, None  # a row group with values and without bounds: the file has none either
        lows.append(low)
        highs.append(high)
    return (min(lows, key=_key(kind)), max(highs, key=_key(kind))) if lows else (None, None)


def _add_bounds(metrics: Metrics, number: int, kind: Any, values: tuple[Any, Any], mode: column_bounds.Mode) -> None:
    if not mode.bounds or values[0] is None:
        return
    smallest, largest = column_bounds.lower(kind, values[0], mode), column_bounds.upper(kind, values[1], mode)
    if smallest is not None:
        metrics.lower_bounds[number] = smallest
    if largest is not None:
        metrics.upper_bounds[number] = largest


def _key(kind: iceberg.IcebergType) -> Callable[[Any], Any]:
    """The sort key of physical values. Decimals in bytes are signed; all other values order as in Python."""
    if isinstance(kind, iceberg.DecimalType):
        return lambda raw: int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
    return lambda raw: raw


def _order(value: float) -> tuple[float, float]:
    return value, float(np.copysign(1.0, value))


def split_offsets(metadata: Any) -> tuple[int, ...]:
    """The offsets of row groups (R42)."""
    starts = []
    for index in range(metadata.num_row_groups):
        chunk = metadata.row_group(index).column(0)
        offsets = [chunk.data_page_offset]
        if chunk.has_dictionary_page and chunk.dictionary_page_offset:
            offsets.append(chunk.dictionary_page_offset)
        starts.append(min(offsets))
    return tuple(starts)
