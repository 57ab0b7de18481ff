"""Encodes Arrow columns as Avro records, steered by the Avro schema; no Python per record. Each field gives parts of
its record's bytes: a narrow part is a matrix of bytes with a mask of those that count (varints, union branches,
numbers, fixed), a wide part is an Arrow binary array (strings, bytes, array items). A record is its parts joined row by
row."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_decode, container

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from numpy.typing import NDArray

    Rows: TypeAlias = NDArray[np.bool_] | None  # the rows that are written at all; None: every row
    Part: TypeAlias = "Narrow | pa.Array"  # wide: a binary array without nulls
    Encode: TypeAlias = Callable[[dict[str, Any], pa.Array, Rows], list[Part]]

BLOCK_BYTES = 64 << 10  # the target of Iceberg's own writer
BATCH_BYTES = 4 << 20  # enough for numpy's fixed costs to vanish, and far below the 2 GiB of binary offsets
_EMPTY = pa.scalar(b"", pa.binary())
_SIZES = {"int": 4, "long": 8, "float": 4, "double": 8}


@dataclass(frozen=True, slots=True)
class Narrow:
    """Bytes [rows, width], and which of them count; None: all."""

    matrix: NDArray[np.uint8]
    mask: NDArray[np.bool_] | None = None


def blocks(
    schema: dict[str, Any], table: pa.Table, codec: str, sync: bytes, borders: NDArray[np.int64] | None = None
) -> Iterator[bytes]:
    """The rows as framed container blocks, in order. No block goes across a border, which is the number of a row."""
    compress = container.compressor(codec)
    start = 0
    for encoded in records(schema, table):
        offsets, data = offsets_of(encoded), memoryview(encoded.buffers()[2] or b"")
        cuts = np.searchsorted(offsets, np.arange(0, max(1, int(offsets[-1])), BLOCK_BYTES))
        if borders is not None:
            own = borders[(borders >= start) & (borders <= start + len(encoded))] - start
            cuts = np.append(cuts, own)
        cuts = np.unique(np.append(cuts, len(encoded)))
        for first, last in itertools.pairwise(cuts.tolist()):
            body = compress(data[int(offsets[first]) : int(offsets[last])])
            yield container.block(last - first, body, sync)
        start += len(encoded)


def records(schema: dict[str, Any], table: pa.Table) -> Iterator[pa.Array]:
    """The rows as Avro records, in order: a binary array for each batch."""
    encoder = Encoder(schema)
    for batch in _batches(table):
        yield encoder.encode(batch)


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches():
        rows = max(1, batch.num_rows * BATCH_BYTES // max(1, batch.nbytes))
        for first in range(0, batch.num_rows, rows):
            yield batch.slice(first, rows)


class Encoder:
    """Encodes batches by one schema. Fields are looked up by name; a field that the batch lacks is null."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._named: dict[str, dict[str, Any]] = {}
        self._learn(schema)
        self._kinds: dict[str, Encode] = {
            "record": self._record,
            "array": self._array,
            "string": _text,
            "bytes": _bytes,
            "fixed": _fixed,
            "boolean": _boolean,
            "int": _integer,
            "long": _integer,
            "float": _float,
            "double": _float,
        }

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """A binary array with one Avro record per row."""
        return join(self._parts(self._schema, batch.to_struct_array(), None))

    def _learn(self, schema: Any) -> None:
        """A named type is defined once and then referred to by its name."""
        for kind in schema if isinstance(schema, list) else [schema]:
            if isinstance(kind, dict):
                if "name" in kind:
                    self._named[kind["name"].rpartition(".")[2]] = kind
                for inner in (*(field["type"] for field in kind.get("fields", ())), kind["type"], kind.get("items")):
                    self._learn(inner)

    def _parts(self, schema: Any, values: pa.Array, rows: Rows) -> list[Part]:
        if isinstance(schema, str):
            schema = self._named.get(schema.rpartition(".")[2], {"type": schema})
        if isinstance(schema, list):
            return self._union(schema, values, rows)
        if not isinstance(schema["type"], str):
            return self._parts(schema["type"], values, rows)
        if values.null_count and not (_valid(values) if rows is None else _valid(values) | ~rows).all():
            raise ValueError(f"null in a required Avro field: {schema}")
        if schema["type"] not in self._kinds:
            raise _unsupported(f"the Avro type {schema['type']!r}")
        return self._kinds[schema["type"]](schema, values, rows)

    def _union(self, schema: list[Any], values: pa.Array, rows: Rows) -> list[Part]:
        if len(schema) != 2 or "null" not in schema:
            raise _unsupported(f"the Avro union {schema}")
        value_branch = 1 - schema.index("null")
        if not values.null_count:
            return [_constant(2 * value_branch, len(values), rows), *self._parts(schema[value_branch], values, rows)]
        valid = _valid(values)
        branch = np.where(valid, 2 * value_branch, 2 - 2 * value_branch).astype(np.uint8)[:, None]
        written = valid if rows is None else valid & rows
        rest = self._parts(schema[value_branch], values, written) if written.any() else []
        return [_narrow(branch, rows), *rest]

    def _record(self, schema: dict[str, Any], values: pa.Array, rows: Rows) -> list[Part]:
        names = {field.name for field in values.type}
        parts = []
        for field in schema["fields"]:
            name, kind = field["name"], field["type"]
            if not avro_decode.is_empty_record(kind):
                parts += self._parts(kind, values.field(name) if name in names else pa.nulls(len(values)), rows)
        return parts

    def _array(self, schema: dict[str, Any], values: pa.Array, rows: Rows) -> list[Part]:
        offsets = np.asarray(values.offsets)
        counts = np.diff(offsets)
        items = values.values.slice(offsets[0], offsets[-1] - offsets[0])
        if not len(items):
            return [_constant(0, len(values), rows)]
        item_rows = np.repeat(rows, counts) if rows is not None and counts[~rows].any() else None
        encoded = join(self._parts(schema["items"], items, item_rows))
        filled = counts > 0 if rows is None else rows & (counts > 0)  # an empty array has no block, only the end
        ends = offsets_of(encoded)[offsets - offsets[0]]
        return [_varint(counts, filled), _wide(ends, encoded.buffers()[2]), _constant(0, len(values), rows)]


