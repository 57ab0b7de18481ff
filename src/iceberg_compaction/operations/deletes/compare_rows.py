"""The deep proof of an exchange of delete files: rows that live are read and measured twice, with the delete files of
now and with those of the snapshot that would be committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.model import table_view
from iceberg_compaction.operations.verify import changed_deletes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.model.rewrite_task import StagedFile
    from iceberg_compaction.operations.deletes.delete_request import DeleteGroup
    from iceberg_compaction.record.runs import Run


def compare(table: Table, live: pa.Table, groups: Sequence[DeleteGroup], engine: Engine, run: Run) -> None:
    """Raises ProofError if the data files of the groups would have other rows than now, and ExecuteError if they cannot
    be read. `live` is model.table_view.FILES of the planned snapshot."""
    if not groups:
        return
    data = pa.concat_arrays([group.data for group in groups])
    replaced = pa.concat_arrays([group.replaced for group in groups])
    stay = live.filter(pc.invert(pc.is_in(live["file_path"], value_set=replaced)))
    added = _as_live([file for group in groups for file in group.added], live.schema)
    after = pa.concat_tables([stay, added])
    if difference := changed_deletes.difference(table, (live, after), data, table.schema(), engine, run):
        raise errors.ProofError(f"With the new delete files the rows would not be the same. {difference}.")


def _as_live(files: Sequence[StagedFile], schema: pa.Schema) -> pa.Table:
    names = ("file_path", "spec_id", "partition", "record_count", "file_size_in_bytes", "sequence_number")
    rows = [
        {
            **{name: getattr(file, name) for name in (*names, "referenced_data_file")},
            "content": table_view.POSITION_DELETES,
            "file_format": "PARQUET",
            "file_sequence_number": file.sequence_number,
            "encrypted": False,
        }
        for file in files
    ]
    plain = [field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in schema]
    return pa.Table.from_pylist(rows, pa.schema(plain)).cast(schema)
