"""What a command found, printed on standard output: as JSON for programs or as tables for people. Commands compute and
hand over values; only this module and `tables` know how they look."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from iceberg_compaction.interfaces import documents
from iceberg_compaction.interfaces.cli import commands
from iceberg_compaction.interfaces.cli.options import Format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, RenderableType

    from iceberg_compaction.model.access_token import AccessToken, NewToken
    from iceberg_compaction.model.cache_figures import CacheFigures
    from iceberg_compaction.model.cancel_request import Cancellation
    from iceberg_compaction.model.explanation import Explanation
    from iceberg_compaction.model.maintenance import TableMaintenance
    from iceberg_compaction.model.manifest_plan import ManifestPlan
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.plan_difference import PlanDifference
    from iceberg_compaction.model.policy_origin import EffectivePolicy
    from iceberg_compaction.model.policy_review import PolicyComparison, PolicyReview
    from iceberg_compaction.model.resume_view import ResumeView
    from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
    from iceberg_compaction.model.run_listing import UnfinishedListing
    from iceberg_compaction.model.run_record import RunRecord
    from iceberg_compaction.model.run_report import RunReport
    from iceberg_compaction.model.undo_plan import UndoPlan
    from iceberg_compaction.model.unplanned import Unplanned
    from iceberg_compaction.model.upkeep_plan import UpkeepPlan
    from iceberg_compaction.model.usage_row import UsageRow
    from iceberg_compaction.model.value import Value
    from iceberg_compaction.model.verification import Verification
    from iceberg_compaction.model.work import Work
    from iceberg_compaction.workflow.fleet import Diagnosis

    Told = TypeVar("Told", UnfinishedListing, RunReport)

_WIDE = 160  # columns, where there is no terminal


class Output(Protocol):
    """One method for each kind of result. `single`: the user named exactly one table."""

    def health(self, found: Sequence[Diagnosis], *, single: bool) -> None: ...
    def plans(self, found: Sequence[Plan | EmptyPlan | Unplanned], *, single: bool) -> None: ...
    def plan_difference(self, difference: PlanDifference) -> None: ...
    def outcomes(self, found: Sequence[Outcome], *, single: bool) -> None: ...
    def summary(self, sentence: str) -> None: ...
    def queued(self, found: Sequence[Work], *, single: bool) -> None: ...
    def manifest_plans(self, found: Sequence[ManifestPlan | Unplanned], *, single: bool) -> None: ...
    def manifest_outcomes(self, found: Sequence[Outcome], *, single: bool) -> None: ...
    def upkeep_plans(self, found: Sequence[UpkeepPlan | Unplanned], *, single: bool) -> None: ...
    def upkeep_outcomes(self, found: Sequence[Outcome], *, single: bool) -> None: ...
    def maintenance(self, results: Sequence[TableMaintenance], *, single: bool) -> None: ...
    def history(
        self, found: Sequence[RunRecord], unfinished: Sequence[UnfinishedListing], *, filtered: bool
    ) -> None: ...
    def run_report(self, report: RunReport) -> None: ...
    def cache(self, found: CacheFigures, *, cleared: bool) -> None: ...
    def cancellation(self, found: Cancellation) -> None: ...
    def resumable(self, view: ResumeView) -> None: ...
    def verification(self, result: Verification) -> None: ...
    def undo_plan(self, plan: UndoPlan) -> None: ...
    def undo_outcome(self, outcome: Outcome) -> None: ...
    def explanation(self, explained: Explanation) -> None: ...
    def effective_policy(self, effective: EffectivePolicy) -> None: ...
    def policy_review(self, reviewed: PolicyReview) -> None: ...
    def policy_comparison(self, compared: PolicyComparison) -> None: ...
    def tokens(self, listed: Sequence[AccessToken]) -> None: ...
    def new_token(self, made: NewToken) -> None: ...
    def usage(self, rows: Sequence[UsageRow], month: str) -> None: ...


def output(chosen: Format) -> Output:
    """The printer for a format."""
    return JsonOutput() if chosen is Format.JSON else TableOutput()


class JsonOutput:
    """One JSON document: an object for one table, a list for several."""

    def health(self, found: Sequence[Diagnosis], *, single: bool) -> None:
        self._write(found, single)

    def plans(self, found: Sequence[Plan | EmptyPlan | Unplanned], *, single: bool) -> None:
        self._write(found, single)

    def plan_difference(self, difference: PlanDifference) -> None:
        self._write([difference], True)

    def outcomes(self, found: Sequence[Outcome], *, single: bool) -> None:
        self._write(_with_commands(found), single)

    def summary(self, sentence: str) -> None:
        """Programs add up outcomes themselves."""

    def queued(self, found: Sequence[Work], *, single: bool) -> None:
        self._write(found, single)

    def manifest_plans(self, found: Sequence[ManifestPlan | Unplanned], *, single: bool) -> None:
        self._write(found, single)

    def manifest_outcomes(self, found: Sequence[Outcome], *, single: bool) -> None:
        self._write(_with_commands(found), single)

    def upkeep_plans(self, found: Sequence[UpkeepPlan | Unplanned], *, single: bool) -> None:
        self._write(found, single)

    def maintenance(self, results: Sequence[TableMaintenance], *, single: bool) -> None:
        self._write(results, single)

    def upkeep_outcomes(self, found: Sequence[Outcome], *, single: bool) -> None:
        self._write(_with_commands(found), single)

    def history(self, found: Sequence[RunRecord], unfinished: Sequence[UnfinishedListing], *, filtered: bool) -> None:
        made = [documents.document(_with_command(run)) for run in unfinished]
        made += [{**documents.document(record), "state": "ended"} for record in found]
        sys.stdout.write(documents.text(made))

    def run_report(self, report: RunReport) -> None:
        self._write([_with_command(report)], True)

    def cache(self, found: CacheFigures, *, cleared: bool) -> None:
        self._write([found], True)

    def cancellation(self, found: Cancellation) -> None:
        self._write([found], True)

    def resumable(self, view: ResumeView) -> None:
        self._write([view], True)

    def verification(self, result: Verification) -> None:
        self._write([result], True)

    def undo_plan(self, plan: UndoPlan) -> None:
        self._write([plan], True)

    def undo_outcome(self, outcome: Outcome) -> None:
        self._write(_with_commands([outcome]), True)

    def explanation(self, explained: Explanation) -> None:
        self._write([explained], True)

    def tokens(self, listed: Sequence[AccessToken]) -> None:
        self._write(listed, False)

    def new_token(self, made: NewToken) -> None:
        self._write([made], True)

    def usage(self, rows: Sequence[UsageRow], month: str) -> None:
        self._write(rows, False)

    def effective_policy(self, effective: EffectivePolicy) -> None:
        self._write([effective], True)

    def policy_review(self, reviewed: PolicyReview) -> None:
        self._write([reviewed], True)

    def policy_comparison(self, compared: PolicyComparison) -> None:
        self._write([compared], True)

    def _write(self, found: Sequence[Value], single: bool) -> None:
        made = [documents.document(value) for value in found]
        sys.stdout.write(documents.text(made[0] if single and made else made))


class TableOutput:
    """Tables and sentences for people."""

    def health(self, found: Sequence[Diagnosis], *, single: bool) -> None:
        from iceberg_compaction.interfaces.cli.screens import health_story
        from iceberg_compaction.model.table_health import TableHealth

        if not found:
            self._show("There are no tables.")
            return
        self._show(*health_story.overview(found))
        if single and found and isinstance(found[0], TableHealth):
            self._show(*health_story.details(found[0]))

    def plans(self, found: Sequence[Plan | EmptyPlan | Unplanned], *, single: bool) -> None:
        from iceberg_compaction.interfaces.cli.screens import plan_story
        from iceberg_compaction.model.unplanned import Unplanned

        plans = [plan for plan in found if not isinstance(plan, Unplanned)]
        if len(plans) == 1:
            self._show(*plan_story.plan_story(plans[0]))
        elif plans:
            self._show(*plan_story.overview(plans))
        self._show_unplanned(found)
        if not found:
            self._show("There are no tables.")
        if any(not plan.empty for plan in plans):
            self._show(*plan_story.totals(plans, command=commands.to_perform_plan()))

    def plan_difference(self, difference: PlanDifference) -> None:
        from iceberg_compaction.interfaces.cli.screens import difference_story

        self._show(*difference_story.story(difference))

    def outcomes(self, found: Sequence[Outcome], *, single: bool) -> None:
        from iceberg_compaction.interfaces.cli.screens import result_tables

        if not found:
            self._show("There are no tables.")
            return
        self._show(result_tables.outcome_overview(found), *result_tables.outcome_sentences(_with_commands(found)))

    def summary(self, sentence: str) -> None:
        self._show(sentence)

    def queued(self, found: Sequence[Work], *, single: bool) -> None:
        for work in found:
            self._show(f"{work.request.table}: {work.state.value} as {work.request.work_id}.")

    def manifest_plans(self, found: Sequence[ManifestPlan | Unplanned], *, single: bool) -> None:
        from iceberg_compaction.interfaces.cli.screens.upkeep import manifest_tables
        from iceberg_compaction.model.unplanned import Unplanned

        plans = [plan for plan in found if not isinstance(plan, Unplanned)]
        if len(plans) == 1:
            self._show(*manifest_tables.plan_story(plans[0]))
        elif plans:
            self._show(manifest_tables.plans_overview(plans))
        self._show_unplanned(found)

    def manifest_outcomes(self, found: Sequence[Outcome], *, single: bool) -> None:
        from iceberg_compaction.interfaces.cli.screens.upkeep import manifest_tables

        self._show(*manifest_tables.overview(_with_commands(found)))

    def upkeep_plans(self, found: Sequence[UpkeepPlan | Unplanned], *, single: bool) -> None:
        from iceberg_compaction.interfaces.cli.screens.upkeep import upkeep_tables
        from iceberg_compaction.model.unplanned import Unplanned

        plans = [plan for plan in found if not isinstance(plan, Unplanned)]
        if len(plans) == 1:
            self._show(*upkeep_tables.plan_story(plans[0]))
        elif plans:
            self._show(upkeep_tables.plans_overview(plans))
        self._show_unplanned(found)

    def maintenance(self, results: Sequence[TableMaintenance], *, single: bool) -> None:
        from iceberg_compaction.interfaces.cli.screens.upkeep import maintenance_tables

        self._show(maintenance_tables.overview(results) if results else "There are no tables.")

    def upkeep_outcomes(self, found: Sequence[Outcome], *, single: bool) -> None:
        from iceberg_compaction.interfaces.cli.screens.upkeep import upkeep_tables

        self._show(*upkeep_tables.overview(_with_commands(found)))

    def history(self, found: Sequence[RunRecord], unfinished: Sequence[UnfinishedListing], *, filtered: bool) -> None:
        from iceberg_compaction.interfaces.cli.screens import history_table

        self._show(*history_table.history(found, [_with_command(run) for run in unfinished], filtered=filtered))

    def run_report(self, report: RunReport) -> None:
        from iceberg_compaction.interfaces.cli.screens import report_story

        self._show(*report_story.story(_with_command(report)))

    def cache(self, found: CacheFigures, *, cleared: bool) -> None:
        from iceberg_compaction.interfaces.cli.screens import result_tables

        self._show(result_tables.cache_sentence(found, cleared=cleared))

    def cancellation(self, found: Cancellation) -> None:
        self._show(found.sentence)

    def resumable(self, view: ResumeView) -> None:
        from iceberg_compaction.interfaces.cli.screens import resume_story

        self._show(*resume_story.story(view, command=commands.line("resume", view.run_id)))

    def verification(self, result: Verification) -> None:
        from iceberg_compaction.interfaces.cli.screens import undo_story

        self._show(*undo_story.verification(result))

    def undo_plan(self, plan: UndoPlan) -> None:
        from iceberg_compaction.interfaces.cli.screens import undo_story

        self._show(*undo_story.plan(plan))

    def undo_outcome(self, outcome: Outcome) -> None:
        from iceberg_compaction.interfaces.cli.screens import undo_story

        (outcome,) = _with_commands([outcome])
        self._show(*undo_story.outcome(outcome))

    def explanation(self, explained: Explanation) -> None:
        from iceberg_compaction.interfaces.cli.screens import explain_story

        self._show(*explain_story.story(explained))

    def effective_policy(self, effective: EffectivePolicy) -> None:
        from iceberg_compaction.policy import render_policy

        sys.stdout.write(render_policy.text(effective))  # to be pasted into a file, so never wrapped

    def policy_review(self, reviewed: PolicyReview) -> None:
        from iceberg_compaction.interfaces.cli.screens import policy_story

        self._show(*policy_story.review(reviewed))

    def policy_comparison(self, compared: PolicyComparison) -> None:
        from iceberg_compaction.interfaces.cli.screens import policy_story

        self._show(*policy_story.comparison(compared))

    def tokens(self, listed: Sequence[AccessToken]) -> None:
        from iceberg_compaction.interfaces.cli.screens import access_tables

        self._show(*access_tables.tokens(listed))

    def new_token(self, made: NewToken) -> None:
        from iceberg_compaction.interfaces.cli.screens import access_tables

        self._show(*access_tables.new_token(made))

    def usage(self, rows: Sequence[UsageRow], month: str) -> None:
        from iceberg_compaction.interfaces.cli.screens import access_tables

        self._show(*access_tables.usage(rows, month))

    def _show_unplanned(self, found: Sequence[Value]) -> None:
        from iceberg_compaction.interfaces.cli.screens import paragraphs
        from iceberg_compaction.model.unplanned import Unplanned

        for table in found:
            if isinstance(table, Unplanned):
                self._show(paragraphs.plan_head(table.table, None, f"{table.kind.value}: {table.sentence}"), "")

    def _show(self, *things: RenderableType) -> None:
        from iceberg_compaction.interfaces.cli.screens import paragraphs

        out = console()
        for thing in things:
            out.print(paragraphs.Paragraph(text=thing) if isinstance(thing, str) else thing)


def _with_commands(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [one.model_copy(update=_completed(one)) for one in outcomes]


def _completed(one: Outcome) -> dict[str, Any]:
    """The words of an outcome with all commands in them made complete."""
    notes = getattr(one, "notes", ())
    completed = {"notes": tuple(map(commands.complete, notes))} if notes else {}
    return {"sentence": commands.complete(one.sentence), **completed}


def _with_command(value: Told) -> Told:
    return value.model_copy(update={"command": None if value.command is None else commands.complete(value.command)})


def console() -> Console:
    """Standard output for people. It is as wide as the terminal, or as COLUMNS says; elsewhere so wide that no column
    is left out. A line that is too wide is left to the terminal, never cut."""
    from iceberg_compaction.interfaces.cli.screens.uncut import UncutConsole

    stated = os.environ.get("COLUMNS", "")
    if sys.stdout.isatty() or (stated.isdigit() and int(stated)):
        return UncutConsole(highlight=False, width=shutil.get_terminal_size().columns)
    return UncutConsole(highlight=False, width=_WIDE)
