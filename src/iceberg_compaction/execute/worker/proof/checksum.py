"""Order-independent 64-bit checksums of Arrow columns, vectorised. Arrow arrays come in, one hash per value goes out.

The algorithm is part of what snapshots store, so it never changes silently (golden tests pin it). All arithmetic is
modulo 2^64; `mix`, `fin` and the constants are those of `hash64`. Every value first becomes a 64-bit digest:

    boolean, int, long, date, time, timestamps    the value as a signed integer, microseconds for times
    float, double                                 the bits of the double, those of a NaN as they are
    decimal of up to 18 digits                    the unscaled value as a signed integer
    decimal of more digits                        the 16 bytes of the unscaled value, little-endian, as bytes below
    string, binary, fixed, uuid                   L * length + sum over its 8-byte words w[j] of mix(w[j], j)
    struct                                        N + sum of the hashes of its fields
    list, map                                     L * length + sum over its entries e[j] of mix(e[j], j), where e is the
                                                  element's hash, or the sum of key's and value's hash plus N

Words are little-endian, the last one zero-padded. A value's hash is x ^ x >> 32 with x = (digest ^ S(id)) * M(id),
where S(id) = fin(id * G) and M(id) = fin(S(id)) | 1 for its field id; and 0 for null, so that an absent column equals
one that is all null. A column's checksum is the sum of its hashes. A row's hash is fin(R + sum of the hashes of its
columns), and the row checksum is the sum of those. Hashes are one-to-one, so a single changed value shows in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg import types as iceberg

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.formats import arrow_buffers, hash64

if TYPE_CHECKING:
    from numpy.typing import NDArray

Hashes = hash64.Hashes
Chunk = Callable[[int, int], Hashes]  # rows from, to (exclusive)
Hasher = Callable[[pa.Array], Chunk]
Constants = Mapping[int, pa.Array]
CHUNK = 16384  # rows hashed at a time, so that every pass stays within the processor's cache
_SMALL = 32  # values of a dictionary that is small
_SHORT_DECIMAL = 18  # digits that fit into 8 bytes
_ENTRIES = 1 << 16  # list entries hashed at a time
# Of a float: all but its sign, infinity (NaNs are above), the bit of a quiet NaN; and that of a double.
_UNSIGNED, _INFINITE, _QUIET = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000), np.uint32(0x00400000)
_WIDE_QUIET = np.uint64(1 << 51)


def salts(field_id: int) -> tuple[np.uint64, np.uint64]:
    """S(id) and M(id): keep equal values of different columns apart."""
    first = hash64.fin(np.array([field_id], dtype=np.uint64) * hash64.G)
    second = hash64.fin(first.copy()) | np.uint64(1)
    return np.uint64(first[0]), np.uint64(second[0])


def row_hashes(sums: Hashes) -> Hashes:
    """Rows from the sums of their columns' hashes, in place."""
    np.add(sums, hash64.R, out=sums)
    return hash64.fin(sums)


def hasher(
    field_id: int, kind: iceberg.IcebergType, arrow_type: pa.DataType, constants: Constants | None = None
) -> Hasher:
    """A function that takes an array of `arrow_type`, as it came out of a file or goes into one, and gives another one,
    from a range of rows (of at most CHUNK, for speed) to their hashes. `constants` are one-element arrays, by field id,
    for fields of structs that the type may lack; such a field is null otherwise."""
    if pa.types.is_dictionary(arrow_type):
        return _dictionary_hasher(hasher(field_id, kind, arrow_type.value_type))
    if pa.types.is_null(arrow_type):
        return lambda array: lambda start, stop: np.zeros(stop - start, dtype=np.uint64)
    digester = _digester(kind, arrow_type, constants or {})
    salt, factor = salts(field_id)

    def bind(array: pa.Array) -> Chunk:
        digest = digester(array)
        valid = arrow_buffers.validity(array) if array.null_count else None

        def hashes(start: int, stop: int) -> Hashes:
            x = np.bitwise_xor(digest(start, stop), salt)
            np.multiply(x, factor, out=x)
            hash64.fold(x)
            return x if valid is None else np.multiply(x, valid[start:stop], out=x)

        return hashes

    return bind


def all_hashes(function: Hasher, array: pa.Array) -> Hashes:
    """The hashes of a whole array."""
    chunk = function(array)
    pieces = [chunk(start, min(start + CHUNK, len(array))) for start in range(0, len(array), CHUNK)]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.uint64)


