"""A table's health as one number from 0 to 100, by a formula that a person can check by hand;
docs/reference/health.md states it. Counts come in, the parts and their sum go out."""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_compaction.model.table_health import ScorePart

SIZES, DELETES, MANIFESTS, SNAPSHOTS, SPEC = 50, 25, 10, 5, 10  # points of each part; together 100
HEALTHY = 80  # a table that needs no run has at least this, one that needs a run has less
FILES_PER_MANIFEST = 100
FEW_MANIFESTS = 10
MANY_SNAPSHOTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFigures:
    """The counts behind the score."""

    data_files: int
    delete_files: int
    small_files: int
    lone_small_files: int  # partitions with a small file: one each may stay small, as the rest of a division
    large_files: int
    manifests: int
    snapshots: int = 0
    records: int = 0
    deleted_rows: int = 0  # by position deletes and deletion vectors
    stale_spec_files: int = 0  # data files that are not of the current partition spec

    @property
    def wrong_files(self) -> int:
        """Files of a wrong size that a rewrite could avoid."""
        return self.small_files - self.lone_small_files + self.large_files

    @property
    def fair_manifests(self) -> int:
        """The number of manifests that suits this many files."""
        return max(FEW_MANIFESTS, (self.data_files + self.delete_files) // FILES_PER_MANIFEST)


def parts(figures: HealthFigures) -> tuple[ScorePart, ...]:
    """The points of each aspect of the table, and the division behind them."""
    files = figures.data_files
    by_files = _ratio(figures.delete_files, files)
    by_rows = _ratio(figures.deleted_rows, figures.records)
    deleted, whole = (figures.delete_files, files) if by_files >= by_rows else (figures.deleted_rows, figures.records)
    ratio = "delete files / data files" if by_files >= by_rows else "deleted rows / rows"
    return (
        _lost("file sizes", SIZES, figures.wrong_files, files, "files of a wrong size / data files"),
        _lost("deletes", DELETES, deleted, whole, ratio),
        _kept("manifests", MANIFESTS, figures.fair_manifests, figures.manifests, "fair manifests / manifests"),
        _kept("snapshots", SNAPSHOTS, MANY_SNAPSHOTS, figures.snapshots, "snapshots that are plenty / snapshots"),
        _lost("partition spec", SPEC, figures.stale_spec_files, files, "files of older specs / data files"),
    )


def score(score_parts: tuple[ScorePart, ...], *, sick: bool, supported: bool) -> tuple[int, str | None]:
    """The sum of the parts, limited so that sick tables stay below `HEALTHY` and others do not; and a note if the limit
    changed it."""
    points = int(sum(part.points for part in score_parts) + 1e-9)  # 7.1 + 2.9 is 10, whatever doubles say
    if sick and points >= HEALTHY:
        return HEALTHY - 1, f"the parts make {points}, but a table that needs a run has at most {HEALTHY - 1}"
    if not sick and supported and points < HEALTHY:
        return HEALTHY, f"the parts make {points}, but a table for which a run can do nothing has at least {HEALTHY}"
    return points, None


def _ratio(part: int, whole: int) -> float:
    return min(1.0, part / whole) if whole else float(part > 0)


def _lost(name: str, most: int, wrong: int, whole: int, ratio: str) -> ScorePart:
    points = round(most * (1 - _ratio(wrong, whole)), 2)
    why = f"{most} x (1 - {wrong:,} / {whole:,}), {ratio}"
    return ScorePart(name=name, points=points, most=most, why=why if wrong or whole else _none(ratio))


def _kept(name: str, most: int, fair: int, count: int, ratio: str) -> ScorePart:
    points = round(most * min(1.0, fair / max(1, count)), 2)
    why = f"{most} x {fair:,} / {count:,}, at most {most}, {ratio}"
    return ScorePart(name=name, points=points, most=most, why=why if count else _none(ratio))


def _none(ratio: str) -> str:
    """Nothing can be divided by zero, so an empty table has all points."""
    return f"no {ratio.rpartition(' / ')[2]}"
