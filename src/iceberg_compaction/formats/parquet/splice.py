"""Puts a Parquet file together: row groups of other files as bytes, row groups that are encoded anew, and mixtures of
both, in any order. The new footer is made from the old ones, with all offsets moved."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction.formats.parquet import assemble, byte_ranges, encode_row_groups, page_indexes, parquet_footer
from iceberg_compaction.formats.parquet.join import source_chunks
from iceberg_compaction.storage import task_cores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from pyiceberg.io import FileIO

    from iceberg_compaction.formats.parquet import thrift
    from iceberg_compaction.formats.parquet.join import joined_column


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A row group that was taken over: its bytes in the new file, the span of each column there, and digests of the
    bytes that were read from the source, if the caller wants them; none for columns that were encoded anew."""

    bytes: int
    spans: tuple[byte_ranges.Span, ...]
    digests: tuple[int | None, ...]


class Source:
    """An open file to take row groups from."""

    def __init__(self, io: FileIO, footer: parquet_footer.RawFooter) -> None:
        self.footer = footer
        self.input = byte_ranges.Input(io, footer.path)
        self.origin = page_indexes.Stored(io, footer.path, footer.body)

    def load(
        self,
        group: parquet_footer.Group,
        columns: Sequence[int | None],
        deleted: NDArray[np.bool_] | None = None,
    ) -> source_chunks.LoadedGroup:
        """A row group with its bytes in memory. `columns` and `deleted` are as in LoadedGroup."""
        spans = source_chunks.spans(group, columns, self.footer.body)
        segments = tuple((start, self.input.read(start, length)) for start, length in spans)
        return source_chunks.LoadedGroup(
            footer=self.footer, group=group, columns=columns, segments=segments, deleted=deleted
        )

    def close(self) -> None:
        self.input.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def template(columns: pa.Schema, arguments: dict[str, Any]) -> parquet_footer.RawFooter:
    """The footer of a file with these columns and no rows, as our encoder writes it."""
    return encode_row_groups.template(columns, arguments)


