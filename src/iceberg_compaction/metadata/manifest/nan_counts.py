"""What manifests tell of the files of a plan and their footers do not: how many NaNs they have, and bounds of floats
and texts, which footers lack where there are NaNs or long values. What is copied as bytes is not looked at by anyone
else. A plan comes in; for slices of its files figures by field id go out. Manifests are read a few at a time, and files
with the same counts share them, so that a million files take little memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types
from pyiceberg.manifest import ManifestContent

from iceberg_compaction.formats import hash64
from iceberg_compaction.formats.avro import avro_decode, container
from iceberg_compaction.metadata import fetch
from iceberg_compaction.metadata.deletes import deletes_for_plan
from iceberg_compaction.metadata.manifest import (
    column_metrics,
    entry_fields,
    small_manifests,
    written_manifests,
)
from iceberg_compaction.model.copy_plan import Way
from iceberg_compaction.storage import look_ahead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from iceberg_compaction.model.rewrite_plan import Plan

    _Found = tuple[NDArray[np.int64], NDArray[np.int64], pa.Table]
    Counts = dict[int, int]  # by field id; a field that the manifest does not tell about is not in it
    Told = dict[int, tuple[int | None, bytes | None, bytes | None]]  # nulls, lower and upper bound by field id

_COLUMNS: dict[str, Sequence[str | int]] = {"status": ("status",), "file_path": ("data_file", "file_path")}
_NANS = "nan_value_counts"
_NULLS = "null_value_counts"
_TOLD = (_NULLS, *column_metrics.BOUNDS)
_NOTHING = (None,) * len(_TOLD)
_UNTOLD = -1
_FLOATS, _TEXTS = (types.FloatType, types.DoubleType), (types.StringType, types.BinaryType)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields:
    """The columns that are asked for, by id."""

    floats: tuple[int, ...]
    bounded: tuple[int, ...]  # floats too


@dataclass(frozen=True, slots=True, kw_only=True)
class NanCounts:
    """The counts of a plan's files, numbered as in Plan.files."""

    codes: NDArray[np.int32]  # of each file, its place in `distinct`
    distinct: Sequence[Counts]
    rows: NDArray[np.int64]  # of each file, its row in `told`; -1: it is not there
    told: Sequence[Told]

    def of(self, start: int, stop: int) -> tuple[Counts, ...]:
        """Those of some files, one after the other; shared, so nobody may change them."""
        return tuple(self.distinct[code] for code in self.codes[start:stop].tolist())

    def told_of(self, start: int, stop: int) -> tuple[Told, ...]:
        """Null counts and bounds of some files, one after the other."""
        return tuple(self.told[row] if row >= 0 else {} for row in self.rows[start:stop].tolist())


def of_plan(table: Table, plan: Plan, may_hold: Callable[[ManifestFile], bool]) -> NanCounts | None:
    """What is told of all files that may be copied; {} for others, and where manifests tell nothing. None: the table
    has no floats and no texts, or nothing is copied. `may_hold` rules out manifests that have no files of the plan."""
    asked = _asked(plan)
    if plan.pin is None or not asked.any():
        return None
    schema = table.schemas()[plan.pin.schema_id]
    fields = _Fields(floats=tuple(_fields(schema, _FLOATS)), bounded=tuple(_fields(schema, _FLOATS + _TEXTS)))
    if not fields.bounded:
        return None
    listed = fetch.list_manifests(table.io, deletes_for_plan.planned(table, plan))
    chosen = [row for row in listed if _has_data(row) and may_hold(row)]
    wanted = _Wanted(plan.files["file_path"], asked)
    known: dict[bytes, int] = {_key([_UNTOLD] * len(fields.floats)): 0}
    codes = np.zeros(plan.files.num_rows, np.int32)
    lines, told = np.full(plan.files.num_rows, -1, np.int64), [_no_rows(fields)]
    read = look_ahead.in_order(lambda rows: _read(table.io, rows, wanted, fields), small_manifests.batches(chosen))
    for places, counts, more in (found for batch in read for found in batch):
        different, which = np.unique(counts, axis=0, return_inverse=True)
        numbers = np.array([known.setdefault(_key(row), len(known)) for row in different], np.int32)
        codes[places] = numbers[which.ravel()]
        lines[places] = np.arange(len(places)) + sum(len(piece) for piece in told)
        told.append(more)
        if wanted.are_found(places):
            break
    distinct = [_counts(key, fields.floats) for key in known]
    return NanCounts(codes=codes, distinct=distinct, rows=lines, told=_rows(pa.concat_tables(told), fields))


