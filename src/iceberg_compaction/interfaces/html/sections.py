"""One table of the report: score and its parts, sizes, growth, writers, partitions, and what to do."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from iceberg_compaction.interfaces import words
from iceberg_compaction.interfaces.html import charts
from iceberg_compaction.model import plurals
from iceberg_compaction.model.byte_size import format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iceberg_compaction.model.table_health import ScorePart, TableHealth

_MOST_WRITERS = 8


def section(health: TableHealth, anchor: str) -> str:
    """Everything about one table."""
    state = words.state_of(health)
    left = [
        "<h3>Score</h3>",
        *(_part(part) for part in health.score_parts),
        f'<p class="soft">{escape(health.score_note)}.</p>' if health.score_note else "",
        "<h3>Around the files</h3>",
        _table((), [[escape(name), escape(fact)] for name, fact in words.facts(health)]),
    ]
    right = ["<h3>File sizes against the target</h3>", charts.histogram(health.histogram)]
    if health.growth:
        right += [
            "<h3>Growth</h3>",
            charts.growth(health.growth),
            '<p class="soft">Bars: files added in a day. Line: data files at its end.</p>',
        ]
    summary = (
        f"{health.data_files:,} data files, {format_size(health.bytes)}, {health.records:,} rows; "
        f"{format_size(health.mean_file_bytes)} on average, {format_size(health.target_file_bytes)} wanted; "
        f"{health.partitions:,} {plurals.form(health.partitions, 'partition')}"
    )
    return (
        f'<section id="{anchor}"><div class="head"><h2>{escape(health.table)}</h2>'
        f'<span class="badge {state}">{state}</span>'
        f'<span class="score {state}">{health.score}<small> of 100</small></span></div>'
        f'<p class="soft">{summary}</p>{_what_to_do(health)}'
        f'<div class="columns"><div>{"".join(left)}</div><div>{"".join(right)}</div></div>'
        f"{_writers(health)}{_partitions(health)}</section>"
    )


def header(*names: str) -> str:
    """A table's first row; a name that starts with `>` is right-aligned."""
    cells = (f"<th{_aligned(name)}>{escape(name.lstrip('>'))}</th>" for name in names)
    return f"<tr>{''.join(cells)}</tr>" if names else ""


def _aligned(name: str) -> str:
    return ' class="n"' if name.startswith(">") else ""


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already."""
    aligned = [_aligned(name) for name in names] or ["", ""]
    body = "".join(
        f"<tr>{''.join(f'<td{how}>{cell}</td>' for how, cell in zip(aligned, row, strict=True))}</tr>" for row in rows
    )
    return f'<div class="scroll"><table>{header(*names)}{body}</table></div>'


def _part(part: ScorePart) -> str:
    share = part.points / part.most
    level = "low" if share < 0.5 else "mid" if share < 0.8 else ""
    return (
        f'<div class="part"><span>{escape(part.name)}</span>'
        f'<span class="meter"><i class="{level}" style="width:{100 * share:.0f}%"></i></span>'
        f'<span>{part.points:g} of {part.most}</span><span class="why">{escape(part.why)}</span></div>'
    )


def _what_to_do(health: TableHealth) -> str:
    said = [escape(sentence) for sentence in health.advice]
    for fix in health.fixes:
        old = "not set" if fix.old is None else fix.old
        said.append(
            f"Set <code>{escape(fix.name)}</code>: <code>{escape(old)}</code> &rarr; "
            f"<code>{escape(fix.new)}</code>. {escape(fix.why)}"
        )
    causes = [escape(sentence) for sentence in health.causes]
    return _listed("What to do", said) + _listed("Who makes the small files", causes)


def _listed(title: str, sentences: Sequence[str]) -> str:
    """Sentences are HTML already."""
    items = "".join(f"<li>{sentence}</li>" for sentence in sentences)
    return f"<h3>{title}</h3><ul>{items}</ul>" if items else ""


def _writers(health: TableHealth) -> str:
    if not health.writers:
        return ""
    names = ("Writer", ">Commits", ">Every", ">Files for each", ">Mean file", ">Live small files")
    rows = [[escape(one.name), *map(escape, words.writer_figures(one))] for one in health.writers[:_MOST_WRITERS]]
    return f"<h3>Who wrote it</h3>{_table(names, rows)}"


def _partitions(health: TableHealth) -> str:
    if health.partitions < 2 or not health.worst_partitions:
        return ""
    names = ("Partition", ">Files", ">Small", ">Deletes", ">Size", ">Depth")
    rows = [
        [
            f"<code>{escape(one.partition)}</code>",
            f"{one.files:,}",
            f"{one.small_files:,}",
            f"{one.delete_files:,}",
            format_size(one.bytes),
            "" if one.clustering_depth is None else f"{one.clustering_depth:.1f}",
        ]
        for one in health.worst_partitions
    ]
    return f"<h3>Partitions with the most to gain</h3>{_table(names, rows)}"