def _dictionary_hasher(of_values: Hasher) -> Hasher:
    """Hashes each dictionary once: small ones are recognised by their values, the last large one by its address; it is
    kept alive, so that its address cannot come to mean another."""
    small: dict[tuple[Any, ...], Hashes] = {}
    last: list[tuple[Any, pa.Array, Hashes] | None] = [None]  # replaced as a whole: threads may share a hasher

    def table_of(values: pa.Array) -> Hashes:
        if len(values) <= _SMALL and pa.types.is_string(values.type):
            key = tuple(values.view(pa.binary()).to_pylist())
            if key not in small:
                small[key] = all_hashes(of_values, values) if key else np.zeros(1, dtype=np.uint64)
            return small[key]
        address = tuple((b.address, b.size) for b in values.buffers() if b is not None), values.offset, len(values)
        held = last[0]
        if held is None or held[0] != address:
            hashes = all_hashes(of_values, values) if len(values) else np.zeros(1, dtype=np.uint64)
            held = last[0] = address, values, hashes
        return held[2]

    def bind(array: pa.DictionaryArray) -> Chunk:
        table = table_of(array.dictionary)
        indices = arrow_buffers.fixed(array.indices)
        valid = arrow_buffers.validity(array.indices) if array.indices.null_count else None

        def hashes(start: int, stop: int) -> Hashes:
            # An index under a null may be anything: clip it, its hash is cleared.
            x: Hashes = table.take(indices[start:stop], mode="clip")
            return x if valid is None else np.multiply(x, valid[start:stop], out=x)

        return hashes

    return bind


def _digester(kind: iceberg.IcebergType, arrow_type: pa.DataType, constants: Constants) -> Hasher:
    if isinstance(arrow_type, pa.BaseExtensionType):
        stored = _digester(kind, arrow_type.storage_type, constants)
        return lambda array: stored(array.storage)
    if isinstance(kind, iceberg.StructType):
        return _struct_digester(kind, arrow_type, constants)
    if isinstance(kind, (iceberg.ListType, iceberg.MapType)):
        return _list_digester(kind, arrow_type, constants)
    if isinstance(kind, iceberg.DecimalType):
        return _decimal_digester(kind, arrow_type)
    if pa.types.is_fixed_size_binary(arrow_type):
        width = arrow_type.byte_width
        return lambda array: lambda start, stop: hash64.fixed_bytes_digest(array, width, start, stop)
    if pa.types.is_large_string(arrow_type) or pa.types.is_large_binary(arrow_type):
        return lambda array: hash64.bytes_digester(array, "<i8")
    if pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type):
        return lambda array: hash64.bytes_digester(array, "<i4")
    if isinstance(kind, iceberg.FloatType) and pa.types.is_float32(arrow_type):
        return _float_digester
    return _number_digester(arrow_type)


def _float_digester(array: pa.Array) -> Chunk:
    values = arrow_buffers.fixed(array, "<f4")
    return lambda start, stop: _widened(values[start:stop])


def _widened(values: NDArray[np.float32]) -> Hashes:
    """Floats as the bits of doubles. The processor makes every NaN a quiet one, so signalling ones are restored."""
    with np.errstate(invalid="ignore"):
        wide: Hashes = values.astype(np.dtype("<f8")).view(np.uint64)
    bits = values.view(np.dtype("<u4"))
    unsigned = np.bitwise_and(bits, _UNSIGNED)
    if np.maximum.reduce(unsigned, initial=0) > _INFINITE:
        wide[(unsigned > _INFINITE) & (bits & _QUIET == 0)] &= ~_WIDE_QUIET
    return wide


def _number_digester(arrow_type: pa.DataType) -> Hasher:
    if pa.types.is_boolean(arrow_type):

        def of_booleans(array: pa.Array) -> Chunk:
            values = arrow_buffers.bits(array.buffers()[1], array.offset, len(array))
            return lambda start, stop: values[start:stop].astype(np.uint64)

        return of_booleans
    if pa.types.is_floating(arrow_type):
        return _number_reader(f"<f{arrow_type.bit_width // 8}", "<f8", 1)
    if pa.types.is_integer(arrow_type) or pa.types.is_temporal(arrow_type):
        sign = "u" if pa.types.is_unsigned_integer(arrow_type) else "i"
        return _number_reader(f"<{sign}{arrow_type.bit_width // 8}", "<i8", arrow_schemas.micros(arrow_type))
    raise errors.UnsupportedError(f"Values of Arrow type {arrow_type} cannot be checksummed.")


