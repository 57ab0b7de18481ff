"""How policy files look to people: what is wrong with one, and how two differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from iceberg_compaction.interfaces.cli.screens import explain_story, paragraphs
from iceberg_compaction.interfaces.cli.screens.grid import grid, sentences
from iceberg_compaction.model import plurals
from iceberg_compaction.policy import render_policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from iceberg_compaction.model.policy_origin import PolicyOrigin
    from iceberg_compaction.model.policy_review import PolicyComparison, PolicyReview


def review(reviewed: PolicyReview) -> Iterator[RenderableType]:
    """The problems of a file, or that it has none; and what has no effect."""
    if reviewed.ok:
        parts = [plurals.count(reviewed.values, "value")]
        parts += [plurals.count(reviewed.namespaces, "namespace")] if reviewed.namespaces else []
        parts += [plurals.count(reviewed.tables, "entry of tables", "entries of tables")] if reviewed.tables else []
        parts += [f"environments {', '.join(reviewed.environments)}"] if reviewed.environments else []
        yield paragraphs.Named(name=reviewed.file, sentence=f"no problem ({', '.join(parts)}).")
    for problem in reviewed.problems:
        yield paragraphs.bullet(problem)
    if not reviewed.ok:
        count = plurals.count(len(reviewed.problems), "problem")
        yield paragraphs.Named(name=reviewed.file, sentence=f"{count}.")
    if reviewed.ignored:
        yield ""
        yield from explain_story.ignored(reviewed.ignored)


def comparison(compared: PolicyComparison) -> Iterator[RenderableType]:
    """Each value that differs, with both sides."""
    if not compared.differences:
        yield paragraphs.Paragraph(text=f"{compared.old} and {compared.new} say the same.")
        return
    table = grid("Value", sentences("Of", least=10), sentences("Was", least=10), sentences("Is", least=10))
    for each in compared.differences:
        section = each.section or "all tables"
        old, new = _side(each.name, each.old, each.old_origin), _side(each.name, each.new, each.new_origin)
        table.add_row(escape(each.name), escape(section), escape(old), escape(new))
    yield table


def _side(name: str, value: Any, origin: PolicyOrigin | None) -> str:
    if origin is None:
        return "not stated"
    return f"{render_policy.value(name, value)} ({origin.source}:{origin.line})"
