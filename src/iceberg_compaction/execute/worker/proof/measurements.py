"""The measurements of a task's source, of its sink and of its copied row groups, and the proof that is made of them.
Each is a plain value that adds up over several processes, so whoever holds all of them can prove the whole."""

from __future__ import annotations

from iceberg_compaction.model import policies, proof, value


class SourceMeasurements(value.Value):
    """Rows of the inputs, measured where they are decoded."""

    expected_rows: int = 0  # by the manifests; those of copied row groups are among them
    deleted_rows: int = 0
    rows: proof.Side = proof.Side()  # that live, without those of copied row groups

    def __add__(self, other: SourceMeasurements) -> SourceMeasurements:
        return SourceMeasurements(
            expected_rows=self.expected_rows + other.expected_rows,
            deleted_rows=self.deleted_rows + other.deleted_rows,
            rows=self.rows + other.rows,
        )


class SinkMeasurements(value.Value):
    """Rows of the outputs, measured where they enter the Parquet encoder and again from storage."""

    files: int = 0
    rows: proof.Side = proof.Side()  # that were encoded
    footers: proof.Side = proof.Side()  # rows and nulls by the footers on storage
    stored: proof.Side | None = None  # of level `deep`: every file read back in full

    def __add__(self, other: SinkMeasurements) -> SinkMeasurements:
        return SinkMeasurements(
            files=self.files + other.files,
            rows=self.rows + other.rows,
            footers=_sum_of_footers(self, other),
            stored=None if self.stored is None or other.stored is None else self.stored + other.stored,
        )


def _sum_of_footers(left: SinkMeasurements, right: SinkMeasurements) -> proof.Side:
    """Nulls of a column count only where the footers of both sides have them."""
    total = left.footers + right.footers
    sides = [side.footers.nulls.keys() for side in (left, right) if side.files]
    kept = set.intersection(*map(set, sides)) if sides else set()
    return total.model_copy(update={"nulls": {key: count for key, count in total.nulls.items() if key in kept}})


class CopyMeasurements(value.Value):
    """Row groups that were taken over as bytes. A column of such a row group that had to be encoded is a patch."""

    copied: proof.Side = proof.Side()  # in the inputs
    landed: proof.Side = proof.Side()  # in the outputs, read from storage
    patches_read: proof.Side = proof.Side()
    patches_encoded: proof.Side = proof.Side()
    decoded: proof.Side | None = None  # of level `deep`: the inputs read in full, without the patches

    def __add__(self, other: CopyMeasurements) -> CopyMeasurements:
        decoded = [side for side in (self.decoded, other.decoded) if side is not None]
        return CopyMeasurements(
            copied=self.copied + other.copied,
            landed=self.landed + other.landed,
            patches_read=self.patches_read + other.patches_read,
            patches_encoded=self.patches_encoded + other.patches_encoded,
            decoded=sum(decoded[1:], decoded[0]) if decoded else None,
        )


NOTHING_COPIED = CopyMeasurements()


def combine(
    level: policies.ProofLevel,
    source: SourceMeasurements,
    sink: SinkMeasurements,
    copies: CopyMeasurements = NOTHING_COPIED,
) -> proof.Proof:
    """The proof of all rows that went from these sources into these sinks."""
    deep = level is policies.ProofLevel.DEEP
    return proof.Proof(
        level=level,
        expected_rows=source.expected_rows,
        deleted_rows=source.deleted_rows,
        source=source.rows + copies.patches_read,
        sink=sink.rows + copies.patches_encoded,
        copied=copies.copied,
        landed=copies.landed,
        footers=sink.footers,
        decoded=(copies.decoded or proof.Side()) if deep else None,
        stored=sink.stored,
    )
