"""Charts of one run: stages and sizes as bars of plain HTML, the table's health over time as small drawings (SVG).
Figures come in, text goes out; every label is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from iceberg_compaction.interfaces import run_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iceberg_compaction.model.run_figures import HealthEntry

_WIDTH, _HEIGHT = 480.0, 70.0
_AFTER = "after"


def stages(rows: Sequence[tuple[str, float, float]]) -> str:
    """A bar for each stage, as long as its share of the run."""
    return _bars((name, share, "", f"{run_words.span(seconds)}") for name, seconds, share in rows)


def sizes(rows: Sequence[tuple[str, int, int]]) -> str:
    """Two bars for each size: files before, in a quiet colour, and after."""
    most = max((max(before, after) for _, before, after in rows), default=0) or 1
    parts = []
    for label, before, after in rows:
        kind = "near" if label.startswith("near") else "large" if label.startswith(">") else ""
        parts += [(label, before / most, "past", f"{before:,}"), (_AFTER, after / most, kind, f"{after:,}")]
    return _bars(parts)


def over_time(looks: Sequence[HealthEntry], moments: Sequence[int]) -> str:
    """Data files and small files at each look at the table. `moments`: when the run began and ended."""
    if len(looks) < 2:
        return ""
    first, last = looks[0].at_ms, looks[-1].at_ms
    span = max(1, last - first)

    def left(at_ms: int) -> float:
        return _WIDTH * (min(max(at_ms, first), last) - first) / span

    drawings = []
    for name, field in (("Data files", "data_files"), ("Small files", "small_files"), ("Delete files", "delete_files")):
        points = [(left(look.at_ms), getattr(look.figures, field)) for look in looks]
        most = max(value for _, value in points)
        if not most:
            continue
        line = " ".join(f"{x:.1f},{_HEIGHT - (_HEIGHT - 4) * value / most:.1f}" for x, value in points)
        marks = "".join(
            f'<line class="mark" x1="{left(at_ms):.1f}" x2="{left(at_ms):.1f}" y1="0" y2="{_HEIGHT:g}"/>'
            for at_ms in moments
        )
        words = f"{name}: {points[0][1]:,} first, {points[-1][1]:,} last, {most:,} at most"
        drawings.append(_drawing(words, f'{marks}<polyline class="line" points="{line}"/>', first, last))
    return "".join(drawings)


def _drawing(words: str, shapes: str, first: int, last: int) -> str:
    return (
        f'<figure><figcaption>{escape(words)}</figcaption><svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" '
        f'preserveAspectRatio="none" role="img" aria-label="{escape(words)}">{shapes}'
        f'<line class="axis" x1="0" x2="{_WIDTH:g}" y1="{_HEIGHT:g}" y2="{_HEIGHT:g}"/></svg>'
        f'<p class="ends"><span>{run_words.moment(first)}</span><span>{run_words.moment(last)}</span></p></figure>'
    )


def _bars(rows: Iterable[tuple[str, float, str, str]]) -> str:
    """Horizontal bars: label, share of the widest, class, figure."""
    parts = []
    for label, share, kind, figure in rows:
        width = max(100 * min(share, 1.0), 1 if share else 0)
        parts.append(
            f'<div><dt class="{"below" if label == _AFTER else ""}">{escape(label)}</dt><dd><span class="meter">'
            f'<i class="{kind}" style="width:{width:.1f}%"></i></span><b>{escape(figure)}</b></dd></div>'
        )
    return f'<dl class="bars wide">{"".join(parts)}</dl>'
