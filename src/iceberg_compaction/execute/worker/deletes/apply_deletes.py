"""A task's deletes, applied while its rows stream by. The task, its context and the footers of its inputs come in; a
filter goes out, which takes batches with their position in a file and returns the rows that live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.deletes import (
    key_columns,
    key_spill,
    load_deletes,
    positions,
    untouched_row_groups,
)
from iceberg_compaction.execute.worker.input import project, read_files
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from pyiceberg.io import FileIO

    from iceberg_compaction.execute.worker.deletes import equality_keys
    from iceberg_compaction.model import rewrite_task
    from iceberg_compaction.storage.task_cores import TaskCores

_FEW_ROWS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteInputs:
    """A task's files before their rows are read."""

    reader: read_files.DataFileReader
    schema: Schema
    partition: Mapping[int, Any]  # the partition's values of columns, of dropped ones too, by field id (R51)
    footers: Sequence[read_files.Footer]


def build(
    task: rewrite_task.RewriteTask, context: rewrite_task.RewriteContext, inputs: DeleteInputs
) -> DeleteFilter | None:
    """The filter of a task; None where there is nothing to delete."""
    if not task.deletes:
        return None
    if len(task.sequence_numbers) != len(task.file_paths):
        raise errors.ExecuteError(f"Task {task.id} has deletes but does not say how old its files are.")
    reader = load_deletes.DeleteReader(
        io=inputs.reader.io, contents=context.delete_contents, budgets=inputs.reader.budgets
    )
    dead = positions.DeadRows(task.record_counts)
    by_position = [file for file in task.deletes if file.content == table_view.POSITION_DELETES]
    positions.mark(dead, task, by_position, reader)
    oldest = min(task.sequence_numbers)
    by_key = [
        file
        for file in task.deletes
        if file.content == table_view.EQUALITY_DELETES and file.sequence_number > oldest and file.record_count
    ]
    fields = {ids: _key_fields(ids, context, inputs) for ids in {file.equality_ids for file in by_key}}
    left = {
        number: footer
        for number, footer in enumerate(inputs.footers)
        if footer.rows and dead.count(number) < footer.rows
    }
    data = key_spill.KeyedFiles(reader=inputs.reader, footers=left, sequences=task.sequence_numbers)
    return DeleteFilter(task, inputs, dead, key_spill.index(by_key, fields, reader, data, dead))


def _key_fields(
    ids: tuple[int, ...], context: rewrite_task.RewriteContext, inputs: DeleteInputs
) -> list[key_columns.KeyField]:
    if not ids:
        raise errors.ExecuteError("An equality delete file does not say which fields it compares.")
    return [_key_field(number, context, inputs) for number in ids]


def _key_field(number: int, context: rewrite_task.RewriteContext, inputs: DeleteInputs) -> key_columns.KeyField:
    schema = inputs.schema
    if schema.find_column_name(number) is None:  # dropped since, but still part of the rows' keys
        if (text := context.delete_fields.get(number)) is None:
            raise errors.UnsupportedError(
                f"Equality deletes compare field id {number}, which no schema of the table has."
            )
        schema = Schema(iceberg.NestedField.model_validate_json(text))
    field, name = schema.find_field(number), str(schema.find_column_name(number))
    if not field.field_type.is_primitive:
        raise errors.UnsupportedError(f"Equality deletes compare {name}, which is a {field.field_type}.")
    missing = project.fillers(schema, inputs.partition).get(number)
    if missing is None:
        missing = pa.nulls(1, arrow_schemas.plain(arrow_schemas.arrow_type(field.field_type)))
    return key_columns.KeyField(
        field_id=number,
        name=name,
        kind=field.field_type,
        missing=missing,
        parents=_parents(number, schema.fields) or (),
        partitioned=number in inputs.partition,
    )


def _parents(number: int, fields: Sequence[iceberg.NestedField]) -> tuple[int, ...] | None:
    """The structs around a field, the outermost first; None: there is no such field."""
    for field in fields:
        if field.field_id == number:
            return ()
        below = field.field_type.fields if isinstance(field.field_type, iceberg.StructType) else ()
        if (parents := _parents(number, below)) is not None:
            return (field.field_id, *parents)
    return None


