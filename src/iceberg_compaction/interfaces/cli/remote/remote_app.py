"""The verbs that a service performs. Values come from its client, and are shown as those of a local command are."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated

import typer

from iceberg_compaction import errors
from iceberg_compaction.interfaces.cli import exits, logs, options, output, spread
from iceberg_compaction.interfaces.cli.remote import remote_runs, remote_work
from iceberg_compaction.interfaces.cli.screens import help_screen
from iceberg_compaction.model.maintenance import TableMaintenance
from iceberg_compaction.model.manifest_plan import ManifestPlan
from iceberg_compaction.model.upkeep_plan import UpkeepPlan
from iceberg_compaction.model.verification import CheckVerdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.model.planned_upkeep import PlannedUpkeep

UPKEEP = ("maintain", "expire", "orphans", "manifests", "deletes", "ttl", "tags", "statistics")
RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run id, its beginning, or latest.", show_default=False)]
Catalog = Annotated[str | None, typer.Option(metavar="NAME", help="A catalog of the service; default: its first one.")]


def make_app(url: str) -> typer.Typer:
    """The application for one service."""
    app = typer.Typer(
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["--help", "-h"]},
        help="Commands that a service performs. ICEBERG_COMPACTION_TOKEN has the token.",
    )
    makers = (_run, _plan, _doctor, _explain, _history, _report, _watch, _cancel, _verify, _undo)
    for make in makers:
        verb = exits.reported(spread.spread(make(url)))
        app.command(make.__name__.removeprefix("_"), cls=help_screen.VerbCommand)(verb)
    for name in UPKEEP:
        verb = exits.reported(spread.spread(_upkeep(url, name)))
        app.command(name, cls=help_screen.VerbCommand)(verb)
    return app


def _run(url: str) -> Callable[..., None]:
    def run(
        how: remote_work.WorkOptions,
        console: options.ConsoleOptions,
        strategy: Annotated[str | None, typer.Option(metavar="NAME", help="Default: as the policy says.")] = None,
        target_file_size: Annotated[str | None, typer.Option(metavar="SIZE", help="Such as 512MB.")] = None,
    ) -> None:
        """Compact tables: the service plans, rewrites, proves and commits.

        Examples:

            iceberg-compact --server http://localhost:8080 run --table shop.events --strategy small-files
        """
        logs.configure(console)
        given = how.given(target_file_size=target_file_size)
        with remote_work.client(url) as service:
            if how.dry_run:
                plans = [service.plan(name, strategy, options=given, catalog=how.catalog) for name in how.table]
                output.output(console.output).plans(plans, single=len(plans) == 1)
                return
            begun = remote_work.each(
                how.table, lambda name: service.compact(name, strategy, options=given, catalog=how.catalog)
            )
            raise typer.Exit(remote_work.perform(service, begun, console, wait=how.wait))

    return run


def _plan(url: str) -> Callable[..., None]:
    def plan(
        how: remote_work.WorkOptions,
        console: options.ConsoleOptions,
        strategy: Annotated[str | None, typer.Option(metavar="NAME", help="Default: as the policy says.")] = None,
    ) -> None:
        """Show what a run would rewrite, why, and what it would leave alone.

        Examples:

            iceberg-compact --server http://localhost:8080 plan --table shop.events
        """
        logs.configure(console)
        with remote_work.client(url) as service:
            plans = [service.plan(name, strategy, options=how.given(), catalog=how.catalog) for name in how.table]
        output.output(console.output).plans(plans, single=len(plans) == 1)

    return plan


def _upkeep(url: str, name: str) -> Callable[..., None]:
    def upkeep(how: remote_work.WorkOptions, console: options.ConsoleOptions) -> None:
        logs.configure(console)
        with remote_work.client(url) as service:
            if how.dry_run:
                plans = [
                    service.plan_upkeep(table, name, options=how.given(), catalog=how.catalog) for table in how.table
                ]
                _show(plans, console)
                return
            begun = remote_work.each(
                how.table, lambda table: service.maintain(table, name, options=how.given(), catalog=how.catalog)
            )
            raise typer.Exit(remote_work.perform(service, begun, console, wait=how.wait))

    upkeep.__doc__ = f"""The service does `{name}` on tables, with --option as the command's options.

    Examples:

        iceberg-compact --server http://localhost:8080 {name} --table shop.events --dry-run
    """
    return upkeep


def _show(plans: list[PlannedUpkeep], console: options.ConsoleOptions) -> None:
    """Plans of one verb, as the command shows them where it is done here."""
    printer, single = output.output(console.output), len(plans) == 1
    steps = [plan for plan in plans if isinstance(plan, UpkeepPlan)]
    manifests = [plan for plan in plans if isinstance(plan, ManifestPlan)]
    if steps:
        printer.upkeep_plans(steps, single=single)
    elif manifests:
        printer.manifest_plans(manifests, single=single)
    else:
        printer.maintenance([plan for plan in plans if isinstance(plan, TableMaintenance)], single=single)


def _doctor(url: str) -> Callable[..., None]:
    def doctor(
        console: options.ConsoleOptions,
        table: Annotated[list[str], typer.Option("--table", "-t", metavar="NAME", help="A table; repeatable.")],
        catalog: Catalog = None,
    ) -> None:
        """Show how healthy tables are now, and what made them so.

        Examples:

            iceberg-compact --server http://localhost:8080 doctor --table shop.events
        """
        logs.configure(console)
        with remote_work.client(url) as service:
            healths = [service.inspect(name, catalog) for name in table]
        output.output(console.output).health(healths, single=len(healths) == 1)

    return doctor


def _explain(url: str) -> Callable[..., None]:
    def explain(
        table: Annotated[str, typer.Argument(metavar="TABLE", show_default=False)],
        console: options.ConsoleOptions,
        catalog: Catalog = None,
    ) -> None:
        """Show why a table is compacted or not.

        Examples:

            iceberg-compact --server http://localhost:8080 explain shop.events
        """
        logs.configure(console)
        with remote_work.client(url) as service:
            output.output(console.output).explanation(service.explain(table, catalog))

    return explain


def _history(url: str) -> Callable[..., None]:
    def history(
        console: options.ConsoleOptions,
        table: Annotated[str | None, typer.Option("--table", "-t", metavar="NAME", help="Runs of this table.")] = None,
        outcome: Annotated[str | None, typer.Option(metavar="KIND", help="Runs with this end.")] = None,
        since: Annotated[str | None, typer.Option(metavar="TIME", help="Began since 12h, 7d or 2026-01-31.")] = None,
        limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most this many runs.")] = 20,
    ) -> None:
        """Show past runs, the newest first.

        Examples:

            iceberg-compact --server http://localhost:8080 history --table shop.events
        """
        logs.configure(console)
        with remote_work.client(url) as service:
            records = list(itertools.islice(service.runs(table, kind=outcome, since=since), limit))
        output.output(console.output).history(records, [], filtered=bool(table or outcome or since))

    return history


def _report(url: str) -> Callable[..., None]:
    def report(run: RunId, console: options.ConsoleOptions) -> None:
        """Show one run in full.

        Examples:

            iceberg-compact --server http://localhost:8080 report 4f0c9a1b2c3d4e5f
        """
        logs.configure(console)
        with remote_work.client(url) as service:
            output.output(console.output).run_report(service.report(remote_runs.run_id(service, run)))

    return report


def _watch(url: str) -> Callable[..., None]:
    def watch(run: RunId, console: options.ConsoleOptions) -> None:
        """Watch work of the service until it ends. Ctrl-C ends the watching, not the work.

        Examples:

            iceberg-compact --server http://localhost:8080 watch 4f0c9a1b2c3d4e5f
        """
        logs.configure(console)
        with remote_work.client(url) as service:
            served = service.run(remote_runs.run_id(service, run))
            if served.work is None:
                if served.record is None:
                    raise errors.ConfigError(f"Run {run} is not one of the service; watch it where it was started.")
                output.output(console.output).outcomes([served.record.outcome], single=True)
                return
            raise typer.Exit(remote_work.perform(service, [served.work], console, wait=True))

    return watch


def _cancel(url: str) -> Callable[..., None]:
    def cancel(run: RunId, console: options.ConsoleOptions) -> None:
        """End a run, or take it out of the queue. What it has finished is committed, and nothing half-done stays.

        Examples:

            iceberg-compact --server http://localhost:8080 cancel 4f0c9a1b2c3d4e5f
        """
        logs.configure(console)
        with remote_work.client(url) as service:
            answer = service.cancel(remote_runs.run_id(service, run, changes=True))
        output.output(console.output).cancellation(answer)

    return cancel


def _verify(url: str) -> Callable[..., None]:
    def verify(run: RunId, console: options.ConsoleOptions, catalog: Catalog = None) -> None:
        """Prove a past run again.

        Examples:

            iceberg-compact --server http://localhost:8080 verify 4f0c9a1b2c3d4e5f
        """
        logs.configure(console)
        with remote_work.client(url) as service:
            result = service.verify(remote_runs.run_id(service, run), catalog=catalog)
        output.output(console.output).verification(result)
        codes = {CheckVerdict.PROVED: exits.DONE, CheckVerdict.DIFFERS: exits.FAILED}
        raise typer.Exit(codes.get(result.verdict, exits.SICK))

    return verify


def _undo(url: str) -> Callable[..., None]:
    def undo(run: RunId, console: options.ConsoleOptions, catalog: Catalog = None) -> None:
        """Bring back the files that a run replaced.

        Examples:

            iceberg-compact --server http://localhost:8080 undo 4f0c9a1b2c3d4e5f
        """
        logs.configure(console)
        with remote_work.client(url) as service:
            ended = service.undo(remote_runs.run_id(service, run, changes=True), catalog=catalog)
            raise typer.Exit(remote_work.perform(service, [ended], console, wait=True))

    return undo
