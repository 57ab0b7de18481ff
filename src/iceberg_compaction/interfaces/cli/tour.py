"""The steps of the demo, and what is shown at each. As JSON only the outcomes are printed."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from iceberg_compaction.catalog import connect, sample_lake
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli import commands, output
from iceberg_compaction.interfaces.cli.fleet import catalog_request, table_loop
from iceberg_compaction.interfaces.cli.options import Format
from iceberg_compaction.interfaces.cli.screens import health_story, result_tables
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.workflow import diagnose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, RenderableType

    from iceberg_compaction.interfaces.cli.options import ConsoleOptions
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.table_health import TableHealth
    from iceberg_compaction.operations.operation import EngineFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One table at one moment."""

    health: TableHealth
    scan_seconds: float


def guide(folder: Path, engines: EngineFactory, console: ConsoleOptions) -> list[Outcome]:
    """Build, look, compact, look again, run once more. Returns the outcomes of both runs."""
    say = _teller(console)
    catalog = connect.connect(sample_lake.create(folder))
    say.rule("1. A lake with four tables")
    names = _build(catalog, say)
    before = _look(catalog, names)
    say.rule("2. How healthy they are (iceberg-compact doctor)")
    say.print(*health_story.overview([look.health for look in before]))
    before = [look for look in before if look.health.table != sample_lake.VISITS]

    say.rule("3. Compaction (iceberg-compact run)")
    targets = catalog_request.Targets(names=tuple(look.health.table for look in before), single=False)
    store = wiring.run_store(str(folder / sample_lake.RUNS))
    with table_loop.Session(engines, store, console) as session:
        first = list(session.compact(catalog, targets, Policy()))
        session.check()
        say.print(*result_tables.outcome_sentences(first), sep="\n")
        after = _look(catalog, targets.names)
        say.rule("4. Before and after")
        say.print(_before_and_after(before, after))
        _prove(say, before, after, first)
        say.rule("5. A second run finds nothing to do")
        second = list(session.compact(catalog, targets, Policy()))
        session.check()
    say.print(*(f"{one.table}: {one.sentence}" for one in second), sep="\n")
    if console.output is Format.JSON:
        output.output(console.output).outcomes([*first, *second], single=False)
    return [*first, *second]


def what_next(folder: Path, engine: str, console: ConsoleOptions) -> None:
    """Commands to go on with, for a lake that was kept; on the engine of the demo, as Spark need not be installed."""
    say = _teller(console)
    say.rule("Your turn")
    say.print(f"The lake is in {commands.short_path(folder)}/; {sample_lake.VISITS} is still sick. Paste these:\n")
    for command in next_commands(folder, engine):
        say.print(escape(command), soft_wrap=True)
    say.print(
        "\nFor your own tables, give your own catalog: --catalog-uri, or --catalog-name of PyIceberg's configuration."
    )


def keep_next_time(console: ConsoleOptions) -> None:
    """The command that keeps the lake, for a lake that is gone."""
    say = _teller(console)
    say.rule("Your turn")
    say.print("This lake is gone. This keeps one to try things on:\n")
    say.print(escape(commands.line("demo", "--keep", "lake")), soft_wrap=True)


def next_commands(folder: Path, engine: str) -> tuple[str, ...]:
    """From a look at the lake to a healthy table, and to the history of both."""
    commands.remember(
        {"catalog_uri": f"sqlite:///{commands.short_path(folder / sample_lake.CATALOG)}", "engine": engine}
    )
    table, state = ("--table", sample_lake.VISITS), ("--store", commands.short_path(folder / sample_lake.RUNS))
    java = _java(os.environ.get("JAVA_HOME")) if engine == "spark" else ""
    return (
        commands.line("doctor"),
        commands.line("plan", *table),
        java + commands.line("run", *table, *state),
        commands.line("doctor", *table),
        commands.line("history", *state),
    )


def _java(home: str | None) -> str:
    """`make demo` looks for a Java and names it for this process only; the shell may find another one, or none."""
    java = shutil.which("java")
    if not home or (java and Path(java).resolve().is_relative_to(Path(home).resolve())):
        return ""
    return f"JAVA_HOME={shlex.quote(home)} "


def _teller(console: ConsoleOptions) -> Console:
    say = output.console()
    say.quiet = console.output is Format.JSON
    return say


def _build(catalog: Any, say: Console) -> tuple[str, ...]:
    with say.status("appending ...") as status:
        names = sample_lake.build(catalog, lambda done, total: status.update(f"append {done} of {total}"))
    say.print(
        f"{sample_lake.EVENTS}: by day, {sample_lake.EVENT_APPENDS} appends; {sample_lake.CUSTOMERS}: "
        f"{sample_lake.CUSTOMER_APPENDS} appends; {sample_lake.ORDERS}: written well; {sample_lake.VISITS}: by day, "
        f"{sample_lake.VISIT_APPENDS} appends."
    )
    return names


def _look(catalog: Any, names: Sequence[str]) -> list[Look]:
    return [
        Look(
            health=diagnose.diagnose(catalog, name, Policy(), diagnose.HealthLook(cache=wiring.manifest_cache())),
            scan_seconds=min(sample_lake.full_scan_seconds(catalog, name) for _ in range(2)),
        )
        for name in names
    ]


def _before_and_after(before: Sequence[Look], after: Sequence[Look]) -> RenderableType:
    shown = result_tables.grid("Table", ">Files", ">Mean file", ">Full scan", ">Score")
    for old, new in zip(before, after, strict=True):
        shown.add_row(
            old.health.table,
            f"{old.health.data_files:,} -> {new.health.data_files:,}",
            f"{format_size(old.health.mean_file_bytes)} -> {format_size(new.health.mean_file_bytes)}",
            f"{old.scan_seconds:.2f} s -> {new.scan_seconds:.2f} s",
            f"{old.health.score} -> {new.health.score}",
        )
    return shown


def _prove(say: Console, before: Sequence[Look], after: Sequence[Look], outcomes: Sequence[Outcome]) -> None:
    rows_before = sum(look.health.records for look in before)
    rows_after = sum(look.health.records for look in after)
    proved = [one.proof for one in outcomes if one.proof is not None]
    holds = rows_before == rows_after and bool(proved) and not any(proof.failures for proof in proved)
    checksums = ", ".join(proof.checksum for proof in proved)
    verdict = "[green]equal[/]" if holds else "[red]NOT equal[/]"
    say.print(f"Proof: {rows_before:,} rows before, {rows_after:,} after; checksums {checksums}: {verdict}.")
