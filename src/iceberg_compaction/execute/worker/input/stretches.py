"""Rows of neighbouring files in one batch. Bytes of tiny files come in; they are decoded as a single file, because to
open one costs more than to decode it. Batches go out, with the rows of each file in them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from iceberg_compaction.execute.worker.input import decoding, file_bundles, row_needs
from iceberg_compaction.formats.parquet import merged_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iceberg_compaction.execute.worker import budgets
    from iceberg_compaction.execute.worker.input import file_schemas, read_files


class RowSpan(NamedTuple):
    """Rows of a file that follow one another."""

    footer: read_files.Footer
    first: int
    rows: int


class Stretch(NamedTuple):
    """A batch, and where its rows are from."""

    batch: pa.RecordBatch
    spans: tuple[RowSpan, ...]

    def without(self, rows: int) -> Stretch | None:
        """The rows of a single file without the first ones; None: none are left."""
        ((footer, first, count),) = self.spans
        if rows >= count:
            return None
        return Stretch(self.batch.slice(rows), (RowSpan(footer, first + rows, count - rows),))

    def by_file(self) -> Iterator[tuple[RowSpan, pa.RecordBatch]]:
        """The rows of each file."""
        if len(self.spans) == 1:
            yield self.spans[0], self.batch
            return
        at = 0
        for span in self.spans:
            yield span, self.batch.slice(at, span.rows)
            at += span.rows


def can_be_merged(parts: Sequence[read_files.FilePart]) -> bool:
    """Whether the rows of these files can be decoded in one go."""
    form = parts[0].footer.stored and parts[0].footer.stored.form
    if len(parts) < 2 or form is None:
        return False
    return all(part.footer.stored and part.footer.stored.form is form for part in parts)


def decode(
    parts: Sequence[read_files.FilePart],
    contents: Sequence[pa.Buffer],
    selection: file_schemas.ReadColumns,
    limits: budgets.Budgets,
    options: dict[str, Any],
) -> Iterator[pa.RecordBatch]:
    """All rows of these files. Raises ValueError before the first one if they cannot be decoded in one go."""
    files = [
        (part.footer.stored, content)
        for part, content in zip(parts, contents, strict=True)
        if part.footer.stored is not None
    ]
    memory = row_needs.together([part.footer.needs for part in parts])
    if memory is None or len(files) < len(parts):
        raise ValueError("these files must be decoded one by one")
    merged = pa.BufferReader(merged_file.merge(files))
    decoder = decoding.Decoder(merged, memory, selection.columns, limits, **options)
    rows = sum(part.rows for part in parts)
    whole = decoder.whole(rows)
    if whole is None or whole.num_rows != rows:
        raise ValueError("these files must be decoded one by one")
    # Few bytes of a dictionary may stand for many: then rows are no more at a time than those of other tiny files.
    few = replace(limits, batch_bytes=min(limits.batch_bytes, file_bundles.MOST_DECODED))
    for batch in whole.combine_chunks().to_batches():
        yield from decoding.bounded(batch, selection.kept, few)


def placed(parts: Sequence[read_files.FilePart], batches: Iterator[pa.RecordBatch]) -> Iterator[Stretch]:
    """Batches of all rows of these files, with the files that their rows are from."""
    ends = list(itertools.accumulate(part.rows for part in parts))
    at = file = 0
    for batch in batches:
        spans = []
        last = at + batch.num_rows
        while at < last:
            rows = min(last, ends[file]) - at
            spans.append(RowSpan(parts[file].footer, at - ends[file] + parts[file].rows, rows))
            at += rows
            file += at == ends[file]
        yield Stretch(batch, tuple(spans))
