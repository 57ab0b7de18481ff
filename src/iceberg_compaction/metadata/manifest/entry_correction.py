"""Corrects entries of a manifest: true sizes and counts of rows, and entries that are one too many. Sequence numbers,
snapshots and everything else stay as they are (R10). What an entry says about the inside of a file goes where it is
about another file: readers may skip rows by wrong bounds, but never by none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from iceberg_compaction.metadata.manifest.entry_change import EntryChange, Mask

_METRICS = frozenset(
    {"column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCorrection:
    """What is wrong in one manifest."""

    sizes: Mapping[str, int]  # true bytes of files, by path
    records: Mapping[str, int]  # true rows
    left_out: frozenset[int]  # numbers of entries, as they stand in the manifest

    def of(self, rows: pa.Table) -> CorrectedColumns:
        """The columns of all entries of the manifest as they must be; `rows` has their paths, sizes and counts."""
        positions = _positions(rows["file_path"], {*self.sizes, *self.records})
        sizes, resized = _set(rows["file_size_in_bytes"], positions, self.sizes)
        records, recounted = _set(rows["record_count"], positions, self.records)
        left_out = np.zeros(rows.num_rows, np.bool_)
        left_out[sorted(self.left_out)] = True
        return CorrectedColumns(sizes=sizes, records=records, resized=resized, recounted=recounted, left_out=left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedColumns:
    """Parallel columns, one row for each entry of a manifest."""

    sizes: NDArray[np.int64]
    records: NDArray[np.int64]
    resized: Mask
    recounted: Mask
    left_out: Mask

    def change(self, change: EntryChange) -> EntryChange:
        """The decision about each entry, with the corrections."""
        slim = change.slim
        for name, values in (("record_count", self.records), ("file_size_in_bytes", self.sizes)):
            slim = slim.set_column(slim.schema.get_field_index(name), name, pa.chunked_array([values]))
        stale = change.stale | self.resized | self.recounted
        return replace(change, slim=slim, stay=change.stay & ~self.left_out, stale=stale)

    def apply(self, table: pa.Table, todo: Mask) -> pa.Table:
        """Decoded entries, those of the mask, with corrected records of their files."""
        at = table.schema.get_field_index("data_file")
        fields = list(table.schema.field(at).type)
        children = [self._field(field, pc.struct_field(table["data_file"], field.name), todo) for field in fields]
        names = [field.name for field in fields]
        return table.set_column(at, "data_file", pc.make_struct(*children, field_names=names))

    def _field(self, field: pa.Field, column: pa.ChunkedArray, todo: Mask) -> pa.ChunkedArray:
        if field.name == "record_count":
            return pa.chunked_array([pa.array(self.records[todo])])
        if field.name == "file_size_in_bytes":
            return pa.chunked_array([pa.array(self.sizes[todo])])
        if field.name == "split_offsets":
            return _without(column, (self.resized | self.recounted)[todo], None)
        if field.name in _METRICS:
            return _without(column, self.recounted[todo], [])  # not null: PyIceberg's metadata tables stumble over it
        return column


def _positions(paths: pa.ChunkedArray, wanted: set[str]) -> dict[int, str]:
    listed = np.flatnonzero(pc.is_in(paths, value_set=pa.array(sorted(wanted), paths.type)).to_numpy())
    return {int(position): paths[int(position)].as_py() for position in listed}


def _set(
    column: pa.ChunkedArray, positions: Mapping[int, str], true: Mapping[str, int]
) -> tuple[NDArray[np.int64], Mask]:
    values = np.array(column.cast(pa.int64()).to_numpy(), np.int64, copy=True)
    changed = np.zeros(len(values), np.bool_)
    for position, path in positions.items():
        if path in true and values[position] != true[path]:
            values[position], changed[position] = true[path], True
    return values, changed


def _without(column: pa.ChunkedArray, mask: Mask, instead: list[int] | None) -> pa.ChunkedArray:
    """Nested columns know no `if_else` in all versions of Arrow, so the few rows are taken from a column of one."""
    if not mask.any():
        return column
    plain = column.combine_chunks()
    plain = pa.concat_arrays([plain, pa.array([instead], plain.type)])
    rows = np.where(mask, len(plain) - 1, np.arange(len(plain) - 1))
    return pa.chunked_array([plain.take(pa.array(rows))])
