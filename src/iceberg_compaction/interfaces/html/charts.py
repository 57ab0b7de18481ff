"""Charts as inline SVG. Figures come in, text goes out; every label is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.table_health import GrowthDay, SizeBucket

_WIDTH = 480
_ROW = 24
_LABELS, _VALUES = 150, 64  # room beside the bars
_HEIGHT, _LEFT, _TOP, _BOTTOM = 170, 8, 22, 20


def histogram(bars: Sequence[SizeBucket]) -> str:
    """Horizontal bars, one for each size; the bar near the target is the good one, the last one too large."""
    most = max((bar.files for bar in bars), default=0) or 1
    room, rows = _WIDTH - _LABELS - _VALUES, []
    for number, bar in enumerate(bars):
        kind = "large" if bar.upto is None else "near" if bar.label.startswith("near") else ""
        width, top = room * bar.files / most, number * _ROW
        rows.append(
            f'<text x="0" y="{top + 16}">{escape(bar.label)}</text>'
            f'<rect class="pale" x="{_LABELS}" y="{top + 4}" width="{room}" height="16" rx="3"/>'
            f'<rect class="bar {kind}" x="{_LABELS}" y="{top + 4}" width="{max(width, 2 if bar.files else 0):.1f}" '
            f'height="16" rx="3"/>'
            f'<text class="value" x="{_WIDTH}" y="{top + 16}" text-anchor="end">{bar.files:,}</text>'
        )
    return _svg("Data files by size", len(bars) * _ROW, rows)


def growth(days: Sequence[GrowthDay]) -> str:
    """Files that each day's commits added as bars, and data files at its end as a line."""
    if not days:
        return ""
    added = [day.added_files for day in days]
    totals = [day.total_files for day in days]
    step = (_WIDTH - 2 * _LEFT) / len(days)
    floor, room = _HEIGHT - _BOTTOM, _HEIGHT - _BOTTOM - _TOP
    most_added, most_total = max(added) or 1, max((total or 0 for total in totals), default=0) or 1
    shapes = [f'<line class="axis" x1="0" x2="{_WIDTH}" y1="{floor}" y2="{floor}"/>']
    for number, count in enumerate(added):
        height = room * count / most_added
        left, width = _LEFT + number * step + step * 0.15, min(step * 0.7, 40)
        said = f"{escape(days[number].day)}: {count:,} files added in {days[number].commits:,} commits"
        shapes.append(
            f'<rect class="bar" opacity="0.45" x="{left:.1f}" y="{floor - height:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" rx="2"><title>{said}</title></rect>'
        )
    points = [
        (_LEFT + number * step + min(step / 2, 20 + step * 0.15), floor - room * total / most_total)
        for number, total in enumerate(totals)
        if total is not None
    ]
    if points:
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        shapes.append(f'<polyline class="line" points="{drawn}"/>')
        shapes += [f'<circle class="bar" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in points[-1:]]
    said = f"most in a day: {max(added):,} added; most at its end: {most_total:,} data files"
    shapes.append(f'<text x="0" y="12">{said}</text><text x="0" y="{_HEIGHT - 4}">{escape(days[0].day)}</text>')
    shapes.append(f'<text x="{_WIDTH}" y="{_HEIGHT - 4}" text-anchor="end">{escape(days[-1].day)}</text>')
    return _svg("Growth of the table", _HEIGHT, shapes)


def _svg(title: str, height: int, shapes: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
        f"{''.join(shapes)}</svg>"
    )
