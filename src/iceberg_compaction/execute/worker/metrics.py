"""The metrics of a data file that its manifest entry carries (R40): from the footer as written, and NaN counts taken
from the rows on their way into the writer, because a footer does not know them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg

from iceberg_compaction.execute.worker import bounds, schemas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.schema import Schema


@dataclass(slots=True, kw_only=True)
class NanCounts:
    """NaNs per float column, of the rows of one file."""

    columns: pa.Schema
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, table: pa.Table) -> None:
        for leaf in schemas.leaves(self.columns):
            if leaf.repeated or not pa.types.is_floating(leaf.type):
                continue
            column = table.column(leaf.path[0])
            if len(leaf.path) > 1:
                column = pc.struct_field(column, list(leaf.path[1:]))
            found = pc.sum(pc.is_nan(column)).as_py() or 0
            self.counts[leaf.field_id] = self.counts.get(leaf.field_id, 0) + found


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The metric maps of a manifest entry, by field id."""

    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]


def file_metrics(
    metadata: Any, schema: Schema, columns: pa.Schema, nans: NanCounts, modes: Mapping[int, Any]
) -> Metrics:
    """Metrics of a file from its footer. Columns below lists and maps have a size and nothing else."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    found = Metrics(
        column_sizes={}, value_counts={}, null_value_counts={}, nan_value_counts={}, lower_bounds={}, upper_bounds={}
    )
    for index, leaf in enumerate(schemas.leaves(columns)):
        chunks = [group.column(index) for group in groups]
        number, mode = leaf.field_id, modes.get(leaf.field_id, bounds.NONE)
        found.column_sizes[number] = sum(chunk.total_compressed_size for chunk in chunks)
        if leaf.repeated or not mode.counts:
            continue
        found.value_counts[number] = sum(chunk.num_values for chunk in chunks)
        statistics = [chunk.statistics for chunk in chunks]
        if all(known is not None and known.has_null_count for known in statistics):
            found.null_value_counts[number] = sum(known.null_count for known in statistics)
        if number in nans.counts:
            found.nan_value_counts[number] = nans.counts[number]
        if mode.bounds:
            _add_bounds(found, number, schema.find_type(number), statistics, mode)
    return found


def _add_bounds(found: Metrics, number: int, kind: Any, statistics: list[Any], mode: Any) -> None:
    known = []
    for chunk in statistics:
        if chunk is not None and chunk.has_min_max:
            known.append(chunk)
        elif chunk is None or not chunk.has_null_count or chunk.num_values:
            return  # a row group with values and without bounds: nothing is known about the file
    if not known:
        return
    smallest = bounds.lower(kind, min((chunk.min_raw for chunk in known), key=_key(kind)), mode)
    largest = bounds.upper(kind, max((chunk.max_raw for chunk in known), key=_key(kind)), mode)
    if smallest is not None:
        found.lower_bounds[number] = smallest
    if largest is not None:
        found.upper_bounds[number] = largest


def _key(kind: iceberg.IcebergType) -> Any:
    """Decimals in bytes are signed, all else orders as Python orders it; of two zeros the negative one is smaller."""
    if isinstance(kind, iceberg.DecimalType):
        return lambda raw: int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
    if isinstance(kind, (iceberg.FloatType, iceberg.DoubleType)):
        return lambda raw: (raw, math.copysign(1.0, raw))
    return lambda raw: raw


def split_offsets(metadata: Any) -> tuple[int, ...]:
    """Where row groups begin (R42)."""
    found = []
    for index in range(metadata.num_row_groups):
        chunk = metadata.row_group(index).column(0)
        offsets = [chunk.data_page_offset]
        if chunk.has_dictionary_page and chunk.dictionary_page_offset:
            offsets.append(chunk.dictionary_page_offset)
        found.append(min(offsets))
    return tuple(found)
