"""`iceberg-compact watch`: a run as it goes on, from another process."""

from __future__ import annotations

from typing import Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, logs, options, spread


@exits.reported
@spread.spread
def watch(
    run: options.RunName,
    console: options.ConsoleOptions,
    table: Annotated[
        str | None, typer.Option("--table", "-t", metavar="NAME", help="latest means the latest run of this table.")
    ] = None,
    state: options.State = None,
) -> None:
    """Watch a run of another process until it ends.

    Ctrl-C ends the watching, not the run. The exit code is that of the run: 0 done or nothing to do, 1 failed or died.

    Examples:

        iceberg-compact watch latest

        iceberg-compact watch 3f2a91 --output json
    """
    logs.configure(console)
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import run_names
    from iceberg_compaction.interfaces.cli.live import watching

    store = wiring.store_to_read(state)
    named = run_names.find(store, run, table=table)
    assert store is not None  # a run was found in it
    raise typer.Exit(watching.watch(store, named, console))
