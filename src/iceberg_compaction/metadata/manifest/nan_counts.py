"""Metrics of a plan's files that manifests have and Parquet footers lack: NaN counts, and bounds of floats and texts,
which footers leave out where there are NaNs or long values. Row groups that are copied as bytes keep them this way. A
plan and the manifests of its snapshot come in; for slices of its files metrics by field id go out. Manifests are read a
few at a time, and files with the same counts share them, so that a million files take little memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types

from iceberg_compaction.formats import hash64
from iceberg_compaction.formats.avro import avro_decode, container
from iceberg_compaction.metadata.manifest import (
    column_metrics,
    entry_fields,
    prune_manifests,
    small_manifests,
    snapshot_manifests,
)
from iceberg_compaction.model.copy_plan import Way
from iceberg_compaction.storage import look_ahead

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from iceberg_compaction.model.rewrite_plan import Plan

    _Metrics = tuple[NDArray[np.int64], NDArray[np.int64], pa.Table]  # rows of the plan, NaN counts, bounds
    Counts = dict[int, int]  # by field id, without the fields that the manifest has no count of
    Bounds = dict[int, tuple[int | None, bytes | None, bytes | None]]  # nulls, lower and upper bound by field id

_COLUMNS: dict[str, Sequence[str | int]] = {"status": ("status",), "file_path": ("data_file", "file_path")}
_NANS = "nan_value_counts"
_NULLS = "null_value_counts"
_BOUNDS = (_NULLS, *column_metrics.BOUNDS)
_NO_BOUNDS = (None,) * len(_BOUNDS)
_NO_COUNT = -1
_FLOATS, _TEXTS = (types.FloatType, types.DoubleType), (types.StringType, types.BinaryType)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields:
    """The columns whose metrics are read, by id."""

    floats: tuple[int, ...]
    bounded: tuple[int, ...]  # floats too


@dataclass(frozen=True, slots=True, kw_only=True)
class NanCounts:
    """The counts of a plan's files, numbered as in Plan.files."""

    codes: NDArray[np.int32]  # of each file, its index in `distinct`
    distinct: Sequence[Counts]
    rows: NDArray[np.int64]  # of each file, its index in `bounds`; -1: it has none
    bounds: Sequence[Bounds]

    def of(self, start: int, stop: int) -> tuple[Counts, ...]:
        """The counts of a slice of files. Files share them, so nobody may change them."""
        return tuple(self.distinct[code] for code in self.codes[start:stop].tolist())

    def bounds_of(self, start: int, stop: int) -> tuple[Bounds, ...]:
        """The null counts and bounds of a slice of files."""
        return tuple(self.bounds[row] if row >= 0 else {} for row in self.rows[start:stop].tolist())


def of_plan(table: Table, plan: Plan, manifests: snapshot_manifests.SnapshotManifests) -> NanCounts | None:
    """Reads the metrics of all files that may be copied; {} for others, and where manifests have none. None: the table
    has no floats and no texts, or nothing is copied. `manifests` are those of the planned snapshot."""
    copied = _copied(plan)
    if not copied.any():
        return None
    schema = table.schemas()[plan.pin.schema_id]
    fields = _Fields(floats=tuple(_fields(schema, _FLOATS)), bounded=tuple(_fields(schema, _FLOATS + _TEXTS)))
    if not fields.bounded:
        return None
    scope = prune_manifests.PartitionScope(table.metadata, plan.partitions)
    chosen = [manifest for manifest in manifests.live(snapshot_manifests.DATA) if scope.may_be_in(manifest)]
    wanted = _WantedPaths(plan.files["file_path"], copied)
    code_of: dict[bytes, int] = {_key([_NO_COUNT] * len(fields.floats)): 0}
    codes = np.zeros(plan.files.num_rows, np.int32)
    rows, bounds = np.full(plan.files.num_rows, -1, np.int64), [_no_bounds(fields)]
    batches = look_ahead.in_order(lambda batch: _read(table.io, batch, wanted, fields), small_manifests.batches(chosen))
    for plan_rows, counts, more_bounds in (metrics for batch in batches for metrics in batch):
        different, which = np.unique(counts, axis=0, return_inverse=True)
        numbers = np.array([code_of.setdefault(_key(row), len(code_of)) for row in different], np.int32)
        codes[plan_rows] = numbers[which.ravel()]
        rows[plan_rows] = np.arange(len(plan_rows)) + sum(len(piece) for piece in bounds)
        bounds.append(more_bounds)
        if wanted.are_complete(plan_rows):
            break
    distinct = [_counts(key, fields.floats) for key in code_of]
    return NanCounts(codes=codes, distinct=distinct, rows=rows, bounds=_by_file(pa.concat_tables(bounds), fields))