def join(parts: list[Part]) -> pa.Array:
    """Parts joined row by row into one binary array."""
    arrays: list[pa.Array] = []
    for narrow, group in itertools.groupby(parts, lambda part: isinstance(part, Narrow)):
        members = list(group)
        arrays += [_squeeze(members)] if narrow else members
    return arrays[0] if len(arrays) == 1 else pc.binary_join_element_wise(*arrays, _EMPTY)


def _squeeze(parts: list[Narrow]) -> pa.Array:
    """Adjacent narrow parts as one binary array."""
    matrix = np.hstack([part.matrix for part in parts]) if len(parts) > 1 else np.ascontiguousarray(parts[0].matrix)
    if all(part.mask is None for part in parts):
        return _wide(np.arange(len(matrix) + 1) * matrix.shape[1], pa.py_buffer(matrix))
    mask = np.hstack([np.broadcast_to(True, p.matrix.shape) if p.mask is None else p.mask for p in parts])
    lengths = np.zeros(len(matrix) + 1, np.int32)
    for column in mask.T:
        lengths[1:] += column
    return _wide(np.cumsum(lengths, dtype=np.int32), pa.py_buffer(matrix[mask]))


def _wide(offsets: NDArray[Any], data: pa.Buffer | None) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32, copy=False)), data]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _narrow(matrix: NDArray[np.uint8], rows: Rows, mask: NDArray[np.bool_] | None = None) -> Narrow:
    if rows is not None:
        mask = np.broadcast_to(rows[:, None], matrix.shape) if mask is None else mask & rows[:, None]
    return Narrow(matrix, mask)


def _constant(value: int, count: int, rows: Rows) -> Narrow:
    return _narrow(np.full((count, 1), value, np.uint8), rows)


