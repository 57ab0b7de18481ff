"""`iceberg-compact maintain`: all upkeep that the policy of a table asks for, in the one safe order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iceberg_compaction.interfaces.cli import engine_start, exits, lean_start, logs, options, spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.interfaces.cli.fleet.table_loop import Session
    from iceberg_compaction.interfaces.followed_policy import FollowedPolicy
    from iceberg_compaction.model.maintenance import MaintenanceStep, TableMaintenance
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.operations.neighbourhood.look_around import Neighbourhoods
    from iceberg_compaction.operations.operation import EngineFactory, Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainOptions(options.MetricsOptions):
    """Which steps, and how they are performed and remembered."""

    policy_file: options.PolicyFile = None
    environment: options.Environment = None
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="These steps, whatever the policy turns on: tags, expire, ttl, deletes, rewrite, manifests, "
            "statistics, orphans; their order is always this one.",
        ),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show which steps there are, and their plans.")] = False
    engine: options.Engine = "spark"
    state: options.State = None
    deadline: options.Deadline = None


@exits.reported
@spread.spread
def maintain(
    tables: options.TableOptions,
    catalog: options.CatalogOptions,
    how: MaintainOptions,
    console: options.ConsoleOptions,
) -> None:
    """Do all upkeep that the policies of tables ask for: tags, expired snapshots, rows past their time, delete files,
    rewrites, manifests, statistics, orphans; always in this order, each only where there is work. Without a policy only
    files are rewritten.

    Examples:

        iceberg-compact maintain --all --policy policy.yaml

        iceberg-compact maintain shop.events --steps expire,rewrite,manifests --dry-run

        iceberg-compact maintain --table 'shop.*' --policy policy.yaml --environment production --output json
    """
    logs.configure(console)
    lean_start.spare_pandas()
    tables.check()
    with engine_start.starting("inline" if how.dry_run else how.engine, catalog.conf) as engines:
        code = _maintain(tables, catalog, how, console, engines)
    raise typer.Exit(code)


def _maintain(
    tables: options.TableOptions,
    catalog: options.CatalogOptions,
    how: MaintainOptions,
    console: options.ConsoleOptions,
    engines: EngineFactory,
) -> int:
    from iceberg_compaction.interfaces import followed_policy, wiring
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.interfaces.cli.fleet import catalog_request, table_loop
    from iceberg_compaction.operations.neighbourhood import look_around

    steps = _named(how.steps)
    policy = followed_policy.follow({}, file=how.policy_file, environment=how.environment)
    store = wiring.store_to_write(str(how.state) if how.state else None)
    with (
        wiring.observing(how) as metrics,
        table_loop.Session(engines, store, console, how.deadline, metrics=metrics) as session,
    ):
        opened = catalog_request.open_catalog(catalog)
        targets = catalog_request.choose_targets(opened, tables, catalog.namespace)
        shared = look_around.Neighbourhoods()
        request = _Request(catalog=opened, policy=policy, steps=steps, dry_run=how.dry_run, neighbourhoods=shared)
        results = list(_results(request, targets.names, session))
    output.output(console.output).maintenance(results, single=targets.single)
    if session.stopped is not None:
        exits.complain(session.stopped)
        return exits.code_of(session.stopped)
    return exits.DONE if all(each.ok for each in results) else exits.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """What all tables have in common."""

    catalog: Any
    policy: FollowedPolicy
    steps: tuple[MaintenanceStep, ...]
    dry_run: bool
    neighbourhoods: Neighbourhoods


def _results(request: _Request, names: tuple[str, ...], session: Session) -> Iterator[TableMaintenance]:
    from iceberg_compaction import errors
    from iceberg_compaction.model.maintenance import MaintenanceStep, StepOutcome, TableMaintenance
    from iceberg_compaction.model.outcome import Failed

    for name in names:
        if session.stopped is not None:
            return
        try:
            yield _maintain_one(request, name, session)
        except errors.CancelledError:
            raise
        except errors.CompactionError as error:
            if len(names) == 1:
                raise
            exits.complain(error)
            failed = Failed(table=name, sentence=str(error), run_id="")
            yield TableMaintenance(table=name, steps=(StepOutcome(step=MaintenanceStep.REWRITE, outcome=failed),))


def _maintain_one(request: _Request, name: str, session: Session) -> TableMaintenance:
    from iceberg_compaction.catalog import load_tables
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.policy import decline
    from iceberg_compaction.workflow import operate, table_upkeep, upkeep_preview

    table = load_tables.load_table(request.catalog, name)
    effective = request.policy.effective(name, table.properties)
    if reason := decline.reason(effective, wiring.now_ms()):
        return table_upkeep.declined(name, reason)
    steps = table_upkeep.steps_of(effective.policy, request.steps)

    def perform(operation: Operation[Any], loaded: Any) -> Outcome:
        if request.dry_run:
            house = operate.House(
                catalog=request.catalog, engines=wiring.engine_factory("inline"), loaded=loaded or table
            )
            return upkeep_preview.shown(operation, house, wiring.new_run())
        (result,) = session.operate(request.catalog, [operation], single=False, loaded=loaded)
        return result

    upkeep = table_upkeep.UpkeepRequest(
        table=name, policy=effective.policy, steps=steps, neighbourhoods=request.neighbourhoods
    )
    return table_upkeep.maintain(table, upkeep, perform)


def _named(text: str | None) -> tuple[MaintenanceStep, ...]:
    from iceberg_compaction import errors
    from iceberg_compaction.model.maintenance import MaintenanceStep

    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    step_names = {step.value for step in MaintenanceStep}
    if unknown := [name for name in names if name not in step_names]:
        raise errors.ConfigError(
            f"{unknown[0]!r} is no step; choose from {', '.join(step.value for step in MaintenanceStep)}."
        )
    return tuple(MaintenanceStep(name) for name in names)