def _number_reader(stored: str, wide: str, factor: int) -> Hasher:
    def bind(array: pa.Array) -> Chunk:
        values = arrow_buffers.fixed(array, stored)
        if stored[2:] == "8" and factor == 1:
            words = values.view(np.uint64)
            return lambda start, stop: words[start:stop]

        def digest(start: int, stop: int) -> Hashes:
            with np.errstate(invalid="ignore"):  # a column that became wider has no signalling NaNs any more
                x = values[start:stop].astype(wide, copy=False)
            return (x if factor == 1 else x * factor).view(np.uint64)

        return digest

    return bind


def _decimal_digester(kind: iceberg.DecimalType, arrow_type: pa.DataType) -> Hasher:
    width = arrow_type.byte_width
    if width > 16:
        raise errors.UnsupportedError(f"Values of Arrow type {arrow_type} cannot be checksummed.")
    if width == 16 and kind.precision > _SHORT_DECIMAL:
        return lambda array: lambda start, stop: hash64.fixed_bytes_digest(array, 16, start, stop)

    def bind(array: pa.Array) -> Chunk:
        # Of 16 bytes the low 8 are enough: the high ones only repeat the sign.
        values = arrow_buffers.fixed(array, "<i8,<i8" if width == 16 else f"<i{width}")
        values = values["f0"] if width == 16 else values

        def digest(start: int, stop: int) -> Hashes:
            low = values[start:stop].astype("<i8", copy=False)
            if kind.precision <= _SHORT_DECIMAL:
                return low.view(np.uint64)
            return hash64.words_digest([low.view(np.uint64), (low >> 63).view(np.uint64)], len(low), 16)

        return digest

    return bind


def _struct_digester(kind: iceberg.StructType, arrow_type: pa.DataType, constants: Constants) -> Hasher:
    positions = arrow_schemas.positions(arrow_type)
    children, base = [], np.full(1, hash64.N, dtype=np.uint64)
    for field in kind.fields:
        if (position := positions.get(field.field_id)) is not None:
            below = hasher(field.field_id, field.field_type, arrow_type.field(position).type, constants)
            children.append((position, below))
        elif (value := constants.get(field.field_id)) is not None:
            base += all_hashes(hasher(field.field_id, field.field_type, value.type), value)

    def bind(array: pa.StructArray) -> Chunk:
        bound = [function(array.field(position)) for position, function in children]

        def digest(start: int, stop: int) -> Hashes:
            total = np.full(stop - start, base[0], dtype=np.uint64)
            for child in bound:
                total += child(start, stop)
            return total

        return digest

    return bind


def _list_digester(kind: Any, arrow_type: pa.DataType, constants: Constants) -> Hasher:
    of_entries = _entry_hasher(kind, arrow_type, constants)
    offset_type = "<i8" if pa.types.is_large_list(arrow_type) else "<i4"

    def bind(array: pa.Array) -> Chunk:
        every = arrow_buffers.offsets(array, offset_type)

        def digest_few(start: int, stop: int) -> Hashes:
            first, last = int(every[start]), int(every[stop])
            offsets = every[start : stop + 1].astype(np.int64) - first
            total = np.diff(offsets).astype(np.uint64)
            np.multiply(total, hash64.L, out=total)
            total += hash64.entry_sums(of_entries(array, first, last - first), offsets)
            return total

        # Two functions, as one that calls itself is a cycle that keeps the array until the next garbage collection.
        def digest(start: int, stop: int) -> Hashes:
            if int(every[stop]) - int(every[start]) <= _ENTRIES:
                return digest_few(start, stop)
            total = np.empty(stop - start, dtype=np.uint64)
            at = start
            while at < stop:
                reach = np.searchsorted(every[at + 1 : stop + 1], int(every[at]) + _ENTRIES, side="right")
                end = at + max(1, int(reach))
                total[at - start : end - start] = digest_few(at, end)
                at = end
            return total

        return digest

    return bind


def _entry_hasher(kind: Any, arrow_type: pa.DataType, constants: Constants) -> Callable[[pa.Array, int, int], Hashes]:
    if isinstance(kind, iceberg.ListType):
        of_element = hasher(kind.element_id, kind.element_type, arrow_type.value_type, constants)
        return lambda array, first, count: all_hashes(of_element, array.values.slice(first, count))
    of_key = hasher(kind.key_id, kind.key_type, arrow_type.key_type, constants)
    of_value = hasher(kind.value_id, kind.value_type, arrow_type.item_type, constants)

    def entries(array: pa.MapArray, first: int, count: int) -> Hashes:
        keys = all_hashes(of_key, array.keys.slice(first, count))
        return keys + all_hashes(of_value, array.items.slice(first, count)) + hash64.N

    return entries
