"""Thrift's compact protocol, as far as Parquet needs it: structs come apart into plain values and go together again
without loss, whatever their fields mean. A struct is a dict from field number to (type, value), a list is (element
type, values), a map (key type, value type, pairs); everything else is itself, single bytes without a sign."""

from __future__ import annotations

import struct as packing
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
Struct = dict[int, tuple[int, Any]]

_DEEPEST = 64
_NUMBERS = 1 << 15  # field numbers are 16 bits wide


def parse(data: bytes, at: int = 0) -> tuple[Struct, int]:
    """The struct that begins at a place, and where it ends. ValueError: the bytes are no such thing."""
    try:
        return _struct(data, at, 0)
    except IndexError:
        raise ValueError("a Thrift struct ends too early") from None


def _struct(data: bytes, at: int, depth: int) -> tuple[Struct, int]:
    if depth > _DEEPEST:
        raise ValueError("a Thrift struct is nested too deeply")
    found: Struct = {}
    number = 0
    while head := data[at]:
        at += 1
        if step := head >> 4:
            number += step
        else:
            number, at = _zigzag(data, at)
        kind = head & 15
        if number in found or not -_NUMBERS <= number < _NUMBERS:
            raise ValueError(f"a Thrift struct has no right field number {number}")
        if kind <= FALSE:
            found[number] = (kind, kind == TRUE)
            continue
        if kind in (I32, I64):
            if (raw := data[at]) < 128:  # most numbers are small
                at += 1
            else:
                raw, at = _varint(data, at)
            found[number] = (kind, (raw >> 1) ^ -(raw & 1))
            continue
        value, at = _value(data, at, kind, depth)
        found[number] = (kind, value)
    return found, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == STRUCT:
        return _struct(data, at, depth + 1)
    if kind == BINARY:
        count, at = _varint(data, at)
        return _bytes(data, at, count)
    if I16 <= kind <= I64:
        return _zigzag(data, at)
    if kind in (LIST, SET):
        return _list(data, at, depth)
    if kind in (TRUE, FALSE):  # in a list or a map
        return data[at] == TRUE, at + 1
    if kind == BYTE:
        return data[at], at + 1
    if kind == DOUBLE:
        raw, at = _bytes(data, at, 8)
        return packing.unpack("<d", raw)[0], at
    if kind == UUID:
        return _bytes(data, at, 16)
    if kind == MAP:
        return _map(data, at, depth)
    raise ValueError(f"Thrift has no type {kind}")


def _list(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    head = data[at]
    at += 1
    kind, count = head & 15, head >> 4
    if count == 15:
        count, at = _varint(data, at)
    _check_count(data, at, count, depth)
    if kind == BINARY:
        values, at = _strings(data, at, count)
        return (kind, values), at
    values = []
    for _ in range(count):
        value, at = _struct(data, at, depth + 1) if kind == STRUCT else _value(data, at, kind, depth + 1)
        values.append(value)
    return (kind, values), at


def _strings(data: bytes, at: int, count: int) -> tuple[list[Any], int]:
    """Page indexes are lists of many short ones."""
    values = []
    for _ in range(count):
        if (length := data[at]) < 128:
            at += 1
        else:
            length, at = _varint(data, at)
        values.append(data[at : at + length])
        at += length
    if at > len(data):
        raise ValueError("a Thrift string ends too early")
    return values, at


def _map(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    count, at = _varint(data, at)
    if not count:
        return (0, 0, []), at
    _check_count(data, at, count, depth)
    kinds = data[at]
    at += 1
    pairs = []
    for _ in range(count):
        key, at = _value(data, at, kinds >> 4, depth + 1)
        value, at = _value(data, at, kinds & 15, depth + 1)
        pairs.append((key, value))
    return (kinds >> 4, kinds & 15, pairs), at


def _check_count(data: bytes, at: int, count: int, depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError("a Thrift struct is nested too deeply")
    if count > len(data) - at:  # every value takes a byte at least
        raise ValueError("a Thrift list ends too early")


def _bytes(data: bytes, at: int, count: int) -> tuple[bytes, int]:
    end = at + count
    if end > len(data):
        raise ValueError("a Thrift string ends too early")
    return data[at:end], end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while (byte := data[at]) > 127:
        found |= (byte & 127) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise ValueError("a Thrift number is too long")
    found |= byte << shift
    if found >> 64:
        raise ValueError("a Thrift number is too long")
    return found, at + 1


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    raw, at = _varint(data, at)
    return (raw >> 1) ^ -(raw & 1), at


def compose(value: Struct) -> bytes:
    """The bytes of a struct, its fields in the order of their numbers."""
    out = bytearray()
    _put_struct(out, value)
    return bytes(out)


def _put_struct(out: bytearray, value: Struct) -> None:
    last = 0
    for number in sorted(value):
        kind, below = value[number]
        code = (TRUE if below else FALSE) if kind <= FALSE else kind
        step = number - last
        if 0 < step < 16:
            out.append(step << 4 | code)
        else:
            out.append(code)
            _put_zigzag(out, number)
        if kind > FALSE:
            _put(out, kind, below)
        last = number
    out.append(0)


def _put(out: bytearray, kind: int, value: Any) -> None:
    if kind == STRUCT:
        _put_struct(out, value)
    elif I16 <= kind <= I64:
        _put_zigzag(out, value)
    elif kind == BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind in (LIST, SET):
        below, values = value
        out.append(min(len(values), 15) << 4 | below)
        if len(values) >= 15:
            _put_varint(out, len(values))
        for each in values:
            _put(out, below, each)
    elif kind == MAP:
        _put_map(out, *value)
    elif kind == DOUBLE:
        out += packing.pack("<d", value)
    elif kind == UUID:
        out += value
    else:
        out.append(value if kind == BYTE else TRUE if value else FALSE)


def _put_map(out: bytearray, keys: int, values: int, pairs: list[tuple[Any, Any]]) -> None:
    _put_varint(out, len(pairs))
    if pairs:
        out.append(keys << 4 | values)
    for key, value in pairs:
        _put(out, keys, key)
        _put(out, values, value)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _put_zigzag(out: bytearray, value: int) -> None:
    _put_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
