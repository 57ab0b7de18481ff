"""Row groups that were taken over as bytes, measured twice: as the inputs had them, and as storage holds them in the
outputs. Finished files come in; sides go out, whose checksums are those of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.execute.worker.input import read_files
from iceberg_compaction.formats.parquet import byte_ranges, format_fields, parquet_footer
from iceberg_compaction.model import proof

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO

    from iceberg_compaction.execute.worker.output import output_file

_MASK = 2**64 - 1


def measure_inputs(files: Sequence[output_file.WrittenFile], tops: tuple[int, ...]) -> proof.Side:
    """The copied row groups of these files as the inputs had them. `tops` are the top-level field ids of the outputs'
    columns."""
    total = proof.Side()
    for group in (group for file in files for group in file.copied):
        total += proof.Side(
            rows=sum(source.rows for source in group.sources),
            nulls=_null_counts_of_inputs(group, tops),
            checksums=_by_column(group.digests, tops),
        )
    return total


def measure_outputs(io: FileIO, files: Sequence[output_file.WrittenFile], tops: tuple[int, ...]) -> proof.Side:
    """The same row groups, read from storage."""
    total = proof.Side()
    for file in files:
        if file.copied:
            with read_files.translated(file.path, "Output file", "checked"):
                total += _measure_output(io, file, tops)
    return total


def _measure_output(io: FileIO, file: output_file.WrittenFile, tops: tuple[int, ...]) -> proof.Side:
    stored = parquet_footer.read(io, file.path, file.size)
    total = proof.Side()
    for copied in file.copied:
        group = stored.groups[copied.index]
        chosen = [index for index, digest in enumerate(copied.digests) if digest is not None]
        spans = [(group.chunks[index].start, group.chunks[index].length) for index in chosen]
        with byte_ranges.Input(io, file.path) as bytes_of:
            digests = dict(zip(chosen, byte_ranges.digests(bytes_of, spans), strict=True))
        columns = [index if is_moved else None for index, is_moved in enumerate(copied.moved)]
        total += proof.Side(
            rows=group.rows,
            nulls=_null_counts(stored, copied.index, columns, tops),
            checksums=_by_column(tuple(map(digests.get, range(len(tops)))), tops),
        )
    return total


def _null_counts_of_inputs(group: output_file.CopiedGroup, tops: tuple[int, ...]) -> dict[int, int]:
    """Nulls of the top-level columns that were moved, if all inputs count them, without those of rows that were left
    out. An input that lacks a column has a null in every row."""
    counts: list[dict[int, int]] = []
    for source in group.sources:
        columns = [column if is_moved else None for column, is_moved in zip(source.columns, group.moved, strict=True)]
        counted = _null_counts(source.raw, source.group, columns, tops)
        lacking = {
            top: source.stored_rows
            for top, column, is_moved in zip(tops, source.columns, group.moved, strict=True)
            if is_moved and column is None
        }
        counts.append(counted | lacking)
    common = set.intersection(*map(set, counts)) if counts else set()
    deleted = dict(zip(tops, group.deleted_nulls, strict=True)) if group.deleted_nulls else {}
    return {top: sum(count[top] for count in counts) - deleted.get(top, 0) for top in common}


def _null_counts(
    raw: parquet_footer.RawFooter, group: int, columns: Sequence[int | None], tops: tuple[int, ...]
) -> dict[int, int]:
    """Nulls of the top-level columns whose statistics count them. `columns` has the index of each column in the file,
    or None where it does not come from there."""
    counts = {}
    for top, index in zip(tops, columns, strict=True):
        if index is None or len(raw.leaves[index].path) > 1:
            continue  # the nulls of a nested leaf are not those of its column
        count = format_fields.optional(raw.groups[group].chunks[index].statistics, format_fields.Statistics.NULLS)
        if count is not None:
            counts[top] = count
    return counts


def _by_column(digests: tuple[int | None, ...], tops: tuple[int, ...]) -> dict[int, int]:
    """Digests of leaves as one number per top-level column."""
    sums: dict[int, int] = {}
    for top, digest in zip(tops, digests, strict=True):
        if digest is not None:
            sums[top] = (sums.get(top, 0) + digest) & _MASK
    return sums
