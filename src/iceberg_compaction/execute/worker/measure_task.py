"""A task that writes nothing: its rows are read, deletes are applied, and every row that lives is measured. The proof
of such a task has the same measurements at both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import proof

if TYPE_CHECKING:
    from iceberg_compaction.execute.worker import source
    from iceberg_compaction.model import policies


def measure(rows: source.TaskSource, level: policies.ProofLevel) -> proof.Proof:
    """Measures the rows of a source. Memory holds one batch, and those that are read ahead of it."""
    for _ in rows.batches():
        pass
    return all_read(rows, level)


def all_read(rows: source.TaskSource, level: policies.ProofLevel) -> proof.Proof:
    """The proof that all rows of a source were read, after the last batch. ProofError: they were not."""
    counts = rows.measurements
    measured = proof.Proof(
        level=level,
        expected_rows=counts.expected_rows,
        deleted_rows=counts.deleted_rows,
        source=counts.rows,
        sink=counts.rows,
        footers=proof.Side(rows=counts.rows.rows),
    )
    if measured.failures:
        raise errors.ProofError(measured.sentence)
    return measured
