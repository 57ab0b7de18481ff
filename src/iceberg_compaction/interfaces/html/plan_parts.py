"""Plans in HTML, for notebooks: what is done to which files, why, and what is left alone. Everything that comes from a
table is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from iceberg_compaction.interfaces.html import tags
from iceberg_compaction.model import plurals
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.plan_cost import dollars

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iceberg_compaction.model.manifest_plan import ManifestPlan
    from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
    from iceberg_compaction.model.upkeep_plan import UpkeepPlan, UpkeepStep

_MOST_STEPS = 200


def rewrite(plan: Plan | EmptyPlan) -> list[str]:
    """A plan to rewrite files."""
    sentences = [plan.layout.sentence, *plan.notes]
    if plan.maintainers:
        sentences.append(f"Others maintain this table: {'; '.join(each.words for each in plan.maintainers)}.")
    if plan.groups:
        sentences += [plan.copying.sentence, plan.cost.sentence]
    return [
        *head(plan.table, plan.sentence),
        _tiles(plan),
        _chart(plan),
        _kinds(plan),
        _left_out(plan),
        _said(sentences),
    ]


def manifests(plan: ManifestPlan) -> list[str]:
    """A plan to rewrite manifests."""
    done = [
        (group.reason.value, f"{len(group.manifests):,}", format_size(group.bytes), group.sentence)
        for group in plan.groups
    ]
    kept = [(each.reason.value, f"{each.manifests:,}", format_size(each.bytes), each.sentence) for each in plan.kept]
    return [
        *head(plan.table, plan.sentence),
        _listed("Manifests to write anew", "Manifests", done),
        _listed("Left alone", "Manifests", kept),
    ]


def upkeep(plan: UpkeepPlan) -> list[str]:
    """A plan of housekeeping."""
    return [
        *head(plan.table, plan.sentence),
        _listed("What would be done", "Number", _steps(plan.steps)),
        _listed("What stays", "Number", _steps(plan.kept)),
        _said(plan.notes),
    ]


def head(table: str, sentence: str) -> list[str]:
    """The table's name, and one sentence."""
    return [f"<h2>{tags.name(table)}</h2>", f"<p>{tags.sentence(sentence)}</p>"]


def _tiles(plan: Plan | EmptyPlan) -> str:
    if not plan.groups:
        return ""
    return tags.tiles(
        [
            (f"{plan.input_files:,}", f"files in {plurals.count(len(plan.groups), 'group')}"),
            (f"{plan.output_files:,}", "files after it, about"),
            (format_size(plan.input_bytes), "to read"),
            (dollars(plan.cost.cost), "estimated cost"),
            (dollars(plan.cost.saving), f"saved in {plan.cost.horizon_days:g} days"),
        ]
    )


def _chart(plan: Plan | EmptyPlan) -> str:
    """All data files by what becomes of them."""
    bars: dict[str, int] = {}
    for kind in plan.groups.kinds():
        name = f"rewritten: {kind.reason.value}"
        bars[name] = bars.get(name, 0) + kind.files
    for left in plan.left_out:
        bars[f"left: {left.reason.value}"] = left.files
    rows = [(name, files) for name, files in bars.items() if files]
    return f"<h3>Files by what becomes of them</h3>{tags.bars(rows)}" if rows else ""


def _kinds(plan: Plan | EmptyPlan) -> str:
    rows = [
        [
            escape(kind.reason.value),
            f"{kind.groups:,}",
            f"{kind.files:,}",
            format_size(kind.bytes),
            f"{kind.outputs:,}",
            f"{kind.copied_bytes / max(1, kind.bytes):.0%}",
            tags.sentence("; ".join(filter(None, (kind.sentence, kind.copy_sentence, kind.choice)))),
        ]
        for kind in plan.groups.kinds()
    ]
    names = ("Reason", ">Groups", ">Files", ">Size", ">Become", ">Copied", "Why")
    return f"<h3>What is done</h3>{tags.table(names, rows, caption='Groups of the plan')}" if rows else ""


def _left_out(plan: Plan | EmptyPlan) -> str:
    rows = [(left.reason.value, f"{left.files:,}", format_size(left.bytes), left.sentence) for left in plan.left_out]
    return _listed("Left alone", "Files", rows)


def _steps(steps: Sequence[UpkeepStep]) -> list[tuple[str, str, str, str]]:
    return [
        (step.name, f"{step.count:,}", "" if step.bytes is None else format_size(step.bytes), step.sentence)
        for step in steps
    ]


def _listed(title: str, counted: str, rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    cells = [[escape(name), count, size, tags.sentence(why)] for name, count, size, why in rows[:_MOST_STEPS]]
    more = f'<p class="soft">{len(rows) - _MOST_STEPS:,} more are not shown.</p>' if len(rows) > _MOST_STEPS else ""
    names = ("What", f">{counted}", ">Size", "Why")
    return f"<h3>{escape(title)}</h3>{tags.table(names, cells, caption=title)}{more}"


def _said(sentences: Iterable[str]) -> str:
    return "".join(f'<p class="soft">{tags.sentence(sentence)}</p>' for sentence in sentences if sentence)
