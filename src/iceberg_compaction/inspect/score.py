"""A table's health as one number from 0 to 100, by a formula that a person can check by hand; docs/health.md states it.
Counts come in, the score goes out."""

from __future__ import annotations

from dataclasses import dataclass

FILES, DELETES, MANIFESTS = 60, 25, 15  # points of each part; together 100
HEALTHY = 80  # a table that needs no run has at least this, one that needs a run has less
FILES_PER_MANIFEST = 100
FEW_MANIFESTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The counts that the score is made of."""

    data_files: int
    delete_files: int
    small_files: int
    lone_small_files: int  # partitions with a small file: one each may stay small, as the rest of a division
    large_files: int
    manifests: int

    @property
    def wrong_files(self) -> int:
        """Files of a wrong size that need not be."""
        return self.small_files - self.lone_small_files + self.large_files

    @property
    def fair_manifests(self) -> int:
        """Manifests that a table with this many files may have."""
        return max(FEW_MANIFESTS, (self.data_files + self.delete_files) // FILES_PER_MANIFEST)


def score(figures: Figures, *, sick: bool, supported: bool) -> int:
    """The sum of the parts, kept on the side of `HEALTHY` where the table belongs."""
    files = max(1, figures.data_files)
    points = (
        FILES * (1 - figures.wrong_files / files)
        + DELETES * (1 - min(1.0, figures.delete_files / files))
        + MANIFESTS * min(1.0, figures.fair_manifests / max(1, figures.manifests))
    )
    if sick:
        return min(HEALTHY - 1, int(points))
    return max(HEALTHY, int(points)) if supported else int(points)
