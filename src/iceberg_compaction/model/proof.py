"""The proof that a rewrite kept every row: one `Side` is measured where rows leave the source, another where they enter
the writer, further ones from the files as stored. Sides of several tasks add up, because every figure is a sum."""

from __future__ import annotations

from iceberg_compaction.model import plurals
from iceberg_compaction.model.policies import ProofLevel
from iceberg_compaction.model.value import Value

_MASK = 2**64 - 1


class Side(Value):
    """Rows as seen at one point of the pipeline. Figures are keyed by the top-level field id of the table schema."""

    rows: int = 0
    nulls: dict[int, int] = {}
    checksums: dict[int, int] = {}  # per column: sum of the 64-bit hashes of its values, modulo 2^64
    row_checksum: int | None = None  # over whole rows, so values that change rows are seen; None: not measured

    def __add__(self, other: Side) -> Side:
        rows_sum = None
        if self.row_checksum is not None or other.row_checksum is not None:
            rows_sum = ((self.row_checksum or 0) + (other.row_checksum or 0)) & _MASK
        return Side(
            rows=self.rows + other.rows,
            nulls=_merge(self.nulls, other.nulls),
            checksums={key: value & _MASK for key, value in _merge(self.checksums, other.checksums).items()},
            row_checksum=rows_sum,
        )


def _sum_if_both(left: Side | None, right: Side | None) -> Side | None:
    return None if left is None or right is None else left + right


def _merge(left: dict[int, int], right: dict[int, int]) -> dict[int, int]:
    return {key: left.get(key, 0) + right.get(key, 0) for key in sorted(left.keys() | right.keys())}


class Proof(Value):
    """Source against sink, and against what storage holds. `expected_rows` comes from the manifests; source and copied
    are the rows that deletes left of them. Checksums of what was copied are of bytes: those of the inputs, and those
    that storage holds afterwards."""

    level: ProofLevel
    expected_rows: int
    deleted_rows: int = 0  # that delete files took out of the inputs
    source: Side
    sink: Side
    copied: Side = Side()  # row groups that were taken over as bytes, in the inputs
    landed: Side = Side()  # the same in the outputs, re-read from storage
    footers: Side  # rows and null counts of the outputs' footers, re-read from storage
    decoded: Side | None = None  # `deep`: what was copied, read in full from the inputs
    stored: Side | None = None  # `deep`: outputs read back in full

    def __add__(self, other: Proof) -> Proof:
        return Proof(
            level=self.level,
            expected_rows=self.expected_rows + other.expected_rows,
            deleted_rows=self.deleted_rows + other.deleted_rows,
            source=self.source + other.source,
            sink=self.sink + other.sink,
            copied=self.copied + other.copied,
            landed=self.landed + other.landed,
            footers=self.footers + other.footers,
            decoded=_sum_if_both(self.decoded, other.decoded),
            stored=_sum_if_both(self.stored, other.stored),
        )

    @property
    def failures(self) -> tuple[str, ...]:
        """What does not match, in words; empty when the proof holds."""
        found = []
        if self.rows + self.deleted_rows != self.expected_rows:
            gone = f" and {self.deleted_rows} found deleted" if self.deleted_rows else ""
            found.append(f"manifests promise {self.expected_rows} rows, {self.rows} were read{gone}")
        found += _differences("the writer", self.source, self.sink)
        found += _differences("the copy", self.copied, self.landed)
        found += _count_differences("the footers", self.source + self.copied, self.footers)
        if self.level is ProofLevel.DEEP:
            found += _differences("storage", self.source + (self.decoded or Side()), self.stored or Side())
        return tuple(found)

    @property
    def rows(self) -> int:
        """Rows that left the inputs alive, on whichever way."""
        return self.source.rows + self.copied.rows

    @property
    def checksum(self) -> str:
        """The whole content as one number, for people to compare; empty at level `counts`. What was copied goes in
        with its bytes, so the number stands for the rows alone only where nothing was."""
        if self.source.row_checksum is None:
            return ""
        return f"{(self.source.row_checksum + sum(self.copied.checksums.values())) & _MASK:016x}"

    @property
    def sentence(self) -> str:
        if self.failures:
            return "Proof failed: " + "; ".join(self.failures) + "."
        told = f", checksum {self.checksum} equal" if self.checksum else ""
        gone = f", {self.deleted_rows:,} deleted" if self.deleted_rows else ""
        taken = f", {self.copied.rows:,} of them as bytes" if self.copied.rows else ""
        read = self.rows + self.deleted_rows
        came, went = plurals.count(read, "row"), plurals.count(self.footers.rows, "row")
        return f"Proof ({self.level.value}): {came} in{gone}, {went} out{taken}{told}."


def _differences(where: str, source: Side, other: Side) -> list[str]:
    """What two full measurements disagree on; a figure that one of them lacks is a disagreement too."""
    found = _count_differences(where, source, other)
    columns = [
        key for key in _keys(source.checksums, other.checksums) if source.checksums.get(key) != other.checksums.get(key)
    ]
    if columns:
        found.append(f"checksums of field ids {columns} differ between the source and {where}")
    if other.row_checksum != source.row_checksum:
        found.append(f"the row checksum differs between the source and {where}")
    if missing := sorted(source.nulls.keys() - other.nulls.keys()):
        found.append(f"{where} did not count the nulls of field ids {missing}")
    return found


def _count_differences(where: str, source: Side, other: Side) -> list[str]:
    """Rows and nulls; `other` may know the nulls of some columns only, as footers do."""
    found = []
    if other.rows != source.rows:
        found.append(f"{source.rows} rows were read but {where} got {other.rows}")
    if columns := [key for key in sorted(other.nulls) if other.nulls[key] != source.nulls.get(key, 0)]:
        found.append(f"null counts of field ids {columns} differ between the source and {where}")
    return found


def _keys(left: dict[int, int], right: dict[int, int]) -> list[int]:
    return sorted(left.keys() | right.keys())
