"""`iceberg-compact manifests`: a table's manifests written anew, clustered by partition; one table or many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iceberg_compaction.interfaces.cli import exits, logs, options, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iceberg_compaction.interfaces.cli.catalog_request import Targets
    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.manifest_plan import ManifestPlan
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.workflow.operate_manifests import ManifestGoal


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOptions:
    """What to do with the manifests."""

    target_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Size of new manifests, such as 8MiB; default: the table's commit.manifest.target-size-bytes.",
        ),
    ] = None
    spec_id: Annotated[
        int | None, typer.Option(metavar="N", help="Only manifests of this partition spec; default: all.")
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False
    branch: options.Branch = "main"
    state: options.State = None


@exits.reported
@spread.spread
def manifests(
    table: options.Tables, catalog: options.CatalogOptions, asked: ManifestOptions, console: options.ConsoleOptions
) -> None:
    """Rewrite manifests where many are small or partitions are scattered over them. No data file is touched.

    Examples:

        iceberg-compact manifests --catalog-uri sqlite:///lake/catalog.db --table shop.events

        iceberg-compact manifests --table 'shop.*' --dry-run --output json

        iceberg-compact manifests --table shop.events --target-size 4MiB --spec-id 0
    """
    logs.configure(console)
    from iceberg_compaction.interfaces.cli import catalog_request, output
    from iceberg_compaction.model import byte_size
    from iceberg_compaction.workflow import operate_manifests

    target = None if asked.target_size is None else byte_size.parse_size(asked.target_size)
    goal = operate_manifests.ManifestGoal(target_size_bytes=target, spec_id=asked.spec_id)
    opened = catalog_request.open_catalog(catalog)
    targets = catalog_request.find_targets(opened, table)
    shown = output.output(console.output)
    if asked.dry_run:
        plans, broken = _plans(opened, targets, goal, asked.branch)
        shown.manifest_plans(plans, single=targets.single)
        if broken:
            raise typer.Exit(exits.FAILED)
        return
    found: list[Outcome] = []
    try:
        for one in _rewrite(opened, targets, goal, asked, console):
            found.append(one)  # what is done stays known when the next table is cancelled
    finally:
        if found:
            shown.manifest_outcomes(found, single=targets.single)
    if not all(one.ok for one in found):
        raise typer.Exit(exits.FAILED)


def _plans(catalog: Any, targets: Targets, goal: ManifestGoal, branch: str) -> tuple[list[ManifestPlan], bool]:
    """The plan of every table that has one, and whether another could not be looked at."""
    from iceberg_compaction import errors
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.workflow import operate_manifests

    found, broken = [], False
    for name in targets.names:
        try:
            found.append(operate_manifests.plan_manifests(catalog, name, wiring.new_run(branch=branch), goal))
        except errors.CompactionError as error:
            if targets.single or isinstance(error, errors.ConfigError):
                raise
            broken = True
            exits.complain(error)
    return found, broken


def _rewrite(
    catalog: Any, targets: Targets, goal: ManifestGoal, asked: ManifestOptions, console: options.ConsoleOptions
) -> Iterator[Outcome]:
    """Every table in turn. One that cannot be rewritten does not stop the rest, unless it is the only one."""
    from iceberg_compaction import errors
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import interrupt, progress
    from iceberg_compaction.model import events
    from iceberg_compaction.model.outcome import Failed
    from iceberg_compaction.workflow import operate_manifests

    store = wiring.run_store(str(asked.state) if asked.state else None)
    interrupts = interrupt.Interrupts()
    with interrupts.listening(), progress.progress(console) as shown:
        for name in targets.names:
            interrupts.check()
            on_event = _both(interrupts.on_event, shown.on_event)
            run = wiring.new_run(branch=asked.branch, on_event=on_event, store=store)
            try:
                outcome: Outcome = operate_manifests.rewrite_manifests(catalog, name, run, goal)
            except errors.ConfigError:
                raise
            except errors.CompactionError as error:
                if targets.single:
                    raise
                outcome = Failed(table=name, sentence=str(error), run_id=run.run_id)
                on_event(events.Finished(table=name, run_id=run.run_id, outcome=outcome))
            yield outcome


def _both(first: Callable[[Event], None], second: Callable[[Event], None]) -> Callable[[Event], None]:
    def on_event(event: Event) -> None:
        first(event)
        second(event)

    return on_event
