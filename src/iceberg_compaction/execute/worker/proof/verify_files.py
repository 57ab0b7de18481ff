"""The outputs as storage holds them: footers are read from there again, and for level `deep` every row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.input import read_files
from iceberg_compaction.execute.worker.proof import measure
from iceberg_compaction.model import policies, proof

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

    from iceberg_compaction.execute.worker import budgets
    from iceberg_compaction.execute.worker.output import output_file


def read_footers(io: FileIO, files: Sequence[output_file.WrittenFile]) -> proof.Side:
    """Rows of the stored files, and nulls of the top-level columns whose statistics count them in every file."""
    sides = [_read_footer(io, file) for file in files]
    counted = set.intersection(*(set(side.nulls) for side in sides)) if sides else set()
    total = sum(sides, proof.Side())
    return total.model_copy(update={"nulls": {key: count for key, count in total.nulls.items() if key in counted}})


def _read_footer(io: FileIO, file: output_file.WrittenFile) -> proof.Side:
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
            columns = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
            if all(statistics is not None and statistics.has_null_count for statistics in columns):
                nulls[leaf.field_id] = sum(statistics.null_count for statistics in columns)
        return proof.Side(rows=metadata.num_rows, nulls=nulls)


def read_back(
    io: FileIO, files: Sequence[output_file.WrittenFile], schema: Schema, limits: budgets.Budgets
) -> proof.Side:
    """The outputs, read in full and measured as the inputs were."""
    meter = measure.Meter(schema, policies.ProofLevel.DEEP)
    reader = read_files.DataFileReader(io=io, budgets=limits)
    footers = reader.footers(
        [read_files.InputFacts(path=file.path, rows=file.metadata.num_rows, size=file.size) for file in files]
    )
    for _, _, batch in reader.batches([read_files.FilePart(footer) for footer in footers], frozenset()):
        meter.add(batch)
    return meter.side
