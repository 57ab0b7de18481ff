"""One table of the report: score and its parts, sizes, growth, writers, partitions, and what to do."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, TypeAlias

from iceberg_compaction.interfaces import words
from iceberg_compaction.interfaces.html import charts, states, tags
from iceberg_compaction.model import plurals
from iceberg_compaction.model.byte_size import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iceberg_compaction.model.table_health import ScorePart, TableHealth

Command: TypeAlias = "Callable[..., str]"

_MOST_WRITERS = 8


def section(health: TableHealth, anchor: str, *, opened: bool, command: Command) -> str:
    """Everything about one table, behind its name. `command` completes a verb and its arguments to a command line.
    `anchor`: its name in the page; empty: it has none."""
    name = f' id="{anchor}"' if anchor else ""
    state = states.state_of(health)
    left = [
        "<h3>Score</h3>",
        *(_part(part) for part in health.score_parts),
        f'<p class="soft">{escape(health.score_note)}.</p>' if health.score_note else "",
        "<h3>Around the files</h3>",
        f'<dl class="facts">{"".join(_fact(name, fact) for name, fact in words.facts(health))}</dl>',
    ]
    right = ["<h3>File sizes against the target</h3>", charts.histogram(health.histogram)]
    if health.growth:
        right += ["<h3>Growth</h3>", charts.growth(health.growth)]
    return (
        f'<details class="card"{name}{" open" if opened else ""}><summary><h2>{tags.name(health.table)}</h2>'
        f'{tags.badge(state)}<span class="score {state}">{health.score}<small> of 100</small></span></summary>'
        f'<p class="soft">{_summary(health)}</p>{_what_to_do(health, command)}'
        f'<div class="columns"><div>{"".join(left)}</div><div>{"".join(right)}</div></div>'
        f"{_writers(health)}{_partitions(health)}</details>"
    )


def _summary(health: TableHealth) -> str:
    return (
        f"{plurals.count(health.data_files, 'data file')}, {format_size(health.bytes)}, "
        f"{plurals.count(health.records, 'row')}; "
        f"{format_size(health.mean_file_bytes)} on average, {format_size(health.target_file_bytes)} wanted; "
        f"{plurals.count(health.partitions, 'partition')}"
    )


def _fact(name: str, fact: str) -> str:
    return f"<div><dt>{escape(name)}</dt><dd>{escape(fact)}</dd></div>"


def _part(part: ScorePart) -> str:
    share = part.points / part.most
    level = "low" if share < 0.5 else "mid" if share < 0.8 else "near"
    return (
        f'<div class="part"><span>{escape(part.name)}</span>'
        f'<span class="meter"><i class="{level}" style="width:{100 * share:.0f}%"></i></span>'
        f'<span>{part.points:g} of {part.most}</span><span class="why">{escape(part.why)}</span></div>'
    )


def _what_to_do(health: TableHealth, command: Command) -> str:
    dangers = [note.sentence for note in health.lifecycle if not note.is_good]
    items = [tags.sentence(sentence) for sentence in (*dangers, *health.advice)]
    for fix in health.fixes:
        old = "not set" if fix.old is None else fix.old
        items.append(
            f"Set <code>{escape(fix.name)}</code>: <code>{escape(old)}</code> &rarr; "
            f"<code>{escape(fix.new)}</code>. {escape(fix.why)}"
        )
    if health.fixes:
        line = command("doctor", "--table", health.table, "--fix-properties")
        items.append(f"To set properties that help, run: {tags.command(line)}")
    causes = [tags.sentence(sentence) for sentence in health.causes]
    return _listed("What to do", items) + _listed("Who makes the small files", causes)


def _listed(title: str, sentences: Sequence[str]) -> str:
    """Sentences are HTML already."""
    items = "".join(f"<li>{sentence}</li>" for sentence in sentences)
    return f"<h3>{title}</h3><ul>{items}</ul>" if items else ""


def _writers(health: TableHealth) -> str:
    if not health.writers:
        return ""
    names = ("Writer", ">Commits", ">Every", ">Files for each", ">Mean file", ">Live small files")
    rows = [[escape(each.name), *map(escape, words.writer_figures(each))] for each in health.writers[:_MOST_WRITERS]]
    return f"<h3>Who wrote it</h3>{tags.table(names, rows, caption=f'Writers of {health.table}')}"


def _partitions(health: TableHealth) -> str:
    if health.partitions < 2 or not health.worst_partitions:
        return ""
    names = ("Partition", ">Files", ">Small", ">Deletes", ">Size", ">Depth")
    rows = [
        [
            f"<code>{escape(each.partition)}</code>",
            f"{each.files:,}",
            f"{each.small_files:,}",
            f"{each.delete_files:,}",
            format_size(each.bytes),
            "" if each.clustering_depth is None else f"{each.clustering_depth:.1f}",
        ]
        for each in health.worst_partitions
    ]
    title = "Partitions with the most to gain"
    return f"<h3>{title}</h3>{tags.table(names, rows, caption=f'{title} of {health.table}')}"
