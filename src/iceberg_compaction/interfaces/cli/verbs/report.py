"""`iceberg-compact report`: one run in full, from the run store."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, logs, options, spread


@exits.reported
@spread.spread
def report(
    run: options.RunName,
    console: options.ConsoleOptions,
    table: Annotated[
        str | None, typer.Option("--table", "-t", metavar="NAME", help="latest means the latest run of this table.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write a page for a browser to this file.")
    ] = None,
    state: options.State = None,
) -> None:
    """Show one run in full, from the run store alone.

    The report has the table before and after the run, the plan's forecast and what it became, the time of each stage,
    groups, commits, proof and requests.

    Examples:

        iceberg-compact report latest

        iceberg-compact report 3f2a91 --html run.html

        iceberg-compact report latest --table shop.events --output json
    """
    logs.configure(console)
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output, run_files, run_names
    from iceberg_compaction.record.reports import report_run

    run_files.check(html)
    store = wiring.store_to_read(state)
    named = run_names.find(store, run, table=table)
    assert store is not None  # a run was found in it
    made = report_run.report(store, named.run_id, wiring.now_ms())
    if html is not None:
        run_files.write(html, made)
    output.output(console.output).run_report(made)
