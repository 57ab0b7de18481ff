"""The plans of tables, one after the other. `plan` and `run --dry-run` share it."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli import exits
from iceberg_compaction.model import plurals
from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
from iceberg_compaction.model.unplanned import Unplanned, UnplannedKind
from iceberg_compaction.operations.rewrite_files.file_rewrite import RewriteFiles
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.interfaces.cli.fleet.catalog_request import Targets
    from iceberg_compaction.interfaces.cli.options import FailOn
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.record.store import RunStore

AnyPlan: TypeAlias = Plan | EmptyPlan | Unplanned
_log = logging.getLogger(__name__)


def make_plans(catalog: Any, targets: Targets, policy: Policy, store: RunStore | None, *, branch: str) -> list[AnyPlan]:
    """The plan of each table. A table that must not be rewritten is listed as such. So is one that cannot be looked at,
    unless it is the only one that was named."""
    house = operate.House(catalog=catalog, engines=wiring.engine_factory())
    plans: list[AnyPlan] = []
    for name in targets.names:
        operation = RewriteFiles(table=name, policy=policy, branch=branch)
        try:
            plans.append(operate.plan_only(operation, house, wiring.new_run(store=store)))
        except errors.UnsupportedError as error:
            plans.append(_unplanned(name, UnplannedKind.UNSUPPORTED, error))
        except Exception as error:
            if targets.single:
                raise
            _log.debug("The error of %s", name, exc_info=error)
            plans.append(_unplanned(name, UnplannedKind.FAILED, error))
    if failed := sum(isinstance(plan, Unplanned) and plan.kind is UnplannedKind.FAILED for plan in plans):
        tables = plurals.count(len(plans), "table")
        sys.stderr.write(f"error: {failed:,} of {tables} could not be planned; the result says why.\n")
    return plans


def exit_code(plans: Sequence[AnyPlan], *, fail_on: Sequence[FailOn], tells_work: bool) -> int:
    """The code that a command with these plans ends with."""
    kinds = {plan.kind.value for plan in plans if isinstance(plan, Unplanned)}
    if kinds & {UnplannedKind.FAILED.value, *(each.value for each in fail_on)}:
        return exits.FAILED
    return exits.SICK if tells_work and any(isinstance(plan, Plan) for plan in plans) else exits.DONE


def _unplanned(table: str, kind: UnplannedKind, error: Exception) -> Unplanned:
    return Unplanned(kind=kind, table=table, sentence=exits.sentence_of(error))
