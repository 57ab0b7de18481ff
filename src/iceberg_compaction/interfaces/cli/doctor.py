"""`iceberg-compact doctor`: how healthy tables are, from metadata alone."""

from __future__ import annotations

from typing import Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, logs, options, spread


@exits.reported
@spread.spread
def doctor(
    catalog: options.CatalogOptions,
    console: options.ConsoleOptions,
    table: options.Tables = ["*"],  # noqa: B006 typer copies it
    branch: options.Branch = "main",
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 when a table is sick.")] = False,
) -> None:
    """Show how healthy tables are, by default all of the catalog. Reads metadata only.

    Examples:

        iceberg-compact doctor --catalog-uri sqlite:///lake/catalog.db

        iceberg-compact doctor --catalog-name prod --table 'shop.*' --output json

        iceberg-compact doctor --table shop.events --exit-code
    """
    logs.configure(console)
    from iceberg_compaction import errors
    from iceberg_compaction.interfaces.cli import output, request
    from iceberg_compaction.model.policy import Policy
    from iceberg_compaction.workflow import tables as work

    opened = request.open_catalog(catalog)
    targets = request.find_targets(opened, table)
    found, broken = [], False
    for name in targets.names:
        try:
            found.append(work.diagnose(opened, name, Policy(), branch=branch))
        except errors.CompactionError as error:
            if targets.single:
                raise
            broken = True
            exits.complain(error)
    output.output(console.output).health(found, single=targets.single)
    if broken:
        raise typer.Exit(exits.FAILED)
    if exit_code and any(health.sick for health in found):
        raise typer.Exit(exits.SICK)
