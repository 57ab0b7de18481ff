"""Thrift's compact protocol, as far as Parquet needs it: structs come apart into plain values and go together again.
A struct is a dict from field number to (type, value), a list is (element type, values), everything else is itself."""

from __future__ import annotations

import struct
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, _, STRUCT = range(1, 13)
Struct = dict[int, tuple[int, Any]]


class Reader:
    """Takes values from bytes; `at` is where the next one begins."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    def struct(self) -> Struct:
        found: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            found[number] = (head & 15, self._value(head & 15))
        return found

    def _value(self, kind: int, *, listed: bool = False) -> Any:
        if kind in (TRUE, FALSE):
            return self._byte() == TRUE if listed else kind == TRUE
        if kind == BYTE:
            return self._byte()
        if kind in (I16, I32, I64):
            return self._zigzag()
        if kind == DOUBLE:
            return struct.unpack("<d", self._take(8))[0]
        if kind == BINARY:
            return self._take(self._varint())
        if kind in (LIST, SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return head & 15, [self._value(head & 15, listed=True) for _ in range(count)]
        assert kind == STRUCT, kind
        return self.struct()

    def _take(self, count: int) -> bytes:
        self.at += count
        return self._data[self.at - count : self.at]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    def _zigzag(self) -> int:
        raw = self._varint()
        return (raw >> 1) ^ -(raw & 1)


def compose(value: Struct) -> bytes:
    """The bytes of a struct."""
    parts, last = [], 0
    for number, (kind, below) in sorted(value.items()):
        code = (TRUE if below else FALSE) if kind in (TRUE, FALSE) else kind
        step = number - last
        parts.append(bytes([step << 4 | code]) if 0 < step < 16 else bytes([code]) + _zigzag(number))
        if kind not in (TRUE, FALSE):
            parts.append(_composed(kind, below))
        last = number
    return b"".join(parts) + b"\0"


def _composed(kind: int, value: Any) -> bytes:
    if kind in (TRUE, FALSE):
        return bytes([TRUE if value else FALSE])
    if kind == BYTE:
        return bytes([value])
    if kind in (I16, I32, I64):
        return _zigzag(value)
    if kind == DOUBLE:
        return struct.pack("<d", value)
    if kind == BINARY:
        return _varint(len(value)) + bytes(value)
    if kind in (LIST, SET):
        below, values = value
        head = bytes([len(values) << 4 | below]) if len(values) < 15 else bytes([0xF0 | below]) + _varint(len(values))
        return head + b"".join(_composed(below, each) for each in values)
    assert kind == STRUCT, kind
    return compose(value)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _zigzag(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)
