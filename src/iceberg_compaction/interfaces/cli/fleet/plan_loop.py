"""The plans of tables, one after the other. `plan` and `run --dry-run` share it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeAlias

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli import exits, output
from iceberg_compaction.interfaces.cli.fleet import catalog_request, result_files
from iceberg_compaction.model import plurals, unplanned
from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
from iceberg_compaction.model.unplanned import Unplanned, UnplannedKind
from iceberg_compaction.operations.rewrite_files import plan_file
from iceberg_compaction.operations.rewrite_files.file_rewrite import RewriteFiles
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iceberg_compaction.interfaces.cli.fleet.catalog_request import Targets
    from iceberg_compaction.interfaces.cli.options import (
        CatalogOptions,
        ConsoleOptions,
        FailOn,
        PlanOptions,
        PolicyOptions,
        TableOptions,
    )
    from iceberg_compaction.model.events import Event
    from iceberg_compaction.operations.rewrite_files.planning.policy_rule import PolicyRule
    from iceberg_compaction.record.store import RunStore

AnyPlan: TypeAlias = Plan | EmptyPlan | Unplanned
_log = logging.getLogger(__name__)


def show(
    tables: TableOptions, catalog: CatalogOptions, policy: PolicyOptions, console: ConsoleOptions, how: PlanOptions
) -> int:
    """Prints the plans of the tables, writes the only one to a file on request, and returns the exit code."""
    result_files.check_target(how.out, option="--out")
    chosen = catalog_request.make_policy(policy)
    old = None if how.diff is None else plan_file.load_plan(how.diff)
    store = wiring.store_to_read(str(how.state) if how.state else None)
    with wiring.observing(how) as metrics:
        opened = catalog_request.open_catalog(catalog)
        targets = catalog_request.choose_targets(opened, tables, catalog.namespace)
        if how.out is not None and len(targets.names) != 1:
            raise errors.ConfigError(f"--out takes one table's plan, but {len(targets.names)} tables are meant.")
        if old is not None:
            _check_comparable(old, targets, how)
        if metrics is not None:
            metrics.begin(targets.names)
        on_event = None if metrics is None else metrics.on_event
        plans = _make_plans(opened, targets, chosen, store, branch=how.branch, on_event=on_event)
    for made in plans:
        if how.out is not None and not isinstance(made, Unplanned):
            plan_file.save_plan(made, how.out)
    printer = output.output(console.output)
    if old is not None and not isinstance(plans[0], Unplanned):
        from iceberg_compaction.plan import compare_plans

        printer.plan_difference(compare_plans.compare(old, plans[0]))
    else:
        printer.plans(plans, single=targets.single)
    return _exit_code(plans, fail_on=how.fail_on or (), tells_work=how.exit_code)


def _check_comparable(old: Plan | EmptyPlan, targets: Targets, how: PlanOptions) -> None:
    """Raises ConfigError if there is not one plan of the same table and branch to compare with."""
    if len(targets.names) != 1:
        raise errors.ConfigError(f"--diff compares one table's plan, but {len(targets.names)} tables are meant.")
    branch = old.pin.branch if old.pin else how.branch
    if (old.table, branch) != (targets.names[0], how.branch):
        raise errors.ConfigError(
            f"The plan in {how.diff} is of {old.table}, branch {branch}, not of {targets.names[0]}, branch "
            f"{how.branch}."
        )


def _make_plans(
    catalog: Any,
    targets: Targets,
    policy: PolicyRule,
    store: RunStore | None,
    *,
    branch: str,
    on_event: Callable[[Event], None] | None,
) -> list[AnyPlan]:
    """The plan of each table. A table that must not be rewritten is listed as such. So is one that cannot be looked at,
    unless it is the only one that was named."""
    house = operate.House(catalog=catalog, engines=wiring.engine_factory())
    plans: list[AnyPlan] = []
    for name in targets.names:
        operation = RewriteFiles(table=name, policy=policy, branch=branch)
        try:
            plans.append(operate.plan_only(operation, house, wiring.new_run(on_event=on_event, store=store)))
        except Exception as error:
            if targets.single and not isinstance(error, errors.UnsupportedError | errors.DeclinedError):
                raise
            _log.debug("The error of %s", name, exc_info=error)
            plans.append(unplanned_table(name, error))
    if failed := sum(map(unplanned.is_failed, plans)):
        tables = plurals.count(len(plans), "table")
        exits.complain_in_words(f"{failed:,} of {tables} could not be planned; the result says why.")
    return plans


def _exit_code(plans: Sequence[AnyPlan], *, fail_on: Sequence[FailOn], tells_work: bool) -> int:
    """The code that a command with these plans ends with."""
    kinds = {plan.kind.value for plan in plans if isinstance(plan, Unplanned)}
    if kinds & {UnplannedKind.FAILED.value, *(each.value for each in fail_on)}:
        return exits.FAILED
    return exits.SICK if tells_work and any(isinstance(plan, Plan) for plan in plans) else exits.DONE


def unplanned_table(table: str, error: Exception) -> Unplanned:
    """A table that must not be rewritten, is passed over by its policy, or could not be looked at."""
    kinds = {errors.UnsupportedError: UnplannedKind.UNSUPPORTED, errors.DeclinedError: UnplannedKind.SKIPPED}
    kind = next((kind for cause, kind in kinds.items() if isinstance(error, cause)), UnplannedKind.FAILED)
    return Unplanned(kind=kind, table=table, sentence=exits.sentence_of(error))
