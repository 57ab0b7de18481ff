"""Encodes row groups straight into a file that others are copied to. pyarrow writes as if to a file of its own: the row
group's bytes pass through; the bytes before the first row group and behind the last are held back. Where a task has
several cores, shares of the columns are encoded side by side and put together in order; the bytes are the same."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction.formats.parquet import format_fields, parquet_footer, thrift

if TYPE_CHECKING:
    from iceberg_compaction.formats.parquet import byte_ranges
    from iceberg_compaction.storage import task_cores

_WORTH_IT = 2**20  # Arrow bytes of a row group; encoding a smaller one side by side saves nothing
_SHARES = 4  # of a row group for each core, so that all cores have something to do until the end


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


def encode(
    output: byte_ranges.RangeOutput, table: pa.Table, arguments: dict[str, Any], cores: task_cores.TaskCores
) -> list[Encoded]:
    """Append the rows as a row group, and return its entries for the footer: one for each share of the columns, in
    order. Shares have no sorting columns."""
    shares = _shares(table, cores.count)
    if len(shares) == 1:
        return [_encode_through(output, table, arguments)]
    few = {name: value for name, value in arguments.items() if name != "sorting_columns"}
    largest_first = sorted(range(len(shares)), key=lambda number: -shares[number].nbytes)
    done = cores.map(lambda number: _encode_in_memory(output, shares[number], few), largest_first)
    encoded = []
    for _, (data, before) in sorted(zip(largest_first, done, strict=True)):
        begin = len(parquet_footer.MAGIC)
        shift = output.position - begin
        output.write(memoryview(data.slice(begin, before - begin)))
        encoded.append(Encoded(data.slice(before).to_pybytes(), before, shift))
    return encoded


def sorting(arguments: dict[str, Any]) -> list[thrift.Struct]:
    """The sorting columns of the writer's arguments, as footers have them."""
    return [
        {
            format_fields.Sorting.COLUMN: (thrift.I32, column.column_index),
            format_fields.Sorting.DESCENDING: _flag(column.descending),
            format_fields.Sorting.NULLS_FIRST: _flag(column.nulls_first),
        }
        for column in arguments.get("sorting_columns") or ()
    ]


def _flag(value: bool) -> tuple[int, bool]:
    return (thrift.TRUE if value else thrift.FALSE, value)


def _shares(table: pa.Table, cores: int) -> list[pa.Table]:
    """The table's columns in shares of neighbours that take about equally long. A large column is a share by itself."""
    sizes = [column.nbytes for column in table.columns]
    if cores == 1 or sum(sizes) < _WORTH_IT:
        return [table]
    shares: list[list[int]] = []
    each, held = sum(sizes) / (_SHARES * cores), 0
    for number, size in enumerate(sizes):
        if not shares or held + size > each:
            shares.append([])
            held = 0
        shares[-1].append(number)
        held += size
    return [table.select(share) for share in shares]


def _encode_in_memory(
    output: byte_ranges.RangeOutput, table: pa.Table, arguments: dict[str, Any]
) -> tuple[pa.Buffer, int]:
    """The rows as a file of their own, and the offset of the end of its row group."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, **arguments) as writer:
        writer.write_table(table, row_group_size=table.num_rows)
        before = sink.tell()
    output.encoded(before)
    return sink.getvalue(), before


def _encode_through(output: byte_ranges.RangeOutput, table: pa.Table, arguments: dict[str, Any]) -> Encoded:
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
