"""How many NaNs the files of a plan have, as their manifests tell: what is copied as bytes is not looked at by anyone
else, and footers do not tell. A plan comes in; for slices of its files counts by field id go out. Manifests are read a
few at a time, and files with the same counts share them, so that a million files take little memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types
from pyiceberg.manifest import ManifestContent

from iceberg_compaction.metadata import ahead, alike, applied, entries, fetch, manifests, metrics, paths
from iceberg_compaction.metadata.avro import container, decode
from iceberg_compaction.model.copying import Way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from iceberg_compaction.model.plan import Plan

    Counts = dict[int, int]  # by field id; a field that the manifest does not tell about is not in it

_COLUMNS: dict[str, Sequence[str | int]] = {"status": ("status",), "file_path": ("data_file", "file_path")}
_NANS = "nan_value_counts"
_UNTOLD = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class NanCounts:
    """The counts of a plan's files, numbered as in Plan.files."""

    codes: NDArray[np.int32]  # of each file, its place in `distinct`
    distinct: Sequence[Counts]

    def of(self, start: int, stop: int) -> tuple[Counts, ...]:
        """Those of some files, one after the other; shared, so nobody may change them."""
        return tuple(self.distinct[code] for code in self.codes[start:stop].tolist())


def of_plan(table: Table, plan: Plan, may_hold: Callable[[ManifestFile], bool]) -> NanCounts | None:
    """The counts of all files that may be copied; {} for others, and where manifests tell nothing. None: the table has
    no floating-point columns, or nothing is copied. `may_hold` rules out manifests that have no files of the plan."""
    asked = _asked(plan)
    field_ids = [] if plan.pin is None else list(float_fields(table.schemas()[plan.pin.schema_id]))
    if not field_ids or not asked.any():
        return None
    listed = fetch.list_manifests(table.io, applied.planned(table, plan))
    chosen = [row for row in listed if _has_data(row) and may_hold(row)]
    wanted = _Wanted(plan.files["file_path"], asked)
    known: dict[bytes, int] = {_key([_UNTOLD] * len(field_ids)): 0}
    codes = np.zeros(plan.files.num_rows, np.int32)
    read = ahead.in_order(lambda rows: _read(table.io, rows, wanted, field_ids), alike.batches(chosen))
    for places, counts in (found for batch in read for found in batch):
        different, which = np.unique(counts, axis=0, return_inverse=True)
        numbers = np.array([known.setdefault(_key(row), len(known)) for row in different], np.int32)
        codes[places] = numbers[which.ravel()]
        if wanted.are_found(places):
            break
    return NanCounts(codes=codes, distinct=[_counts(key, field_ids) for key in known])


def float_fields(schema: Schema) -> Iterator[int]:
    """The ids of floating-point columns, also those in structs. Those in lists and maps have no metrics."""

    def within(fields: Iterable[types.NestedField]) -> Iterator[int]:
        for field in fields:
            if isinstance(field.field_type, types.FloatType | types.DoubleType):
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
        digests = paths.digests(texts.combine_chunks())[rows]
        order = np.argsort(digests)
        self._digests, self._rows = digests[order], rows[order]

    def among(self, texts: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which of these texts are wanted, and their rows in the plan."""
        digests = paths.digests(texts.combine_chunks())
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
    return row.content == ManifestContent.DATA and manifests.has_live_files(row)


def _read(
    io: FileIO, rows: Sequence[ManifestFile], wanted: _Wanted, field_ids: Sequence[int]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows of the plan that the manifests list, and a line of counts for each, one for each field."""
    kinds = alike.read_all(io, rows)
    select = _COLUMNS | metrics.paths([_NANS], field_ids)
    found = []
    for members in kinds:
        parsed, where = container.join([parsed for _, parsed in members]), f"Manifest {members[0][0].manifest_path}"
        found.append(_find(decode.read(parsed, select, where=where), wanted, field_ids))
    return found


def _find(table: pa.Table, wanted: _Wanted, field_ids: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    table = table.filter(pc.not_equal(table["status"], entries.DELETED))
    hits, places = wanted.among(table["file_path"].cast(pa.string()))
    counts = np.full((len(hits), len(field_ids)), _UNTOLD, np.int64)
    for place, name in enumerate(metrics.column(_NANS, field_id) for field_id in field_ids):
        if name in table.column_names:
            counts[:, place] = pc.fill_null(table[name].take(pa.array(hits)), _UNTOLD).to_numpy()
    return places, counts


def _key(row: Any) -> bytes:
    return np.asarray(row, np.int64).tobytes()


def _counts(key: bytes, field_ids: Sequence[int]) -> Counts:
    row = np.frombuffer(key, np.int64).tolist()
    return {field_id: count for field_id, count in zip(field_ids, row, strict=True) if count >= 0}
