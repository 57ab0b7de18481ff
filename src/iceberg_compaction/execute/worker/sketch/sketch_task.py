"""A task that counts distinct values: its rows are read, deletes are applied, and of every column the smallest hashes
are kept. Nothing is written, and memory holds one batch beside the hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.execute.worker import measure_task
from iceberg_compaction.execute.worker.sketch import value_hashes
from iceberg_compaction.formats import theta_hashes

if TYPE_CHECKING:
    from iceberg_compaction.execute.worker import source
    from iceberg_compaction.model import policies, proof


def sketch(rows: source.TaskSource, level: policies.ProofLevel) -> tuple[proof.Proof, dict[int, bytes]]:
    """The sketch of each column by field id, in the compact form, and the proof that all rows were read."""
    columns = [(field.field_id, field.field_type) for field in rows.prepared.output.schema.fields]
    kept = {field_id: theta_hashes.ThetaHashes() for field_id, _ in columns}
    for batch in rows.batches():
        for (field_id, kind), values in zip(columns, batch.columns, strict=True):
            kept[field_id].add(value_hashes.hashes(values, kind))
    return measure_task.all_read(rows, level), {field_id: each.compact() for field_id, each in kept.items()}
