"""`iceberg-compact history`: past runs, from the run store."""

from __future__ import annotations

from typing import Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, logs, options, spread


@exits.reported
@spread.spread
def history(
    console: options.ConsoleOptions,
    table: Annotated[str | None, typer.Option("--table", "-t", metavar="NAME", help="Runs of this table only.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many runs.")] = 20,
    state: options.State = None,
) -> None:
    """Show past runs, the newest first.

    Examples:

        iceberg-compact history

        iceberg-compact history --table shop.events --limit 5 --output json
    """
    logs.configure(console)
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output

    store = wiring.store_to_read(state)
    output.output(console.output).history([] if store is None else store.history(table=table, limit=limit))
