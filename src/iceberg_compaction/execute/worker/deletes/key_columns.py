"""The columns that equality deletes compare, in files of any schema. Batches come in; hashes that are equal for equal
keys and the values themselves, in one type per field, go out. Fields are matched by id, so renamed, promoted, dropped
and later added columns all keep their meaning (R22, R23, R29)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg

from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.deletes import load_deletes
from iceberg_compaction.execute.worker.input import project
from iceberg_compaction.execute.worker.proof import checksum

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyField:
    """One field of a key."""

    field_id: int
    name: str
    kind: iceberg.IcebergType  # the table's type; a file's own is the same or narrower
    missing: pa.Array  # one element: the field's value in files that lack it
    parents: tuple[int, ...] = ()  # ids of the structs around it, the outermost first
    partitioned: bool = False  # whether `missing` is the partition's value, whatever files hold

    @property
    def columns(self) -> tuple[int, ...]:
        """Ids by which the columns that must be read are found."""
        return self.field_id, *self.parents[:1]

    @property
    def arrow(self) -> pa.DataType:
        return arrow_schemas.plain(arrow_schemas.arrow_type(self.kind))

    @property
    def stored(self) -> pa.Field:
        """The field as a column of its own."""
        return pa.field(str(self.field_id), self.arrow, metadata={arrow_schemas.FIELD_ID: str(self.field_id)})

    def values(self, array: pa.Array) -> pa.Array:
        """Values of a data file in the field's own type; an error if they cannot be."""
        field = iceberg.NestedField(self.field_id, self.name, self.kind, required=False)
        convert = project.converter(pa.field(self.name, array.type), field, pa.field(self.name, self.arrow))
        return array if convert is None else convert(array)

    def deleted_values(self, array: pa.Array) -> pa.Array:
        """Values of a delete file in the field's own type. ORC has no type for some, and reads times as nanoseconds."""
        if pa.types.is_fixed_size_binary(self.arrow) and pa.types.is_binary(array.type):
            return array.cast(self.arrow)
        if pa.types.is_time64(self.arrow) and pa.types.is_int64(array.type):
            return array.view(self.arrow)
        if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
            array = array.cast(pa.timestamp("us", array.type.tz))
        return self.values(array)


class KeyColumns:
    """Takes keys from batches of one schema, whose fields carry ids."""

    def __init__(self, fields: Sequence[KeyField], schema: pa.Schema) -> None:
        self.fields = fields
        leaves = {leaf.field_id: leaf for leaf in arrow_schemas.leaves(schema) if not leaf.repeated}
        self._paths = [leaf.path if (leaf := leaves.get(field.field_id)) else None for field in fields]
        self._holders = [
            None if path or not field.parents else _holder(schema, field)
            for field, path in zip(fields, self._paths, strict=True)
        ]
        self._hashers: list[checksum.Hasher | None] = []
        for field, path in zip(fields, self._paths, strict=True):
            kind = leaves[field.field_id].type if path else pa.dictionary(pa.int32(), field.missing.type)
            field.values(pa.nulls(0, kind))  # refuses a type that cannot be compared, which is not the same as no match
            skipped = path is None and field.missing.null_count  # nulls hash to nothing
            self._hashers.append(None if skipped else checksum.hasher(field.field_id, field.kind, kind))

    def arrays(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The key columns as the file has them."""
        arrays = []
        for field, path, holder in zip(self.fields, self._paths, self._holders, strict=True):
            if path is not None:
                arrays.append(_one_nan(load_deletes.leaf(batch, path)))
            else:
                nulls = None if holder is None else _nulls(batch, holder)
                zeros = pa.array(np.zeros(batch.num_rows, dtype=np.int32), mask=nulls)
                arrays.append(pa.DictionaryArray.from_arrays(zeros, _one_nan(field.missing)))
        return arrays

    def hashes(self, arrays: Sequence[pa.Array], rows: int) -> Callable[[int, int], NDArray[np.uint64]]:
        """From a range of rows to the hashes of their keys. The same key has the same hash whatever its type was."""
        bound = [of(array) for of, array in zip(self._hashers, arrays, strict=True) if of is not None]

        def of_range(start: int, stop: int) -> NDArray[np.uint64]:
            total = np.zeros(stop - start, dtype=np.uint64)
            for hashes in bound:
                total += hashes(start, stop)
            return total

        return of_range

    def values(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        """The key columns in the fields' own types."""
        return [field.values(array) for field, array in zip(self.fields, arrays, strict=True)]


def _holder(schema: pa.Schema, field: KeyField) -> tuple[int, ...] | None:
    """The path to the struct that would hold a missing field. A field has no value where that is null, nor in a file
    that lacks the struct, whose path is then empty; but the partition's value holds even there (None)."""
    path: tuple[int, ...] = ()
    struct: pa.Schema | pa.DataType = schema
    for number in field.parents:
        position = arrow_schemas.positions(struct).get(number)
        if position is None:
            return None if field.partitioned else ()
        path, struct = (*path, position), struct.field(position).type
    return path


def _nulls(batch: pa.RecordBatch, holder: tuple[int, ...]) -> NDArray[np.bool_]:
    if not holder:
        return np.ones(batch.num_rows, dtype=bool)
    nulls: NDArray[np.bool_] = load_deletes.leaf(batch, holder).is_null().to_numpy(zero_copy_only=False)
    return nulls


def equal(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> NDArray[np.bool_]:
    """Whether two keys are the same, row by row: null is null, NaN is NaN, and 0.0 is not -0.0, as in Java (R22)."""
    same: NDArray[np.bool_] | None = None
    for ours, theirs in zip(left, right, strict=True):
        equal_values = pc.equal(_bits(ours), _bits(theirs))
        if equal_values.null_count:
            equal_values = pc.coalesce(equal_values, pc.and_(ours.is_null(), theirs.is_null()))
        column = equal_values.to_numpy(zero_copy_only=False)
        same = column if same is None else same & column
    assert same is not None
    return same


def _bits(array: pa.Array) -> pa.Array:
    if pa.types.is_floating(array.type):
        return _one_nan(array.cast(pa.float64())).view(pa.int64())
    return array


def _one_nan(array: pa.Array) -> pa.Array:
    """The same values with a single bit pattern for NaN."""
    if not pa.types.is_floating(array.type):
        return array
    nans = pc.is_nan(array)
    return pc.if_else(nans, pa.scalar(float("nan"), array.type), array) if pc.any(nans).as_py() else array
