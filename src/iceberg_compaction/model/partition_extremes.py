"""What a table's partitions come to at the most, kept with its health. A trigger fires in some partition exactly if it
fires at the extreme of its measure, so that a table can be checked without its metadata."""

from __future__ import annotations

from iceberg_compaction.model.value import Count, Value


class PartitionExtremes(Value):
    """The extreme of each measure of `plan.triggers.decision_table` over all partitions, and what it is measured by."""

    small_file_bytes: Count  # what counted as small
    target_bytes: Count  # what classes of files are parts of
    fragment_size_divisor: Count
    min_target_size_ratio: float
    values: dict[str, float]  # by measure: the most, or the least where less is worse; absent: there is none
    oldest_ms: dict[str, int | None]  # by measure of time: the oldest last rewrite; None: there is a partition without
