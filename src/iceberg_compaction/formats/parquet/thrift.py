"""Thrift's compact protocol, as far as Parquet uses it: structs are parsed into plain values and composed again without
loss, whatever their fields mean. A struct is a dict from field number to (type, value), a list is (element
type, values), everything else is itself, single bytes without a sign."""

from __future__ import annotations

import struct as packing
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, _, STRUCT = range(1, 13)
Struct = dict[int, tuple[int, Any]]

_DEEPEST = 64
_NUMBERS = 1 << 15  # field numbers are 16 bits wide


def parse(data: bytes, at: int = 0, last: int = 0) -> tuple[Struct, int]:
    """The struct that begins at an offset, and the offset of its end. Raises ValueError if the bytes are no struct.
    `last`: the number of the field before that offset, where the first fields are passed over."""
    try:
        return _struct(data, at, 0, last)
    except IndexError:
        raise ValueError("a Thrift struct ends too early") from None


def parse_list(data: bytes, at: int) -> tuple[Any, int]:
    """The list that begins at an offset, and the offset of its end."""
    try:
        return _list(data, at, 1)
    except IndexError:
        raise ValueError("a Thrift list ends too early") from None


def _struct(data: bytes, at: int, depth: int, number: int = 0) -> tuple[Struct, int]:
    if depth > _DEEPEST:
        raise ValueError("a Thrift struct is nested too deeply")
    fields: Struct = {}
    value: Any
    while head := data[at]:
        at += 1
        if step := head >> 4:
            number += step
        else:
            number, at = _number(data, at)
        kind = head & 15
        if number in fields or not -_NUMBERS <= number < _NUMBERS:
            raise ValueError(f"a Thrift struct has a wrong field number {number}")
        if kind <= FALSE:
            fields[number] = (kind, kind == TRUE)
            continue
        if kind in (I32, I64):
            raw = data[at]
            if raw < 128:
                at += 1
            else:
                raw, at = varint(data, at)
            value = (raw >> 1) ^ -(raw & 1)
        else:
            value, at = _value(data, at, kind, depth)
        fields[number] = (kind, value)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == STRUCT:
        return _struct(data, at, depth + 1)
    if kind == BINARY:
        length, at = varint(data, at)
        return _bytes(data, at, length)
    if kind in (LIST, SET):
        return _list(data, at, depth + 1)
    if kind in (I16, I32, I64):
        return _number(data, at)
    if kind in (TRUE, FALSE):  # in a list
        return data[at] == TRUE, at + 1
    if kind == BYTE:
        return data[at], at + 1
    if kind == DOUBLE:
        raw, at = _bytes(data, at, 8)
        return packing.unpack("<d", raw)[0], at
    raise ValueError(f"Parquet has no Thrift type {kind}")


def _list(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > _DEEPEST:
        raise ValueError("a Thrift struct is nested too deeply")
    head = data[at]
    at += 1
    kind, count = head & 15, head >> 4
    if count == 15:
        count, at = varint(data, at)
    if count > len(data) - at:  # every value takes a byte at least
        raise ValueError("a Thrift list ends too early")
    values = []
    for _ in range(count):
        value, at = _value(data, at, kind, depth)
        values.append(value)
    return (kind, values), at


def _bytes(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    end = at + length
    if end > len(data):
        raise ValueError("a Thrift string ends too early")
    return data[at:end], end


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number that is not negative, and the offset of its end."""
    byte = data[at]
    if byte < 128:  # most are small
        return byte, at + 1
    value, shift = byte & 127, 7
    while True:
        at += 1
        byte = data[at]
        if byte < 128:
            break
        value |= (byte & 127) << shift
        shift += 7
        if shift == 70:
            raise ValueError("a Thrift number is too long")
    value |= byte << shift
    if shift == 63 and byte > 1:
        raise ValueError("a Thrift number is too long")
    return value, at + 1


def _number(data: bytes, at: int) -> tuple[int, int]:
    raw = data[at]
    if raw < 128:
        return (raw >> 1) ^ -(raw & 1), at + 1
    raw, at = varint(data, at)
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
            _put_number(out, number)
        if kind in (I32, I64):
            raw = below << 1 if below >= 0 else (-below << 1) - 1
            while raw > 127:
                out.append(raw & 127 | 128)
                raw >>= 7
            out.append(raw)
        elif kind > FALSE:
            _put(out, kind, below)
        last = number
    out.append(0)


def _put(out: bytearray, kind: int, value: Any) -> None:
    if kind == STRUCT:
        _put_struct(out, value)
    elif kind in (I16, I32, I64):
        _put_number(out, value)
    elif kind == BINARY:
        put_varint(out, len(value))
        out += value
    elif kind in (LIST, SET):
        below, values = value
        out.append(min(len(values), 15) << 4 | below)
        if len(values) >= 15:
            put_varint(out, len(values))
        for each in values:
            _put(out, below, each)
    elif kind == DOUBLE:
        out += packing.pack("<d", value)
    elif kind == BYTE:
        out.append(value)
    else:
        out.append(TRUE if value else FALSE)


def put_varint(out: bytearray, value: int) -> None:
    """Append a number that is not negative."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _put_number(out: bytearray, value: int) -> None:
    put_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
