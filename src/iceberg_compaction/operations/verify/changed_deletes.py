"""The rows of data files whose delete files a commit exchanged: they are read with the delete files before and after.
Live files of two snapshots with the same data files come in; the first difference goes out, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.metadata.deletes import delete_index, delete_scopes
from iceberg_compaction.model import table_view
from iceberg_compaction.operations.past_runs import measured_files
from iceberg_compaction.operations.verify import compare_partitions

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.record.runs import Run


def reached(table: Table, before: pa.Table, after: pa.Table) -> pa.Array:
    """The paths of data files that a delete file applies to which only one of the two snapshots has."""
    global_specs = delete_scopes.unpartitioned(table.specs())
    paths = [pa.array([], pa.string())]
    for live, other in ((before, after), (after, before)):
        is_delete = live["content"].to_numpy() != table_view.DATA
        shared = pc.is_in(live["file_path"], value_set=other["file_path"].combine_chunks()).to_numpy()
        changed = np.flatnonzero(is_delete & ~shared)
        if len(changed):
            index = delete_index.build(live, unpartitioned_specs=global_specs)
            rows = pc.unique(index.for_delete_files(changed)["targets"].combine_chunks().flatten())
            paths.append(live["file_path"].take(rows).combine_chunks())
    return pc.unique(pa.concat_arrays(paths))


def difference(
    table: Table, sides: tuple[pa.Table, pa.Table], paths: pa.Array, schema: Schema, engine: Engine, run: Run
) -> str:
    """What differs in the rows of these data files, with the delete files of one side and of the other; empty: nothing.
    Raises the error of a file that cannot be read."""
    requests = [
        measured_files.FilesToMeasure(live=live.unify_dictionaries(), paths=paths, schema=schema) for live in sides
    ]
    measured = measured_files.measure(table, requests, engine, run)
    for failure in (each.failure for side in measured for each in side):
        if failure is not None:
            raise failure.rebuild()
    before, after = (measured_files.total(side) for side in measured)
    return compare_partitions.difference_of(before, after, schema)
