"""Encodes row groups straight into a file that others are copied to. pyarrow writes as if to a file of its own: the row
group's bytes pass through; the bytes before the first row group and behind the last are held back."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction.formats.parquet import parquet_footer

if TYPE_CHECKING:
    from iceberg_compaction.formats.parquet import byte_ranges


def template(columns: pa.Schema, arguments: dict[str, Any]) -> parquet_footer.RawFooter:
    """The footer of a file without rows: schema elements and column orders as pyarrow would write them."""
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, columns, **arguments).close()
    data = sink.getvalue().to_pybytes()
    return parquet_footer.parse("", data, len(data))


class Encoded:
    """The bytes that pyarrow wrote behind the row groups. Their offsets are those of a file that began `shift` bytes
    later."""

    def __init__(self, end: bytes, before: int, shift: int) -> None:
        self.footer = parquet_footer.parse("", end, before + len(end))
        self.shift = shift
        self.bounds = (before, before + len(end))
        self._end = end

    def open(self) -> contextlib.AbstractContextManager[Encoded]:
        return contextlib.nullcontext(self)

    def read(self, start: int, length: int) -> bytes:
        return self._end[start - self.bounds[0] :][:length]


def encode(output: byte_ranges.RangeOutput, table: pa.Table, arguments: dict[str, Any]) -> Encoded:
    """Append the rows as a row group, and return its entry for the footer."""
    shift = output.position - len(parquet_footer.MAGIC)
    sink = _Sink(output)
    writer = pq.ParquetWriter(pa.PythonFile(sink, mode="w"), table.schema, **arguments)
    try:
        writer.write_table(table, row_group_size=table.num_rows)
        before = output.position - shift
        sink.hold_back()
        writer.close()
    except BaseException:
        sink.hold_back()
        with contextlib.suppress(Exception):
            writer.close()  # else it would write more when it is forgotten
        raise
    return Encoded(sink.held, before, shift)


class _Sink:
    """The methods of a file that pyarrow needs."""

    closed = False

    def __init__(self, output: byte_ranges.RangeOutput) -> None:
        self._output = output
        self._begun = self._holding = False
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        if not self._begun:
            if bytes(data) != parquet_footer.MAGIC:
                raise ValueError("pyarrow does not begin a Parquet file as expected")
            self._begun = True
        elif self._holding:
            self._parts.append(bytes(data))
        else:
            self._output.write(data)
        return len(data)

    def hold_back(self) -> None:
        """Pass nothing on from here."""
        self._holding = True

    @property
    def held(self) -> bytes:
        return b"".join(self._parts)

    def flush(self) -> None:
        """Nothing is buffered here."""

    def close(self) -> None:
        """The output stays open for more."""