class DeleteFilter:
    """Drops deleted rows from batches, and counts them."""

    def __init__(
        self,
        task: rewrite_task.RewriteTask,
        inputs: DeleteInputs,
        dead: positions.DeadRows,
        indexes: Sequence[equality_keys.EqualityIndex],
    ) -> None:
        self._inputs = inputs
        self._numbers = {footer.path: number for number, footer in enumerate(inputs.footers)}
        self._sequences = task.sequence_numbers
        self._dead = dead
        self._marked = [dead.count(number) for number in range(len(inputs.footers))]
        self._looked_up: set[int] = set()  # files whose keys have been looked up, so that `_dead` is complete for them
        self._met = 0  # rows dropped because of their position
        self._indexes = indexes
        self._ranges: dict[int, untouched_row_groups.KeyRanges] = {}
        self._columns: list[key_columns.KeyColumns] = []
        self._schema: pa.Schema | None = None  # that `_columns` are for
        self.dropped = 0

    @property
    def io(self) -> FileIO:
        return self._inputs.reader.io

    @property
    def fields(self) -> set[int]:
        """Ids of the columns that rows are looked up by."""
        return {number for index in self._indexes for field in index.fields for number in field.columns}

    @property
    def marked(self) -> int:
        """Rows whose deletion is known before any row is read."""
        return sum(self._marked)

    @property
    def unforeseen(self) -> int:
        """Rows that turned out to be deleted only when they were read."""
        return self.dropped - self._met

    def is_gone(self, number: int) -> bool:
        """Whether all rows of a file are known to be deleted."""
        rows = self._inputs.footers[number].rows
        return rows > 0 and self._marked[number] == rows

    def dead_rows(self, number: int, first: int, rows: int) -> int:
        """How many of a range of rows of a file are known to be deleted."""
        return int(np.count_nonzero(self._dead.mask(number, first, rows))) if self._marked[number] else 0

    def dead_mask(self, number: int, first: int, rows: int) -> NDArray[np.bool_]:
        """Which of a range of rows of a file are known to be deleted; all that are, once its keys are looked up."""
        return self._dead.mask(number, first, rows)

    def alive(self, number: int, first: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch of a file that are not known to be deleted. They are not counted."""
        return batch.filter(pa.array(~self.dead_mask(number, first, batch.num_rows)))

    def pass_over(self, rows: int) -> None:
        """Counts rows that are known to be deleted and will not be read."""
        self._met += rows
        self.dropped += rows

    def is_open(self, number: int) -> bool:
        """Whether rows of a file may turn out to be deleted when they are read."""
        return bool(self._reaching(number))

    def look_up(self, number: int, groups: Mapping[int, Mapping[int, untouched_row_groups.Extent]]) -> None:
        """Looks up the keys of a file before its rows are read, so that all its deleted rows are known. `groups` are
        its row groups that have rows, with the extents of their columns: where no key can be, none is read."""
        reaching = self._reaching(number)
        if not reaching:
            return
        footer = self._inputs.footers[number]
        ranges = [self._range(at) for at in reaching]
        touched = tuple(group for group, extents in groups.items() if any(keys.may_touch(extents) for keys in ranges))
        fields = {number for at in reaching for field in self._indexes[at].fields for number in field.columns}
        tops = read_files.columns_with([footer], fields)
        for _, first, batch in self._inputs.reader.batches([read_files.FilePart(footer, touched)], frozenset(), tops):
            self._bind(batch.schema)
            for at in reaching:
                rows = self._indexes[at].find(self._columns[at], batch, self._sequences[number])
                self._dead.add(number, rows.astype(np.int64) + first)
        self._marked[number] = self._dead.count(number)
        self._looked_up.add(number)

    def _range(self, at: int) -> untouched_row_groups.KeyRanges:
        if at not in self._ranges:
            self._ranges[at] = untouched_row_groups.KeyRanges(self._indexes[at])
        return self._ranges[at]

    def _reaching(self, number: int) -> list[int]:
        """Positions of the indexes whose keys have to be looked for in a file."""
        if number in self._looked_up:
            return []
        return [at for at, index in enumerate(self._indexes) if index.newest > self._sequences[number]]

    def apply(self, footer: read_files.Footer, first_row: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that live; the batch itself if all do. `first_row` is its position in its file."""
        number = self._numbers[footer.path]
        dead: NDArray[np.bool_] | None = None
        if self._marked[number]:
            dead = self._dead.mask(number, first_row, batch.num_rows)
            self._met += int(np.count_nonzero(dead))
        reaching = self._reaching(number)
        if reaching:
            self._bind(batch.schema)
        for at in reaching:
            rows = self._indexes[at].find(self._columns[at], batch, self._sequences[number])
            if len(rows):
                dead = np.zeros(batch.num_rows, dtype=bool) if dead is None else dead
                dead[rows] = True
        if dead is None or not dead.any():
            return batch
        self.dropped += int(np.count_nonzero(dead))
        return _filtered(batch, pa.array(~dead), self._inputs.reader.cores)

    def _bind(self, schema: pa.Schema) -> None:
        if self._schema is None or not self._schema.equals(schema, check_metadata=True):
            self._columns = [key_columns.KeyColumns(index.fields, schema) for index in self._indexes]
            self._schema = schema

    def check(self) -> None:
        """Raises ProofError unless every row that was to be dropped by its position has been met; after all rows."""
        if self._met != self.marked:
            raise errors.ProofError(f"Deletes name {self.marked} positions, but {self._met} rows were met there.")


def _filtered(batch: pa.RecordBatch, kept: pa.BooleanArray, cores: TaskCores) -> pa.RecordBatch:
    """The rows that are kept. Columns are filtered side by side, unless that is over sooner than a thread starts."""
    if batch.num_rows < _FEW_ROWS or not batch.num_columns:
        return batch.filter(kept)
    columns = cores.map(lambda column: column.filter(kept), batch.columns)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
