"""Partition tuples recomputed from rows (R31): batches in the schema of the output files come in, a number per row goes
out. Equal tuples have equal numbers throughout a task, and every number has its canonical text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction.execute.worker.arrange import transforms
from iceberg_compaction.metadata import partition_tuples

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema


class PartitionTuples:
    """The tuples that rows of one task have met so far, numbered in order of appearance."""

    def __init__(self, spec: PartitionSpec, schema: Schema, columns: pa.Schema) -> None:
        self._spec, self._schema = spec, schema
        self._terms = [
            transforms.bind(
                field.transform,
                field.source_id,
                schema,
                columns,
                f"Field {field.name} of partition spec {spec.spec_id}",
            )
            for field in spec.fields
        ]
        self.texts: list[str] = []  # canonical JSON by number
        self._numbers: dict[str, int] = {}

    def numbers(self, batch: pa.RecordBatch) -> NDArray[np.int32]:
        """The number of each row's tuple."""
        if not self._terms:
            return np.full(batch.num_rows, self._number(partition_tuples.UNPARTITIONED), np.int32)
        values = pa.StructArray.from_arrays(
            [term.values(batch) for term in self._terms], names=[str(index) for index in range(len(self._terms))]
        )
        texts = partition_tuples.encode(
            pa.chunked_array([values]), self._spec, self._schema, batch.num_rows, where="A batch of rows"
        )
        by_text = np.array([self._number(text) for text in texts.dictionary.to_pylist()], np.int32)
        numbers: NDArray[np.int32] = by_text[texts.indices.to_numpy(zero_copy_only=False)]
        return numbers

    def _number(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number

    def path(self, number: int) -> str:
        """The tuple as directories name it."""
        return partition_tuples.path(self.texts[number], self._spec, self._schema)
