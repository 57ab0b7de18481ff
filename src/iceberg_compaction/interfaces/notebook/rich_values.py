"""Results of the library as notebooks show them. The vocabulary knows no HTML, so the front door gives its results the
method that notebooks ask for, `_repr_html_`; what draws them is loaded when somebody looks."""

from __future__ import annotations

import shlex
from html import escape
from typing import TYPE_CHECKING, Any

from iceberg_compaction.model import (
    maintenance,
    manifest_plan,
    outcome,
    rewrite_plan,
    run_report,
    table_health,
    undo_plan,
    upkeep_plan,
    verification,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def enable() -> None:
    """Give each class its `_repr_html_`; subclasses have it, too."""
    for kind, render in _RENDERERS.items():
        setattr(kind, "_repr_html_", _method(render))  # noqa: B010 - a class of pydantic's has no such field


def _method(render: Callable[[Any], list[str]]) -> Callable[[Any], str]:
    def _repr_html_(self: Any) -> str:
        """The value for a notebook."""
        from iceberg_compaction.interfaces.html import fragment

        return fragment.fragment(render(self))

    return _repr_html_


def _command(*words: str) -> str:
    return shlex.join(("iceberg-compact", *words))


def _health(value: table_health.TableHealth) -> list[str]:
    from iceberg_compaction.interfaces.html import sections

    return [sections.section(value, "", opened=True, command=_command)]


def _rewrite_plan(value: rewrite_plan.Plan | rewrite_plan.EmptyPlan) -> list[str]:
    from iceberg_compaction.interfaces.html import plan_parts

    return plan_parts.rewrite(value)


def _manifest_plan(value: manifest_plan.ManifestPlan) -> list[str]:
    from iceberg_compaction.interfaces.html import plan_parts

    return plan_parts.manifests(value)


def _upkeep_plan(value: upkeep_plan.UpkeepPlan) -> list[str]:
    from iceberg_compaction.interfaces.html import plan_parts

    return plan_parts.upkeep(value)


def _outcome(value: outcome.Outcome) -> list[str]:
    from iceberg_compaction.interfaces.html import outcome_parts

    return outcome_parts.parts(value)


def _report(value: run_report.RunReport) -> list[str]:
    from iceberg_compaction.interfaces.html import run_page

    return run_page.parts(value, _command)


def _sentence(value: undo_plan.UndoPlan | verification.Verification) -> list[str]:
    from iceberg_compaction.interfaces.html import plan_parts, tags

    state = value.way.value if isinstance(value, undo_plan.UndoPlan) else value.verdict.value
    name, sentence = plan_parts.head(value.table, value.sentence)
    return [name, f"<p>{tags.badge(state)}</p>", sentence]


def _maintenance(value: maintenance.TableMaintenance) -> list[str]:
    from iceberg_compaction.interfaces.html import tags

    rows = [
        [escape(each.step.value), tags.badge(each.outcome.kind.value), tags.sentence(each.outcome.sentence)]
        for each in value.steps
    ]
    return [f"<h2>{tags.name(value.table)}</h2>", tags.table(("Step", "End", "What happened"), rows, caption="Steps")]


_RENDERERS: dict[type, Callable[[Any], list[str]]] = {
    table_health.TableHealth: _health,
    rewrite_plan.Plan: _rewrite_plan,
    rewrite_plan.EmptyPlan: _rewrite_plan,
    manifest_plan.ManifestPlan: _manifest_plan,
    upkeep_plan.UpkeepPlan: _upkeep_plan,
    outcome.Compacted: _outcome,
    outcome.Healthy: _outcome,
    outcome.Skipped: _outcome,
    outcome.Unsupported: _outcome,
    outcome.Conflict: _outcome,
    outcome.Failed: _outcome,
    outcome.Undone: _outcome,
    outcome.Maintained: _outcome,
    run_report.RunReport: _report,
    undo_plan.UndoPlan: _sentence,
    verification.Verification: _sentence,
    maintenance.TableMaintenance: _maintenance,
}
