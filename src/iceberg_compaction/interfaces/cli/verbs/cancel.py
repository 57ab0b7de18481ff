"""`iceberg-compact cancel`: end a run that works in another process, on this machine or another one."""

from __future__ import annotations

from typing import Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, logs, options, spread


@exits.reported
@spread.spread
def cancel(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run id, the beginning of one, or `latest`.", show_default=False),
    ],
    console: options.ConsoleOptions,
    wait: Annotated[
        str,
        typer.Option(metavar="DURATION", help="How long to wait for the end of the run, such as 30s; 0: not at all."),
    ] = "30s",
    state: options.State = None,
) -> None:
    """End a run that is at work in another process. What it has finished is committed, and nothing half-done stays.

    Examples:

        iceberg-compact cancel latest

        iceberg-compact cancel 4f0c9a1b --wait 2m --output json
    """
    logs.configure(console)
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output, run_names
    from iceberg_compaction.model import durations
    from iceberg_compaction.model.cancel_request import CancelState

    seconds = 0.0 if wait.strip() in ("0", "0s") else durations.parse_seconds(wait)
    store = wiring.store_to_read(state)
    named = run_names.find(store, run)
    assert store is not None  # else there is no run of any name
    answer = wiring.canceller(store, wait_s=seconds).cancel(named.run_id, named.table, named.unfinished)
    output.output(console.output).cancellation(answer)
    raise typer.Exit(exits.FAILED if answer.state is CancelState.REQUESTED and seconds else exits.DONE)
