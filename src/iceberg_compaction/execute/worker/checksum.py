"""Order-independent 64-bit checksums of Arrow columns, vectorised. Arrow arrays come in, one hash per value goes out.

The algorithm is part of what snapshots store, so it never changes silently (golden tests pin it). All arithmetic is
modulo 2^64, `mix`, `fin` and the constants are those of `mixing`, S(id) = fin(id * G).
Every value first becomes a 64-bit digest:

    boolean, int, long, date, time, timestamps    the value as a signed integer, microseconds for times
    float, double                                 the bits of the double
    decimal                                       the 16 bytes of the unscaled value, little-endian, as bytes below
    string, binary, fixed, uuid                   L * length + sum over its 8-byte words w[j] of mix(w[j], j)
    struct                                        N + sum of the hashes of its fields
    list, map                                     L * length + sum over its entries e[j] of mix(e[j], j), where e is the
                                                  element's hash, or the sum of key's and value's hash plus N

A value's hash is fin(digest xor S(field id)), and 0 for null, so an absent column equals one that is all null. Words
are little-endian, the last one zero-padded. A column's checksum is the sum of its hashes; a row's hash is
fin(R + sum of the hashes of its columns), and the row checksum is the sum of those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg import types as iceberg

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import mixing, schemas

if TYPE_CHECKING:
    from collections.abc import Callable

Hashes = mixing.Hashes
CHUNK = 16384  # rows hashed at a time, so that every pass stays within the processor's cache
_ENTRIES = 1 << 16  # list entries hashed at a time


def salt(field_id: int) -> np.uint64:
    """S(id): keeps equal values of different columns apart."""
    return np.uint64(mixing.fin(np.array([field_id], dtype=np.uint64) * mixing.G)[0])


def row_hashes(sums: Hashes) -> Hashes:
    """Rows from the sums of their columns' hashes, in place."""
    np.add(sums, mixing.R, out=sums)
    return mixing.fin(sums)


def hasher(field_id: int, kind: iceberg.IcebergType, arrow_type: pa.DataType) -> Callable[[pa.Array], Hashes]:
    """A function from an array of `arrow_type`, as it came out of a file or goes into one, to hashes."""
    digest = _digester(kind, arrow_type)
    salted = salt(field_id)
    if pa.types.is_dictionary(arrow_type):
        return _dictionary_hasher(hasher(field_id, kind, arrow_type.value_type))

    def hashes(array: pa.Array) -> Hashes:
        x = digest(array)
        np.bitwise_xor(x, salted, out=x)
        return _clear_nulls(mixing.fin(x), array)

    return hashes


def _dictionary_hasher(of_values: Callable[[pa.Array], Hashes]) -> Callable[[pa.Array], Hashes]:
    """Hash each dictionary once. The last one is kept alive, so its address cannot come to mean another."""
    known: list[Any] = [None, None, np.zeros(1, dtype=np.uint64)]

    def hashes(array: pa.DictionaryArray) -> Hashes:
        values = array.dictionary
        address = tuple((b.address, b.size) for b in values.buffers() if b is not None), values.offset, len(values)
        if known[0] != address:
            known[:] = address, values, _in_chunks(of_values, values)
        if not len(values):
            return np.zeros(len(array), dtype=np.uint64)
        # An index under a null may be anything: clip it, the hash is cleared below.
        return _clear_nulls(known[2].take(mixing.fixed(array.indices), mode="clip"), array.indices)

    return hashes


def _in_chunks(function: Callable[[pa.Array], Hashes], array: pa.Array) -> Hashes:
    if len(array) <= CHUNK:
        return function(array)
    pieces = [function(array.slice(start, CHUNK)) for start in range(0, len(array), CHUNK)]
    return np.concatenate(pieces)


def _clear_nulls(x: Hashes, array: pa.Array) -> Hashes:
    if array.null_count:
        np.multiply(x, mixing.validity(array), out=x)
    return x


def _digester(kind: iceberg.IcebergType, arrow_type: pa.DataType) -> Callable[[pa.Array], Hashes]:
    if isinstance(arrow_type, pa.BaseExtensionType):
        stored = _digester(kind, arrow_type.storage_type)
        return lambda array: stored(array.storage)
    if pa.types.is_dictionary(arrow_type):
        return _digester(kind, arrow_type.value_type)
    if isinstance(kind, iceberg.StructType):
        return _struct_digester(kind, arrow_type)
    if isinstance(kind, (iceberg.ListType, iceberg.MapType)):
        return _list_digester(kind, arrow_type)
    return _primitive_digester(arrow_type)


