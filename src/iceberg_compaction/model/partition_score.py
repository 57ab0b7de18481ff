"""The score of a partition by the guide's formula, with its parts: 0.3 x min(files / 100, 1) + 0.3 x fragment ratio +
0.2 x min(hours since the last rewrite / 24, 1) + 0.2 x small ratio. The higher, the more there is to gain."""

from __future__ import annotations

from iceberg_compaction.model.value import Count, Value

FILES_WEIGHT, FRAGMENT_WEIGHT, TIME_WEIGHT, SMALL_WEIGHT = 0.3, 0.3, 0.2, 0.2
MANY_FILES = 100
LONG_HOURS = 24.0  # a partition that was never rewritten counts as this


class PartitionScore(Value):
    """The figures of a partition, and what each adds to its score."""

    spec_id: Count
    partition: str
    score: float
    files: Count
    files_part: float
    fragment_ratio: float  # equality and position delete files / data files
    fragment_part: float
    hours: float | None  # since the last rewrite; None: never
    time_part: float
    small_ratio: float  # files below small_file_threshold / files
    small_part: float
    triggers: tuple[str, ...] = ()  # those that fired, with figures

    @property
    def sum_words(self) -> str:
        """The sum as people check it."""
        parts = (self.files_part, self.fragment_part, self.time_part, self.small_part)
        return " + ".join(f"{part:.2f}" for part in parts)
