"""How a plan looks to people: groups with one reason are one line; at the end totals and the command that performs
it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from iceberg_compaction.interfaces.cli.screens import paragraphs
from iceberg_compaction.interfaces.cli.screens.grid import GridColumn, figures, grid, sentences
from iceberg_compaction.model import partition_words, plurals
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.copy_plan import RateOrigin
from iceberg_compaction.model.plan_cost import dollars
from iceberg_compaction.model.policies import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan

_MOST_PARTITIONS = 3
_MOST_DELETES = 20  # partitions


def overview(plans: Sequence[Plan | EmptyPlan]) -> Iterator[RenderableType]:
    """One line for each table: the work, and in short why it is done or not."""
    tables = grid(
        "Table",
        figures("Groups", drop=2),
        figures("Files"),
        figures("Size"),
        figures("Become", drop=1),
        figures("Cost", drop=3),
        figures("Saves", drop=4),
        sentences("Why", least=20),
    )
    for plan in plans:
        counts = (plan.input_files, format_size(plan.input_bytes), plan.output_files) if plan.groups else ("", "", "")
        groups = f"{len(plan.groups):,}" if plan.groups else ""
        money = (dollars(plan.cost.cost), dollars(plan.cost.saving)) if plan.groups else ("", "")
        tables.add_row(escape(plan.table), groups, *(_figure(count) for count in counts), *money, _reasons(plan))
    yield tables
    yield paragraphs.Paragraph(text="The plan of a single table has the figures behind these reasons.", style="dim")
    yield ""


def _reasons(plan: Plan | EmptyPlan) -> str:
    """Why a table is rewritten or not, as the words of the closed sets of reasons."""
    reasons = [kind.reason.value for kind in plan.groups.kinds()]
    reasons += [f"{each.way.value} deletes" for each in plan.exchanges]
    if plan.useless_deletes:
        reasons.append("useless delete files")
    if plan.empty:
        reasons.append(f"nothing to do: {', '.join(left.reason.value for left in plan.left_out) or 'no data'}")
    return ", ".join(dict.fromkeys(reasons))


def plan_story(plan: Plan | EmptyPlan) -> Iterator[RenderableType]:
    """What a plan does to which files, why, how copying was decided, and what it leaves alone."""
    yield paragraphs.plan_head(plan.table, plan.pin, plan.sentence)
    yield ""
    yield from _deletes(plan)
    if not plan.groups:
        if plan.exchanges:
            yield from _left_out(plan)
        yield from _scores(plan)
        yield from _notes(plan)
        yield from _maintainers(plan)
        if plan.exchanges:
            yield paragraphs.Paragraph(text=plan.cost.sentence)
            yield ""
        return
    kinds = grid(
        GridColumn(name="Groups", right=True),
        figures("Files"),
        figures("Size"),
        figures("Become", drop=1),
        figures("Copied", drop=2),
        sentences("Why"),
    )
    for kind in plan.groups.kinds():
        kinds.add_row(
            f"{kind.groups:,}",
            f"{kind.files:,}",
            format_size(kind.bytes),
            f"{kind.outputs:,}",
            f"{kind.copied_bytes / max(1, kind.bytes):.0%}",
            escape(";\n".join(filter(None, (kind.sentence, kind.copy_sentence, kind.choice)))),
        )
    yield kinds
    yield from _partitions(plan)
    yield from _row_order(plan)
    yield from _left_out(plan)
    yield from _scores(plan)
    yield from _notes(plan)
    yield from _maintainers(plan)
    yield paragraphs.Paragraph(text=plan.copying.sentence)
    yield ""
    yield paragraphs.Paragraph(text=plan.cost.sentence)
    yield ""


def totals(plans: Sequence[Plan | EmptyPlan], *, command: str) -> Iterator[RenderableType]:
    """Files, bytes and predicted seconds of all plans, and the command that performs them."""
    work = [plan for plan in plans if plan.groups]
    if work:
        yield paragraphs.Paragraph(text=_total(work))
    yield paragraphs.Command(label="apply with:", command=command)


def _total(work: Sequence[Plan | EmptyPlan]) -> str:
    files, size = sum(plan.input_files for plan in work), sum(plan.input_bytes for plan in work)
    outputs = sum(plan.output_files for plan in work)
    tables = f" of {len(work)} tables" if len(work) > 1 else ""
    seconds = sum(plan.copying.core_seconds for plan in work)
    assumed = any(plan.copying.rates.encoding.origin is RateOrigin.DEFAULT for plan in work)
    basis = "at an assumed speed" if assumed else "at the speed of earlier runs"
    become = plurals.form(files, "becomes", "become")
    amount = f"{plurals.count(files, 'file')}{tables}, {format_size(size)}, {become} about {outputs:,}"
    cost, saving = (dollars(sum(getattr(plan.cost, name) for plan in work)) for name in ("cost", "saving"))
    money = f"estimated cost {cost}, saving {saving} in {work[0].cost.horizon_days:g} days"
    return f"Total: {amount}; {_seconds(seconds)} on one core, {basis}; {money}."


def _partitions(plan: Plan | EmptyPlan) -> Iterator[RenderableType]:
    """The first partitions by name. All of them are in JSON."""
    partitions = plan.partitions
    names = [partition_words.text(partition) or "(all)" for _, partition in partitions[:_MOST_PARTITIONS]]
    if len(plan.groups) < 2 or names == ["(all)"]:
        return
    more = len(partitions) - len(names)
    shown = ", ".join(names) + (f" and {more:,} more" if more > 0 else "")
    hint = "; --output json lists every group" if more > 0 or len(plan.groups) > len(partitions) else ""
    yield paragraphs.Paragraph(text=f"{plurals.count(len(partitions), 'partition')}: {shown}{hint}.")
    yield ""


def _row_order(plan: Plan | EmptyPlan) -> Iterator[RenderableType]:
    """What rows of whole groups are sorted by, if the strategy sorts."""
    if not plan.layout.sentence:
        return
    linear = (
        " The order is linear: z-order arrives with a shuffle." if plan.policy.strategy is Strategy.DIMENSIONAL else ""
    )
    yield paragraphs.Paragraph(text=f"{plan.layout.sentence}{linear}")
    yield ""


def _left_out(plan: Plan | EmptyPlan) -> Iterator[RenderableType]:
    if not plan.left_out:
        return
    left_out = grid("Left alone", figures("Files"), figures("Size"), sentences("Why"))
    for left in plan.left_out:
        left_out.add_row(left.reason.value, f"{left.files:,}", format_size(left.bytes), escape(left.sentence))
    yield left_out


def _deletes(plan: Plan | EmptyPlan) -> Iterator[RenderableType]:
    """What becomes of the deletes of each partition, with the figures of all ways. All of them are in JSON."""
    if not plan.deletes:
        return
    table = grid("Partition", "Deletes", sentences("Why"), title="Deletes by partition")
    for each in plan.deletes[:_MOST_DELETES]:
        name = partition_words.text(each.partition) or "(all)"
        table.add_row(escape(name), each.way.value, escape(each.sentence))
    yield table
    if (more := len(plan.deletes) - _MOST_DELETES) > 0:
        yield paragraphs.Paragraph(text=f"{plurals.count(more, 'more partition')}; --output json lists all.")
        yield ""


def _scores(plan: Plan | EmptyPlan) -> Iterator[RenderableType]:
    """The highest scores, each as the sum of its parts, and the triggers that fired."""
    if not plan.partition_scores:
        return
    scores = grid(
        "Partition",
        figures("Score"),
        GridColumn(name="Files, deletes, time, small", drop=1),
        sentences("Triggers"),
        title="Partitions by score",
    )
    for part in plan.partition_scores:
        fired = "; ".join(part.triggers) or "none"
        name = partition_words.text(part.partition) or "(all)"
        scores.add_row(escape(name), f"{part.score:.2f}", part.sum_words, escape(fired))
    yield scores


def _notes(plan: Plan | EmptyPlan) -> Iterator[RenderableType]:
    for note in plan.notes:
        yield paragraphs.Paragraph(text=note)
        yield ""


def _maintainers(plan: Plan | EmptyPlan) -> Iterator[RenderableType]:
    """Other tools that rewrite the table."""
    if plan.maintainers:
        names = "; ".join(maintainer.words for maintainer in plan.maintainers)
        yield paragraphs.Paragraph(text=f"Others maintain this table: {names}.")
        yield ""


def _figure(count: int | str) -> str:
    return count if isinstance(count, str) else f"{count:,}"


def _seconds(seconds: float) -> str:
    return "less than a second" if seconds < 1 else f"about {plurals.count(round(seconds), 'second')}"