def _primitive_digester(arrow_type: pa.DataType) -> Callable[[pa.Array], Hashes]:
    if pa.types.is_boolean(arrow_type):
        return lambda array: mixing.bits(array.buffers()[1], array.offset, len(array)).astype(np.uint64)
    if pa.types.is_floating(arrow_type):
        source = f"<f{arrow_type.bit_width // 8}"
        return lambda array: mixing.fixed(array, source).astype("<f8").view(np.uint64)
    if pa.types.is_decimal(arrow_type):
        return _decimal_digester(arrow_type)
    if pa.types.is_fixed_size_binary(arrow_type):
        width = arrow_type.byte_width
        return lambda array: mixing.fixed_bytes_digest(array, width)
    if pa.types.is_large_string(arrow_type) or pa.types.is_large_binary(arrow_type):
        return lambda array: mixing.bytes_digest(array, "<i8")
    if pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type):
        return lambda array: mixing.bytes_digest(array, "<i4")
    if pa.types.is_integer(arrow_type) or pa.types.is_temporal(arrow_type):
        factor = schemas.micros(arrow_type)
        return lambda array: _integer_digest(array, factor)
    raise errors.UnsupportedError(f"Values of Arrow type {arrow_type} cannot be checksummed.")


def _integer_digest(array: pa.Array, factor: int) -> Hashes:
    x = mixing.fixed(array).astype("<i8")
    if factor != 1:
        np.multiply(x, factor, out=x)
    return x.view(np.uint64)


def _decimal_digester(arrow_type: pa.DataType) -> Callable[[pa.Array], Hashes]:
    width = arrow_type.byte_width
    if width == 16:
        return lambda array: mixing.fixed_bytes_digest(array, 16)
    if width > 16:
        raise errors.UnsupportedError(f"Values of Arrow type {arrow_type} cannot be checksummed.")

    def narrow(array: pa.Array) -> Hashes:
        low = mixing.fixed(array, f"<i{width}").astype("<i8")
        return mixing.words_digest([low.view(np.uint64), (low >> 63).view(np.uint64)], len(array), 16)

    return narrow


def _struct_digester(kind: iceberg.StructType, arrow_type: pa.DataType) -> Callable[[pa.Array], Hashes]:
    children = []
    places = schemas.positions(arrow_type)
    for field in kind.fields:
        if (place := places.get(field.field_id)) is not None:
            of_child = hasher(field.field_id, field.field_type, arrow_type.field(place).type)
            children.append((place, of_child))

    def digest(array: pa.StructArray) -> Hashes:
        total = np.full(len(array), mixing.N, dtype=np.uint64)
        for place, of_child in children:
            total += _in_chunks(of_child, array.field(place))
        return total

    return digest


def _list_digester(kind: Any, arrow_type: pa.DataType) -> Callable[[pa.Array], Hashes]:
    of_entries = _entry_hasher(kind, arrow_type)
    offset_type = "<i8" if pa.types.is_large_list(arrow_type) else "<i4"

    def digest(array: pa.Array) -> Hashes:
        count = len(array)
        if not count:
            return np.zeros(0, dtype=np.uint64)
        width = int(offset_type[2])
        raw = np.frombuffer(array.buffers()[1], dtype=offset_type, count=count + 1, offset=array.offset * width)
        first, last = int(raw[0]), int(raw[-1])
        if last - first > _ENTRIES and count > 1:
            return np.concatenate([digest(array.slice(0, count // 2)), digest(array.slice(count // 2))])
        offsets = raw.astype(np.int64) - first
        entries = np.array(of_entries(array, first, last - first))
        total = np.diff(offsets).astype(np.uint64)
        np.multiply(total, mixing.L, out=total)
        total += mixing.entry_sums(entries, offsets)
        return total

    return digest


def _entry_hasher(kind: Any, arrow_type: pa.DataType) -> Callable[[pa.Array, int, int], Hashes]:
    if isinstance(kind, iceberg.ListType):
        of_element = hasher(kind.element_id, kind.element_type, arrow_type.value_type)
        return lambda array, first, count: _in_chunks(of_element, array.values.slice(first, count))
    of_key = hasher(kind.key_id, kind.key_type, arrow_type.key_type)
    of_value = hasher(kind.value_id, kind.value_type, arrow_type.item_type)

    def entries(array: pa.MapArray, first: int, count: int) -> Hashes:
        keys = _in_chunks(of_key, array.keys.slice(first, count))
        return keys + _in_chunks(of_value, array.items.slice(first, count)) + mixing.N

    return entries