class SplicedFile:
    """A file being written. `columns` have field ids at all levels; `arguments` are those of pyarrow's writer."""

    def __init__(
        self,
        io: FileIO,
        path: str,
        columns: pa.Schema,
        arguments: dict[str, Any],
        cores: task_cores.TaskCores | None = None,
    ) -> None:
        self.path = path
        self._cores = cores or task_cores.TaskCores()
        self._template = template(columns, arguments)
        self._groups: list[thrift.Struct] = []
        self._carried: list[page_indexes.Carried] = []
        self._joined: list[tuple[assemble.FooterColumn, joined_column.JoinedColumn]] = []
        self._output = byte_ranges.RangeOutput(io, path)

    @property
    def leaves(self) -> tuple[parquet_footer.Leaf, ...]:
        return self._template.leaves

    @property
    def position(self) -> int:
        """Bytes written so far."""
        return self._output.position

    def _begin(self) -> int:
        """Bytes written so far, the first ones included. They are not written earlier, so that whoever made this file
        can remove it when they fail."""
        if not self.position:
            self._output.write(parquet_footer.MAGIC)
        return self.position

    def encode(self, table: pa.Table, arguments: dict[str, Any]) -> int:
        """Append rows as a new row group; returns its bytes."""
        before = self._begin()
        if table.num_rows:
            columns, group = self._encode(table, range(len(self.leaves)), arguments)
            sorting = encode_row_groups.sorting(arguments)
            self._groups.append(
                assemble.row_group(group, columns, range(len(columns)), len(self._groups), sorting=sorting)
            )
        return self.position - before

    def copy(
        self,
        source: Source,
        group: parquet_footer.Group,
        source_columns: Sequence[int | None],
        patch: pa.Table | None = None,
        arguments: dict[str, Any] | None = None,
        *,
        digest: bool = False,
    ) -> Copied:
        """Append a row group of another file. `source_columns` has for each of our columns the number of the source's
        column, or None if it comes from `patch`, a table of these top-level columns; `arguments` are for encoding
        it."""
        if source.footer.why_not is not None:
            raise ValueError(f"its row groups cannot be taken over: {source.footer.why_not}")
        self._check(source.footer, source_columns)
        before = self._begin()
        columns: list[assemble.FooterColumn] = []
        digests: list[int | None] = []
        for is_patch, run in itertools.groupby(enumerate(source_columns), key=lambda each: each[1] is None):
            if is_patch:
                columns += self._patch(group.rows, [leaf_number for leaf_number, _ in run], patch, arguments or {})
                digests += [None] * (len(columns) - len(digests))
                continue
            at = self.position
            spans = []
            for leaf_number, number in run:
                chunk = group.chunks[number or 0]
                columns.append(self._column(chunk, group, at - chunk.start, source.origin, leaf_number))
                spans.append((chunk.start, chunk.length))
                at += chunk.length
            digests += byte_ranges.move(source.input, self._output, spans, digest=digest)
        self._groups.append(assemble.row_group(group, columns, source_columns, len(self._groups)))
        return Copied(
            bytes=self.position - before, spans=tuple(column.span for column in columns), digests=tuple(digests)
        )

    def join(
        self,
        rows: int,
        joined: Mapping[int, joined_column.JoinedColumn],
        patch: pa.Table | None = None,
        arguments: dict[str, Any] | None = None,
        *,
        digest: bool = False,
    ) -> Copied:
        """Append a row group of joined columns, given by their number among ours; the others come from `patch`."""
        before = self._begin()
        columns: list[assemble.FooterColumn] = []
        digests: list[int | None] = []
        for is_joined, run in itertools.groupby(range(len(self.leaves)), key=lambda number: number in joined):
            numbers = list(run)
            if not is_joined:
                columns += self._patch(rows, numbers, patch, arguments or {})
                digests += [None] * len(numbers)
                continue
            for number in numbers:
                column = joined[number]
                columns.append(column.footer_column(self.leaves[number], self.position))
                self._joined.append((columns[-1], column))
                digests.append(byte_ranges.write_pieces(self._output, column.pieces, digest=digest))
        self._groups.append(assemble.joined_row_group(rows, columns, len(self._groups)))
        return Copied(
            bytes=self.position - before, spans=tuple(column.span for column in columns), digests=tuple(digests)
        )

    def finish(self) -> tuple[Any, int]:
        """Write page indexes and footer; returns the footer as pyarrow reads it, and the size of the file."""
        self._begin()
        page_indexes.write(self._output, self._carried)
        page_indexes.write_joined(self._output, self._joined)
        end = assemble.end(self._template, self._groups)
        self._output.write(end)
        self._output.close()
        return pq.read_metadata(pa.BufferReader(parquet_footer.MAGIC + end)), self.position

    def abandon(self) -> None:
        """Close the file, whole or not; the caller deletes it next."""
        with contextlib.suppress(Exception):
            self._output.close()

    def _check(self, footer: parquet_footer.RawFooter, source_columns: Sequence[int | None]) -> None:
        """Bytes under a wrong column would be read as something else, or not at all."""
        if len(source_columns) != len(self.leaves):
            raise ValueError(f"the file has {len(self.leaves)} columns, not {len(source_columns)}")
        for leaf, number in zip(self.leaves, source_columns, strict=True):
            if number is not None and footer.leaves[number].layout != leaf.layout:
                raise ValueError(f"column {'.'.join(leaf.path)} is laid out in another way than that of {footer.path}")

    def _patch(
        self, rows: int, leaf_numbers: list[int], patch: pa.Table | None, arguments: dict[str, Any]
    ) -> list[assemble.FooterColumn]:
        """Encode columns that lie beside each other."""
        names = list(dict.fromkeys(self.leaves[number].path[0] for number in leaf_numbers))
        if patch is None or patch.num_rows != rows or not set(names) <= set(patch.column_names):
            raise ValueError(f"a row group of {rows} rows lacks columns {', '.join(names)}")
        # Sorting columns are numbers of columns, and a column has another number among all columns than among these.
        few = {name: value for name, value in arguments.items() if name != "sorting_columns"}
        return self._encode(patch.select(names), leaf_numbers, few)[0]

    def _encode(
        self, table: pa.Table, leaf_numbers: Sequence[int], arguments: dict[str, Any]
    ) -> tuple[list[assemble.FooterColumn], parquet_footer.Group]:
        """Append columns that lie beside each other; returns them, and the entry of a row group with some of them."""
        shares = encode_row_groups.encode(self._output, table, arguments, self._cores)
        leaves = [leaf for share in shares for leaf in share.footer.leaves]
        if leaves != [self.leaves[number] for number in leaf_numbers]:
            raise ValueError(f"columns {', '.join(table.column_names)} are not those of the file")
        numbers = iter(leaf_numbers)
        columns = []
        for share in shares:
            (group,) = share.footer.groups
            columns += [self._column(chunk, group, share.shift, share, next(numbers)) for chunk in group.chunks]
        return columns, group

    def _column(
        self,
        chunk: parquet_footer.Chunk,
        group: parquet_footer.Group,
        shift: int,
        origin: page_indexes.Origin,
        leaf_number: int | None = None,
    ) -> assemble.FooterColumn:
        leaf = self.leaves[chunk.leaf if leaf_number is None else leaf_number]
        column = assemble.column(chunk, leaf, shift)
        self._carried.append(
            page_indexes.Carried(
                column=column.raw, chunk=chunk, layout=leaf.layout, rows=group.rows, shift=shift, origin=origin
            )
        )
        return column


def digests(io: FileIO, path: str, spans: Sequence[byte_ranges.Span]) -> list[int]:
    """Digests of parts of a file as storage has them now, to compare with those of `Copied`."""
    with byte_ranges.Input(io, path) as file:
        return byte_ranges.digests(file, spans)
