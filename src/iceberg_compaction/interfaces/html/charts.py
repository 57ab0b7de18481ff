"""Charts of one table: sizes as bars of plain HTML, growth as two small drawings (SVG) with their words around them, so
that text keeps its size on every screen. Figures come in, text goes out; every label is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from iceberg_compaction.model import plurals, times
from iceberg_compaction.model.byte_size import format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.table_health import GrowthDay, SizeBucket

_WIDTH, _HEIGHT = 480.0, 70.0


def histogram(bars: Sequence[SizeBucket]) -> str:
    """Horizontal bars, one for each size; the bar near the target is the good one, the last one too large."""
    most = max((bar.files for bar in bars), default=0) or 1
    rows = []
    for bar in bars:
        kind = "large" if bar.upto is None else "near" if bar.label.startswith("near") else ""
        share = max(100 * bar.files / most, 1 if bar.files else 0)
        rows.append(
            f'<div><dt>{escape(bar.label)}</dt><dd><span class="meter"><i class="{kind}" style="width:{share:.1f}%">'
            f"</i></span><b>{bar.files:,}</b></dd></div>"
        )
    return f'<dl class="bars">{"".join(rows)}</dl>'


def growth(days: Sequence[GrowthDay]) -> str:
    """The days with commits: a sentence for a single one, else the data files at the end of each day, and the files
    that commits of each day added."""
    if not days:
        return ""
    if len(days) == 1:
        return f"<p>{escape(_sentence(days[0]))}</p>"
    totals = [(_left(days, day), day.total_files) for day in days if day.total_files is not None]
    drawings = []
    if len(totals) > 1:
        most = max(total for _, total in totals) or 1
        points = " ".join(f"{x:.1f},{_HEIGHT - (_HEIGHT - 4) * total / most:.1f}" for x, total in totals)
        line = f'<polyline class="line" points="{points}"/>'
        words = f"Data files at the end of a day: {totals[0][1]:,} first, {totals[-1][1]:,} last, {most:,} at most"
        drawings.append(_drawing(words, line, days))
    most = max(day.added_files for day in days)
    drawings.append(_drawing(f"Files added in a day: {most:,} at most", _bars(days, most or 1), days))
    return "".join(drawings)


def _bars(days: Sequence[GrowthDay], most: int) -> str:
    width = max(1.5, min(24.0, 0.7 * _WIDTH / (_span(days) + 1)))
    shapes = []
    for day in days:
        height = (_HEIGHT - 4) * day.added_files / most
        left = _left(days, day) * (1 - width / _WIDTH)
        shapes.append(
            f'<rect class="bar" x="{left:.1f}" y="{_HEIGHT - height:.1f}" width="{width:.1f}" height="{height:.1f}">'
            f"<title>{escape(_sentence(day))}</title></rect>"
        )
    return "".join(shapes)


def _drawing(words: str, shapes: str, days: Sequence[GrowthDay]) -> str:
    return (
        f'<figure><figcaption>{escape(words)}</figcaption><svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" '
        f'preserveAspectRatio="none" role="img" aria-label="{escape(words)}">{shapes}'
        f'<line class="axis" x1="0" x2="{_WIDTH:g}" y1="{_HEIGHT:g}" y2="{_HEIGHT:g}"/></svg>'
        f'<p class="ends"><span>{escape(days[0].day)}</span><span>{escape(days[-1].day)}</span></p></figure>'
    )


def _sentence(day: GrowthDay) -> str:
    commits = plurals.count(day.commits, "commit")
    added = f"{plurals.count(day.added_files, 'file')} ({format_size(day.added_bytes)}) added"
    removed = f", {day.removed_files:,} removed" if day.removed_files else ""
    left = "" if day.total_files is None else f"; {plurals.count(day.total_files, 'data file')} at its end"
    return f"{day.day}: {commits}, {added}{removed}{left}."


def _span(days: Sequence[GrowthDay]) -> int:
    return max(1, times.to_days(days[-1].day) - times.to_days(days[0].day))


def _left(days: Sequence[GrowthDay], day: GrowthDay) -> float:
    """From left to right by the calendar: days without commits are gaps."""
    return _WIDTH * (times.to_days(day.day) - times.to_days(days[0].day)) / _span(days)