def _by_file(bounds: pa.Table, fields: _Fields) -> list[Bounds]:
    """The bounds of each file. All at once, because tasks are many and each needs a few files."""
    files: list[Bounds] = [{} for _ in range(bounds.num_rows)]
    for field_id in fields.bounded:
        columns = [bounds[column_metrics.column(metric, field_id)].to_pylist() for metric in _BOUNDS]
        for of_file, values in zip(files, zip(*columns, strict=True), strict=True):
            if values != _NO_BOUNDS:
                of_file[field_id] = values
    return files


def _fields(schema: Schema, kinds: tuple[type[types.IcebergType], ...]) -> Iterator[int]:
    """The ids of columns of these types, also those in structs. Those in lists and maps have no metrics."""

    def within(fields: Iterable[types.NestedField]) -> Iterator[int]:
        for field in fields:
            if isinstance(field.field_type, kinds):
                yield field.field_id
            elif isinstance(field.field_type, types.StructType):
                yield from within(field.field_type.fields)

    return within(schema.fields)


class _WantedPaths:
    """The paths that are looked for, by digest."""

    def __init__(self, texts: pa.ChunkedArray, wanted: NDArray[np.bool_]) -> None:
        self._texts = texts
        self._left = int(wanted.sum())
        rows = np.flatnonzero(wanted)
        digests = hash64.text_digests(texts.combine_chunks())[rows]
        order = np.argsort(digests)
        self._digests, self._rows = digests[order], rows[order]

    def among(self, texts: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which of these texts are wanted, and their rows in the plan."""
        digests = hash64.text_digests(texts.combine_chunks())
        at = np.minimum(np.searchsorted(self._digests, digests), len(self._digests) - 1)
        hits = np.flatnonzero(self._digests[at] == digests)
        rows = self._rows[at[hits]]
        equal = pc.equal(texts.take(pa.array(hits)), self._texts.take(pa.array(rows)))
        same = equal.to_numpy(zero_copy_only=False) if len(hits) else np.zeros(0, np.bool_)
        return hits[same], rows[same]

    def are_complete(self, rows: NDArray[np.int64]) -> bool:
        """Whether these were the last that were missing."""
        self._left -= len(rows)
        return self._left <= 0


def _copied(plan: Plan) -> NDArray[np.bool_]:
    """Which files of the plan are in groups that may be copied."""
    groups = plan.groups.columns
    possible = pa.array([way.value for way in Way if not way.forbids])
    chosen = pc.is_in(groups["copying"], value_set=possible).to_numpy()
    copied: NDArray[np.bool_] = np.repeat(chosen, groups["files"].to_numpy()).astype(np.bool_)
    return copied


def _read(io: FileIO, manifest_files: Sequence[ManifestFile], wanted: _WantedPaths, fields: _Fields) -> list[_Metrics]:
    """The metrics of the wanted files that these manifests list."""
    kinds = small_manifests.read_all(io, manifest_files)
    select = _COLUMNS | column_metrics.paths([_NANS], fields.floats) | column_metrics.paths(_BOUNDS, fields.bounded)
    metrics = []
    for members in kinds:
        parsed, where = container.join([parsed for _, parsed in members]), f"Manifest {members[0][0].manifest_path}"
        metrics.append(_pick(avro_decode.read(parsed, select, where=where), wanted, fields))
    return metrics


def _pick(entries: pa.Table, wanted: _WantedPaths, fields: _Fields) -> _Metrics:
    """The metrics of those entries that are wanted: a line of NaN counts, one for each float, and a line of bounds."""
    entries = entries.filter(pc.not_equal(entries["status"], entry_fields.DELETED))
    hits, plan_rows = wanted.among(entries["file_path"].cast(pa.string()))
    entries = entries.take(pa.array(hits))
    counts = np.full((len(hits), len(fields.floats)), _NO_COUNT, np.int64)
    for number, name in enumerate(column_metrics.column(_NANS, field_id) for field_id in fields.floats):
        if name in entries.column_names:
            counts[:, number] = pc.fill_null(entries[name], _NO_COUNT).to_numpy()
    bounds = {
        field.name: entries[field.name].cast(field.type)
        if field.name in entries.column_names
        else pa.nulls(len(hits), field.type)
        for field in _no_bounds(fields).schema
    }
    return plan_rows, counts, pa.table(bounds)


def _no_bounds(fields: _Fields) -> pa.Table:
    kinds = {metric: pa.int64() if metric == _NULLS else pa.binary() for metric in _BOUNDS}
    return pa.schema(
        [(column_metrics.column(metric, field_id), kinds[metric]) for field_id in fields.bounded for metric in _BOUNDS]
    ).empty_table()


def _key(row: Any) -> bytes:
    return np.asarray(row, np.int64).tobytes()


def _counts(key: bytes, field_ids: Sequence[int]) -> Counts:
    row = np.frombuffer(key, np.int64).tolist()
    return {field_id: count for field_id, count in zip(field_ids, row, strict=True) if count >= 0}
