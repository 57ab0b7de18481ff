"""`iceberg-compact verify`: a past run is proved again from its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iceberg_compaction.interfaces.cli import exits, logs, options, spread

if TYPE_CHECKING:
    from iceberg_compaction.interfaces.cli.fleet.run_request import PastRun
    from iceberg_compaction.model.verification import Verification

ENGINE = typer.Option(
    metavar="inline|spark|auto", help="Where files are read: in this process, on Spark, or as it is worth it."
)
TABLE = typer.Option(
    "--table", "-t", metavar="NAME", help="The table of the run; needed if the run store does not have the run."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """Which run, and how its files are read."""

    table: Annotated[str | None, TABLE] = None
    engine: Annotated[str, ENGINE] = "inline"
    state: options.State = None
    deadline: options.Deadline = None


@exits.reported
@spread.spread
def verify(
    run: options.RunName, catalog: options.CatalogOptions, how: VerifyOptions, console: options.ConsoleOptions
) -> None:
    """Prove a past run again: read the files that it wrote, and compare their rows with the proof of the run and with
    the files that it replaced, as long as these exist. Nothing is written.

    The exit code is 0 if all is proved, 1 if rows differ or a file is damaged, 3 if something cannot be checked.

    Examples:

        iceberg-compact verify latest --catalog-uri sqlite:///lake/catalog.db

        iceberg-compact verify 4f0c9a1b --table shop.events --output json
    """
    logs.configure(console)
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.interfaces.cli.fleet import catalog_request, run_request
    from iceberg_compaction.model.verification import CheckVerdict

    opened = catalog_request.open_catalog(catalog)
    past = run_request.find(opened, wiring.store_to_read(how.state), run, how.table, catalog.namespace)
    result = _verify(opened, past, how, console)
    output.output(console.output).verification(result)
    codes = {
        CheckVerdict.PROVED: exits.DONE,
        CheckVerdict.DIFFERS: exits.FAILED,
        CheckVerdict.UNCHECKED: exits.SICK,
    }
    raise typer.Exit(codes[result.verdict])


def _verify(catalog: Any, past: PastRun, how: VerifyOptions, console: options.ConsoleOptions) -> Verification:
    from iceberg_compaction import cancel
    from iceberg_compaction.catalog import load_tables
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import interrupt, progress
    from iceberg_compaction.model import durations
    from iceberg_compaction.operations.verify import verify_run

    seconds = None if how.deadline is None else durations.parse_seconds(how.deadline)
    token = cancel.CancelToken(seconds=seconds)
    request = verify_run.VerifyRun(table=past.table, checked_run_id=past.run_id, remembered=past.remembered)
    with interrupt.listening(token), progress.progress(console) as shown:
        run = wiring.new_run(on_event=shown.on_event, cancel=token)
        table = load_tables.load_table(catalog, past.table)
        return verify_run.verify(request, table, run, wiring.engine_factory(how.engine))
