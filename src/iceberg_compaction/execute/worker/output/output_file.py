"""One output file while it is written, out of row groups that are encoded and row groups that come as bytes. Tables and
row groups come in, a finished file goes out."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from iceberg_compaction.execute.worker.output import file_metrics
from iceberg_compaction.formats.parquet import splice

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyiceberg.io import FileIO

    from iceberg_compaction.execute.worker.copy import copied_row_groups
    from iceberg_compaction.execute.worker.output import parquet_options
    from iceberg_compaction.formats.parquet.join import joined_column
    from iceberg_compaction.storage import task_cores


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedGroup:
    """A row group that came as bytes: one of an input, or several that were joined."""

    index: int  # in the output
    sources: tuple[copied_row_groups.Copy, ...]
    moved: tuple[bool, ...]  # for each column, whether it was not encoded from rows
    digests: tuple[int | None, ...]  # of each moved column's bytes; None: not wanted
    deleted_nulls: tuple[int, ...] = ()  # of each column, in rows that were left out; empty: there are none


class JoinedRows(NamedTuple):
    """Row groups of inputs as one, ready to be written."""

    sources: tuple[copied_row_groups.Copy, ...]
    columns: Mapping[int, joined_column.JoinedColumn]  # by their number in the output; the others are in a patch

    @property
    def rows(self) -> int:
        return sum(source.rows for source in self.sources)

    @property
    def bytes(self) -> int:
        return sum(source.weight for source in self.sources)

    def deleted_nulls(self, columns: int) -> tuple[int, ...]:
        """Nulls of each of so many columns in rows that were left out."""
        joined = self.columns
        return tuple(joined[number].deleted_nulls if number in joined else 0 for number in range(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A finished file, its footer as the writer made it, and the metrics that the footer lacks."""

    path: str
    partition: str
    size: int
    metadata: Any
    rows: file_metrics.RowMetrics
    copied: tuple[CopiedGroup, ...] = ()


class MixedFile:
    """A file whose row groups come as rows or as bytes, in any order."""

    def __init__(
        self,
        io: FileIO,
        path: str,
        columns: pa.Schema,
        options: parquet_options.WriteOptions,
        cores: task_cores.TaskCores,
    ) -> None:
        self.path = path
        self._io = io
        self._options = options
        self._source: splice.Source | None = None  # of the last row group; the next one is likely to be its neighbour
        self._file = splice.SplicedFile(io, path, columns, options.parquet, cores)
        self._rows = file_metrics.RowMetrics(columns=columns)
        self._copied: list[CopiedGroup] = []
        self._arguments: dict[str, Any] = {}

    @property
    def position(self) -> int:
        return self._file.position

    def write(self, table: pa.Table) -> int:
        """Encodes a row group; returns its bytes."""
        self._rows.add(table)
        if not self._arguments or self._copied:  # few rows between copies say little about those of the next row group
            self._arguments = self._options.arguments(table)
        return self._file.encode(table, self._arguments)

    def copy(self, step: copied_row_groups.Copy, patch: pa.Table | None, *, digest: bool) -> int:
        """Copies a row group; returns its bytes."""
        before = self.position
        arguments = None if patch is None else self._options.arguments(patch)
        group = step.raw.groups[step.group]
        copied = self._file.copy(self._open(step), group, step.columns, patch, arguments, digest=digest)
        moved = tuple(column is not None for column in step.columns)
        self._add_copied((step,), moved, copied.digests, patch)
        return self.position - before

    def join(self, joined: JoinedRows, patch: pa.Table | None, *, digest: bool) -> int:
        """Writes joined row groups as one; returns its bytes."""
        arguments = None if patch is None else self._options.arguments(patch)
        copied = self._file.join(joined.rows, joined.columns, patch, arguments, digest=digest)
        moved = tuple(number in joined.columns for number in range(len(self._file.leaves)))
        self._add_copied(joined.sources, moved, copied.digests, patch, joined.deleted_nulls(len(moved)))
        return copied.bytes

    def _add_copied(
        self,
        sources: tuple[copied_row_groups.Copy, ...],
        moved: tuple[bool, ...],
        digests: tuple[int | None, ...],
        patch: pa.Table | None,
        deleted_nulls: tuple[int, ...] = (),
    ) -> None:
        self._copied.append(
            CopiedGroup(
                index=self._rows.groups, sources=sources, moved=moved, digests=digests, deleted_nulls=deleted_nulls
            )
        )
        self._rows.add_copied(patch)

    def _open(self, step: copied_row_groups.Copy) -> splice.Source:
        if self._source is None or self._source.footer is not step.raw:
            self._close_source()
            self._source = splice.Source(self._io, step.raw)
        return self._source

    def _close_source(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def finish(self, partition: str) -> WrittenFile:
        self._close_source()
        metadata, size = self._file.finish()
        return WrittenFile(
            path=self.path,
            partition=partition,
            size=size,
            metadata=metadata,
            rows=self._rows,
            copied=tuple(self._copied),
        )

    def abandon(self) -> None:
        """Closes the file, whole or not; it is deleted next."""
        for close in (self._close_source, self._file.abandon):
            with contextlib.suppress(Exception):
                close()