def _rows(table: pa.Table, fields: _Fields) -> list[Told]:
    """What is told of each file. All at once, as tasks are many and each asks for a few files."""
    found: list[Told] = [{} for _ in range(table.num_rows)]
    for field_id in fields.bounded:
        columns = [table[column_metrics.column(metric, field_id)].to_pylist() for metric in _TOLD]
        for of_file, told in zip(found, zip(*columns, strict=True), strict=True):
            if told != _NOTHING:
                of_file[field_id] = told
    return found


def _fields(schema: Schema, kinds: tuple[type[types.IcebergType], ...]) -> Iterator[int]:
    """The ids of columns of these types, also those in structs. Those in lists and maps have no metrics."""

    def within(fields: Iterable[types.NestedField]) -> Iterator[int]:
        for field in fields:
            if isinstance(field.field_type, kinds):
                yield field.field_id
            elif isinstance(field.field_type, types.StructType):
                yield from within(field.field_type.fields)

    return within(schema.fields)


class _Wanted:
    """The paths that are looked for, by digest."""

    def __init__(self, texts: pa.ChunkedArray, asked: NDArray[np.bool_]) -> None:
        self._texts = texts
        self._left = int(asked.sum())
        rows = np.flatnonzero(asked)
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

    def are_found(self, places: NDArray[np.int64]) -> bool:
        """Whether all are found, with these."""
        self._left -= len(places)
        return self._left <= 0


def _asked(plan: Plan) -> NDArray[np.bool_]:
    """Which files of the plan are in groups that may be copied."""
    groups = plan.groups.columns
    possible = pa.array([way.value for way in Way if not way.forbids])
    chosen = pc.is_in(groups["copying"], value_set=possible).to_numpy()
    asked: NDArray[np.bool_] = np.repeat(chosen, groups["files"].to_numpy()).astype(np.bool_)
    return asked


def _has_data(row: ManifestFile) -> bool:
    return row.content == ManifestContent.DATA and written_manifests.has_live_files(row)


def _read(io: FileIO, rows: Sequence[ManifestFile], wanted: _Wanted, fields: _Fields) -> list[_Found]:
    """What some manifests list."""
    kinds = small_manifests.read_all(io, rows)
    select = _COLUMNS | column_metrics.paths([_NANS], fields.floats) | column_metrics.paths(_TOLD, fields.bounded)
    found = []
    for members in kinds:
        parsed, where = container.join([parsed for _, parsed in members]), f"Manifest {members[0][0].manifest_path}"
        found.append(_find(avro_decode.read(parsed, select, where=where), wanted, fields))
    return found


def _find(table: pa.Table, wanted: _Wanted, fields: _Fields) -> _Found:
    """Rows of the plan that are listed, and for each a line of NaN counts, one for each float, and one of the rest."""
    table = table.filter(pc.not_equal(table["status"], entry_fields.DELETED))
    hits, places = wanted.among(table["file_path"].cast(pa.string()))
    counts = np.full((len(hits), len(fields.floats)), _UNTOLD, np.int64)
    for place, name in enumerate(column_metrics.column(_NANS, field_id) for field_id in fields.floats):
        if name in table.column_names:
            counts[:, place] = pc.fill_null(table[name].take(pa.array(hits)), _UNTOLD).to_numpy()
    there = table.take(pa.array(hits))
    told = {
        field.name: there[field.name].cast(field.type)
        if field.name in there.column_names
        else pa.nulls(len(hits), field.type)
        for field in _no_rows(fields).schema
    }
    return places, counts, pa.table(told)


def _no_rows(fields: _Fields) -> pa.Table:
    kinds = {metric: pa.int64() if metric == _NULLS else pa.binary() for metric in _TOLD}
    return pa.schema(
        [(column_metrics.column(metric, field_id), kinds[metric]) for field_id in fields.bounded for metric in _TOLD]
    ).empty_table()


def _key(row: Any) -> bytes:
    return np.asarray(row, np.int64).tobytes()


def _counts(key: bytes, field_ids: Sequence[int]) -> Counts:
    row = np.frombuffer(key, np.int64).tolist()
    return {field_id: count for field_id, count in zip(field_ids, row, strict=True) if count >= 0}
