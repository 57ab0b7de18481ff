"""`iceberg-compact doctor`: how healthy tables are, from metadata alone; why, and what would prevent it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, lean_start, logs, options, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.workflow.fleet import Diagnosis


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions(options.MetricsOptions):
    """Which tables to look at, and what to do with the answer."""

    bare: options.BareTables = None
    table: options.AnyTables = None
    all_tables: Annotated[bool, typer.Option("--all", help="Every table of the catalog; the default.")] = False
    branch: options.Branch = "main"
    partitions: Annotated[int, typer.Option(min=0, metavar="N", help="How many of the worst partitions to name.")] = 10
    parallel: Annotated[int, typer.Option(min=1, metavar="N", help="How many tables to look at side by side.")] = 4
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a report for a browser (HTML) to this file.")
    ] = None
    compare: Annotated[
        Path | None,
        typer.Option(metavar="OLD.json", help="Show in the report what has changed since this JSON of doctor."),
    ] = None
    fix_properties: Annotated[
        bool, typer.Option("--fix-properties", help="Show table properties that would help, ask, and set them.")
    ] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Set them without asking.")] = False
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 3 when a table is sick.")] = False
    remember: Annotated[
        bool,
        typer.Option(
            "--remember",
            envvar="ICEBERG_COMPACTION_REMEMBER_HEALTH",
            help="Also write the figures of each table to the run store, which shows them over time.",
        ),
    ] = False
    state: options.State = None

    @property
    def wanted(self) -> list[str]:
        """Names and patterns."""
        return [*(self.bare or ()), *(self.table or ())] or ["*"]


@exits.reported
@spread.spread
def doctor(catalog: options.CatalogOptions, asked: DoctorOptions, console: options.ConsoleOptions) -> None:
    """Show how healthy tables are, by default all of the catalog, and what made them so. Reads metadata only.

    Examples:

        iceberg-compact doctor --catalog-uri sqlite:///lake/catalog.db

        iceberg-compact doctor --table 'shop.*' --output json

        iceberg-compact doctor --all --report health.html

        iceberg-compact doctor --report today.html --compare monday.json

        iceberg-compact doctor --table shop.events --fix-properties

        iceberg-compact doctor --remember --store lake/runs.db
    """
    logs.configure(console)
    lean_start.spare_pandas()
    from iceberg_compaction import errors
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import examination, fixing, output
    from iceberg_compaction.interfaces.cli.fleet import catalog_request, result_files
    from iceberg_compaction.model.table_health import TableHealth

    if asked.all_tables and (asked.table or asked.bare):
        raise errors.ConfigError("--all means every table; give either --all or --table, not both.")
    result_files.check_report(asked.report)
    if asked.yes and not asked.fix_properties:
        raise errors.ConfigError("--yes answers the question of --fix-properties; give both.")
    if asked.compare is not None and asked.report is None:
        raise errors.ConfigError("--compare adds the trend to the report; give --report FILE as well.")
    earlier = examination.read_earlier(asked.compare) if asked.compare else None
    with wiring.observing(asked) as metrics:
        opened = catalog_request.open_catalog(catalog)
        targets = catalog_request.find_targets(opened, asked.wanted, catalog.namespace)
        found = examination.examine(opened, targets, asked, console)
        if metrics is not None:
            metrics.begin(targets.names)
            for health in found:
                if isinstance(health, TableHealth):
                    metrics.on_health(health)
    if asked.report is not None:
        examination.write_report(asked.report, found, catalog=opened.name, earlier=earlier)
    output.output(console.output).health(found, single=targets.single)
    failed = not fixing.fix(opened, found, yes=asked.yes) if asked.fix_properties else False
    _leave(found, failed=failed, exit_code=asked.exit_code)


def _leave(found: Sequence[Diagnosis], *, failed: bool, exit_code: bool) -> None:
    from iceberg_compaction.model.table_health import BrokenTable

    if failed or any(isinstance(one, BrokenTable) for one in found):
        raise typer.Exit(exits.FAILED)
    if exit_code and any(getattr(one, "sick", False) for one in found):
        raise typer.Exit(exits.SICK)
