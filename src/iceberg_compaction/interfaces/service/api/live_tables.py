"""What only the tables themselves can say: plans, explanations, diagnoses. Each loads one table, writes nothing, and
runs in the few threads for heavy requests. What they need is loaded late, so that HTTP answers at once."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pydantic

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model import policies, validation_words
from iceberg_compaction.model.work import WorkKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iceberg_compaction.interfaces.service.api.service_desk import Asking, ServedName
    from iceberg_compaction.model.explanation import Explanation
    from iceberg_compaction.model.maintenance import TableMaintenance
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.policy_origin import EffectivePolicy
    from iceberg_compaction.model.table_health import TableHealth
    from iceberg_compaction.model.work import WorkRequest
    from iceberg_compaction.operations.operation import Operation
    from iceberg_compaction.record.runs import Run

T = TypeVar("T")


def plan(asking: Asking, served: ServedName, request: WorkRequest) -> Any:
    """What such work would do now. ConfigError: it has no plan, or an option cannot be meant."""
    from iceberg_compaction.interfaces.service.work import work_operations

    house = asking.desk.house
    if request.kind is WorkKind.COMPACT:
        return _plan(asking, served, meant(lambda: work_operations.rewrite(request, house)))
    if request.kind is WorkKind.UNDO:
        return _plan(asking, served, work_operations.undo(request, house))
    if request.kind is WorkKind.MAINTAIN:
        return _preview(asking, served, request)
    if request.kind not in work_operations.STEPS:
        raise errors.ConfigError(f"{request.kind.value} has no dry run.")
    policy = effective_policy(asking, served).policy
    operation: Any = meant(lambda: work_operations.upkeep(request, policy))
    if hasattr(operation, "count_files"):
        operation = replace(operation, count_files=True)
    return _plan(asking, served, operation)


def meant(make: Callable[[], T]) -> T:
    """What is made of options that somebody sent, who may have sent anything. ConfigError: it cannot be meant."""
    try:
        return make()
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "options"
        raise errors.ConfigError(f"Wrong value for {where}: {validation_words.text(first['msg'])}.") from None
    except (TypeError, AttributeError):  # in words that are Python's
        raise errors.ConfigError("The options cannot be meant: one of them has a value of the wrong kind.") from None
    except (ValueError, OverflowError) as error:
        raise errors.ConfigError(f"The options cannot be meant: {str(error)[:200]}.") from None


def explain(asking: Asking, served: ServedName) -> Explanation:
    """Why the table is compacted now, or not."""
    from iceberg_compaction.workflow import explain_table

    request = explain_table.ExplainRequest(table=served.table, source=asking.desk.house.policies.followed())
    with _own_words(asking, served):
        return explain_table.explain(asking.catalog(served.catalog), request, _run(asking))


def effective_policy(asking: Asking, served: ServedName) -> EffectivePolicy:
    """The policy of the table, with the origin of each value."""
    from iceberg_compaction.workflow import explain_table

    request = explain_table.ExplainRequest(table=served.table, source=asking.desk.house.policies.followed())
    with _own_words(asking, served):
        return explain_table.effective_policy(asking.catalog(served.catalog), request)


def diagnosis(asking: Asking, served: ServedName, worst: int) -> TableHealth:
    """The health of the table as it is now."""
    from iceberg_compaction.workflow import diagnose

    with _own_words(asking, served):
        how = diagnose.HealthLook(worst=worst, cache=wiring.manifest_cache(), now_ms=asking.desk.house.clock())
        return diagnose.diagnose(asking.catalog(served.catalog), served.table, policies.Policy(), how)


def check_there(asking: Asking, served: ServedName) -> None:
    """NoSuchTableError: neither the store nor the catalog has the table. A table that the store has is not looked for
    in the catalog, so that work can be asked for while that is away."""
    if served.table in asking.desk.fleet.looks().of_table:
        return
    if asking.desk.house.store.history(served.table, limit=1):
        return
    from iceberg_compaction.catalog import load_tables

    with _own_words(asking, served):
        load_tables.load_table(asking.catalog(served.catalog), served.table)


def _plan(asking: Asking, served: ServedName, operation: Operation[Any]) -> Any:
    from iceberg_compaction.workflow import operate

    house = operate.House(catalog=asking.catalog(served.catalog), engines=_no_engine)
    with _own_words(asking, served):
        return operate.plan_only(operation, house, _run(asking))


def _preview(asking: Asking, served: ServedName, request: WorkRequest) -> TableMaintenance:
    """What all upkeep of the table would do, step by step."""
    from iceberg_compaction.catalog import load_tables
    from iceberg_compaction.interfaces.service.work import work_operations
    from iceberg_compaction.policy import decline
    from iceberg_compaction.workflow import operate, table_upkeep, upkeep_preview

    house = asking.desk.house
    rule = meant(lambda: work_operations.policy_rule(request, house))
    named, branch = meant(lambda: work_operations.steps_of(request)), work_operations.branch_of(request)
    catalog = asking.catalog(served.catalog)

    def perform(operation: Operation[Any], loaded: Any) -> Outcome:
        return upkeep_preview.shown(
            operation, operate.House(catalog=catalog, engines=_no_engine, loaded=table), _run(asking)
        )

    with _own_words(asking, served):
        table = load_tables.load_table(catalog, served.table)
        effective = rule.given.effective(served.table, table.properties)
        if reason := decline.reason(effective, house.clock()):
            return table_upkeep.declined(served.table, reason)
        policy = rule.whole(effective.policy)
        steps = table_upkeep.steps_of(policy, named)
        upkeep = table_upkeep.UpkeepRequest(table=served.table, policy=policy, steps=steps, branch=branch)
        return table_upkeep.maintain(table, upkeep, perform)


def _run(asking: Asking) -> Run:
    return wiring.new_run(store=asking.desk.house.store)


def _no_engine() -> Any:
    raise errors.SetupError("A plan needs no engine.")


@contextmanager
def _own_words(asking: Asking, served: ServedName) -> Iterator[None]:
    """The words of a catalog may name tables that whoever asks may not know of."""
    try:
        yield
    except errors.NoSuchTableError:
        if asking.principal.tenants is None:
            raise
        raise served.missing from None