def _varint(values: NDArray[Any], rows: Rows) -> Narrow:
    """Zig-zag varints. Values of rows that are not written may be anything."""
    low, high = int(values.min()), int(values.max())
    if low >= 0 and high < 64:
        return _narrow(np.left_shift(values.astype(np.uint8), np.uint8(1))[:, None], rows)
    values = values.astype(np.int64, copy=False)
    rest: NDArray[Any] = (values << 1 if low >= 0 else (values << 1) ^ (values >> 63)).view(np.uint64)
    width = -(-int(rest.max()).bit_length() // 7)
    rest = rest.astype(np.uint32) if width < 5 else rest
    matrix, mask = np.empty((len(values), width), np.uint8), np.ones((len(values), width), np.bool_)
    for digit in range(width):
        matrix[:, digit] = rest.astype(np.uint8)
        rest = rest >> 7
        if digit + 1 < width:
            more = mask[:, digit + 1] = rest != 0
            matrix[:, digit] = matrix[:, digit] & 127 | more.view(np.uint8) << 7
    return _narrow(matrix, rows, mask)


def _text(schema: dict[str, Any], values: pa.Array, rows: Rows) -> list[Part]:
    if values.type not in (pa.string(), pa.binary()):
        wider = (pa.large_string(), pa.large_binary(), pa.string_view(), pa.binary_view(), pa.null())
        if values.type not in wider:  # DataFusion turns uuid strings into 16 bytes
            raise _unsupported(f"{values.type} values of the Avro type {schema}")
        values = values.cast(pa.binary())
    values = values.view(pa.binary())
    if rows is not None:
        values = pc.if_else(pa.array(rows), values, _EMPTY)
    return [_varint(np.diff(offsets_of(values)), rows), _wide(offsets_of(values), values.buffers()[2])]


def _bytes(schema: dict[str, Any], values: pa.Array, rows: Rows) -> list[Part]:
    if not pa.types.is_decimal(values.type):
        return _text(schema, values, rows)
    matrix = _decimal(values)
    sign = matrix[:, :1] >> 7  # leading bytes that only repeat the sign are not written
    spare = np.logical_and.accumulate((matrix[:, :-1] == sign * 255) & (matrix[:, 1:] >> 7 == sign), axis=1)
    mask = np.hstack([~spare, np.ones((len(values), 1), np.bool_)])
    return [_varint(mask.sum(axis=1), rows), _narrow(matrix, rows, mask)]


def _fixed(schema: dict[str, Any], values: pa.Array, rows: Rows) -> list[Part]:
    if pa.types.is_decimal(values.type):
        return [_narrow(_decimal(values)[:, 16 - schema["size"] :], rows)]
    return [_narrow(_matrix(getattr(values, "storage", values), schema["size"]), rows)]


def _float(schema: dict[str, Any], values: pa.Array, rows: Rows) -> list[Part]:
    return [_narrow(_matrix(values, _SIZES[schema["type"]]), rows)]


def _integer(schema: dict[str, Any], values: pa.Array, rows: Rows) -> list[Part]:
    size = _SIZES[schema["type"]]
    return [_varint(_matrix(values, size).view(f"i{size}")[:, 0], rows)]


def _boolean(schema: dict[str, Any], values: pa.Array, rows: Rows) -> list[Part]:
    return [_narrow(_matrix(values.cast(pa.uint8()), 1), rows)]


def _decimal(values: pa.Array) -> NDArray[np.uint8]:
    return _matrix(values, 16)[:, ::-1]  # Decimal128 as big-endian bytes


def _matrix(values: pa.Array, width: int) -> NDArray[np.uint8]:
    """The bytes behind fixed-width values, offset honoured; the bytes under nulls have no meaning."""
    if values.type.bit_width != 8 * width:
        raise _unsupported(f"{values.type} values where Avro has {width} bytes")
    count = (values.offset + len(values)) * width
    return np.frombuffer(values.buffers()[1], np.uint8, count)[values.offset * width :].reshape(-1, width)


def offsets_of(values: pa.Array) -> NDArray[np.int32]:
    """The offset of each value of a text or binary array in its bytes, and the end of the last."""
    return np.frombuffer(values.buffers()[1], np.int32, values.offset + len(values) + 1)[values.offset :]


def _valid(values: pa.Array) -> NDArray[np.bool_]:
    valid: NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _unsupported(what: str) -> errors.UnsupportedError:
    return errors.UnsupportedError(f"Manifests with {what} cannot be rewritten yet.")
