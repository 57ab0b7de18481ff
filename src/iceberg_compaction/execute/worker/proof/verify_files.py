"""What storage says about the outputs, asked anew: footers are read back from there, and for level `deep` every row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas, transfer
from iceberg_compaction.execute.worker.input import read_files
from iceberg_compaction.execute.worker.proof import measure
from iceberg_compaction.formats.parquet import byte_ranges, parquet_footer
from iceberg_compaction.model import policies, proof

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

    from iceberg_compaction.execute.worker.output import output_file


def read_footers(io: FileIO, files: Sequence[output_file.WrittenFile]) -> proof.Side:
    """Rows of the stored files, and nulls of the top-level columns whose statistics tell them in every file."""
    total = proof.Side()
    told: set[int] | None = None
    for file in files:
        side = _stored_footer(io, file)
        told = set(side.nulls) if told is None else told & set(side.nulls)
        total = total + side
    return total.model_copy(update={"nulls": {key: count for key, count in total.nulls.items() if key in (told or ())}})


def _stored_footer(io: FileIO, file: output_file.WrittenFile) -> proof.Side:
    with read_files.translated(file.path, "Output file", "checked"), io.new_input(file.path).open() as stream:
        size = stream.seek(0, 2)
        if size != file.size:
            raise errors.ProofError(f"storage holds {size} bytes of it where {file.size} were written")
        stream.seek(0)
        stored = pq.ParquetFile(stream, arrow_extensions_enabled=False)
        metadata = stored.metadata
        nulls: dict[int, int] = {}
        for index, leaf in enumerate(arrow_schemas.leaves(stored.schema_arrow)):
            if leaf.repeated or len(leaf.path) > 1:
                continue  # the nulls of a nested leaf are not those of its column
            known = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
            if all(statistics is not None and statistics.has_null_count for statistics in known):
                nulls[leaf.field_id] = sum(statistics.null_count for statistics in known)
        return proof.Side(rows=metadata.num_rows, nulls=nulls)


def landed(io: FileIO, files: Sequence[output_file.WrittenFile], tops: tuple[int, ...]) -> proof.Side:
    """Row groups that came as bytes, as storage holds them; `tops` are the top-level field ids of the columns."""
    total = proof.Side()
    for file in files:
        if file.copied:
            with read_files.translated(file.path, "Output file", "checked"):
                total += _landed(io, file, tops)
    return total


def _landed(io: FileIO, file: output_file.WrittenFile, tops: tuple[int, ...]) -> proof.Side:
    stored = parquet_footer.read(io, file.path, file.size)
    total = proof.Side()
    for copied in file.copied:
        group = stored.groups[copied.place]
        chosen = [place for place, digest in enumerate(copied.digests) if digest is not None]
        spans = [(group.chunks[place].start, group.chunks[place].length) for place in chosen]
        with byte_ranges.Input(io, file.path) as bytes_of:
            found = dict(zip(chosen, byte_ranges.digests(bytes_of, spans), strict=True))
        copied_places = [None if source is None else place for place, source in enumerate(copied.step.places)]
        total += proof.Side(
            rows=group.rows,
            nulls=transfer.null_counts(stored, copied.place, copied_places, tops),
            checksums=transfer.by_column(tuple(map(found.get, range(len(tops)))), tops),
        )
    return total


def read_back(io: FileIO, files: Sequence[output_file.WrittenFile], schema: Schema) -> proof.Side:
    """The outputs read in full and measured as the inputs were."""
    meter = measure.Meter(schema, policies.ProofLevel.DEEP)
    footers = read_files.read_footers(
        io, [file.path for file in files], [file.metadata.num_rows for file in files], None
    )
    for _, _, batch in read_files.read_batches(io, [read_files.Part(footer) for footer in footers], frozenset()):
        meter.add(batch)
    return meter.side
