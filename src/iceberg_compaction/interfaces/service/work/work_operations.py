"""A request to a service becomes an operation, with the options that the verbs of the command line have. ConfigError:
an option is unknown or cannot be meant."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.interfaces import orphan_options, upkeep_goals, upkeep_operations, wiring
from iceberg_compaction.interfaces.service.work.tenant_policy import TenantPolicy
from iceberg_compaction.metadata.filter import where_clause
from iceberg_compaction.model import byte_size, maintenance, policies
from iceberg_compaction.model.maintenance import MaintenanceStep
from iceberg_compaction.model.work import WorkKind
from iceberg_compaction.operations.deletes import choose_deletes
from iceberg_compaction.operations.deletes.delete_upkeep import CleanDeletes
from iceberg_compaction.operations.rewrite_files.file_rewrite import RewriteFiles
from iceberg_compaction.operations.rewrite_manifests.manifest_rewrite import ManifestGoal, RewriteManifests
from iceberg_compaction.operations.ttl.expire_rows import ExpireRows
from iceberg_compaction.operations.undo.judge_undo import UndoRequest
from iceberg_compaction.operations.undo.undo_run import UndoRun
from iceberg_compaction.workflow import table_upkeep

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.model.table_policy import TablePolicy
    from iceberg_compaction.model.work import WorkRequest
    from iceberg_compaction.operations.operation import Operation

# Kinds that are one step of the upkeep, and take their values from the policy where a request has no options.
STEPS = {
    WorkKind.EXPIRE: MaintenanceStep.EXPIRE,
    WorkKind.ORPHANS: MaintenanceStep.ORPHANS,
    WorkKind.MANIFESTS: MaintenanceStep.MANIFESTS,
    WorkKind.DELETES: MaintenanceStep.DELETES,
    WorkKind.TTL: MaintenanceStep.TTL,
    WorkKind.TAGS: MaintenanceStep.TAGS,
    WorkKind.STATISTICS: MaintenanceStep.STATISTICS,
}


def policy_rule(request: WorkRequest, house: ServiceHouse) -> TenantPolicy:
    """How files of the request's table are rewritten."""
    given = {name.replace("_", "-"): value for name, value in request.options.items() if name not in _OF_RUN}
    if request.strategy is not None:
        given["strategy"] = request.strategy
    given = {**wiring.default_options(), **given}
    followed = house.policies.with_arguments(given) if given else house.policies.followed()
    tenant = house.settings.tenants.get(request.tenant or "")
    limit = None if tenant is None else tenant.hourly_cost_limit
    return TenantPolicy(given=followed, tenant=request.tenant, hourly_cost_limit=limit)


_OF_RUN = ("branch", "steps")


def rewrite(request: WorkRequest, house: ServiceHouse) -> RewriteFiles:
    """The operation of `compact`."""
    return RewriteFiles(table=request.table, policy=policy_rule(request, house), branch=branch_of(request))


def steps_of(request: WorkRequest) -> tuple[MaintenanceStep, ...]:
    """The steps that a request to maintain a table names; none: those of the policy."""
    return maintenance.named_steps(request.options.get("steps"))


def upkeep(request: WorkRequest, policy: TablePolicy) -> Operation[Any]:
    """The operation of a single step of upkeep."""
    options = {name.replace("-", "_"): value for name, value in request.options.items()}
    if not options:
        return table_upkeep.operation_of(STEPS[request.kind], request.table, policy)
    try:
        return _BUILDERS[request.kind](request.table, options)
    except TypeError as error:  # an argument of a function that nobody knows
        raise errors.ConfigError(
            f"The options {', '.join(options)} are not those of {request.kind.value}: {_words(error)}."
        ) from None


def undo(request: WorkRequest, house: ServiceHouse) -> UndoRun:
    """The operation that undoes a run."""
    if request.run_id is None:
        raise errors.ConfigError("Which run is to be undone is not said; name it with run_id.")
    remembered = wiring.past_run(house.store, request.run_id)
    branch = None if branch_of(request) == "main" else branch_of(request)
    return UndoRun(
        request=UndoRequest(
            table=request.table,
            undone_run_id=request.run_id,
            branch=branch,
            remembered=() if remembered is None else remembered.outcome.snapshot_ids,
            undone_by=wiring.undone_by(house.store, request.table, request.run_id),
        ),
        despite_differences=bool(request.options.get("despite_differences", False)),
    )


def branch_of(request: WorkRequest) -> str:
    return str(request.options.get("branch", "main"))


def check(request: WorkRequest, house: ServiceHouse, policy: TablePolicy | None = None) -> None:
    """ConfigError: the request can never be done, whatever the table. Nothing is loaded."""
    house.catalogs.entry(request.catalog)
    if request.kind in (WorkKind.COMPACT, WorkKind.MAINTAIN):
        policy_rule(request, house)
        steps_of(request)
        if where := request.options.get("where"):
            where_clause.check(str(where))
    elif request.kind in STEPS and request.options:
        upkeep(request, policy or house.policies.followed().effective(request.table, {}).policy)
    elif request.kind in (WorkKind.UNDO, WorkKind.VERIFY) and request.run_id is None:
        raise errors.ConfigError(f"Which run is meant by {request.kind.value} is not said; name it with run_id.")


def _expire(table: str, options: dict[str, Any]) -> Operation[Any]:
    per_second = options.pop("deletes_per_second", None)
    return upkeep_operations.expire(table, upkeep_operations.retention_goal(**options), per_second=per_second)


def _manifests(table: str, options: dict[str, Any]) -> Operation[Any]:
    target, branch = options.pop("target_size", None), options.pop("branch", "main")
    size = None if target is None else byte_size.parse_size(target)
    return RewriteManifests(table=table, goal=ManifestGoal(target_size_bytes=size, **options), branch=branch)


def _deletes(table: str, options: dict[str, Any]) -> Operation[Any]:
    branch, deep = options.pop("branch", "main"), options.pop("verify", "counts")
    goal = choose_deletes.goal_of(**options)
    return CleanDeletes(table=table, goal=goal, branch=branch, deep=policies.ProofLevel(deep).value == "deep")


def _ttl(table: str, options: dict[str, Any]) -> Operation[Any]:
    branch = options.pop("branch", "main")
    goal = upkeep_goals.ttl_goal(**{"older_than": None, "before": None, **options})
    return ExpireRows(table=table, goal=goal, branch=branch)


def _tags(table: str, options: dict[str, Any]) -> Operation[Any]:
    branch, only_changed = options.pop("branch", "main"), options.pop("only_changed", False)
    goal = upkeep_operations.tag_goal(name=options.pop("name_pattern", None), **options)
    return upkeep_operations.tags(table, goal, branch=branch, only_changed=only_changed)


def _statistics(table: str, options: dict[str, Any]) -> Operation[Any]:
    return upkeep_operations.statistics(table, branch=options.pop("branch", "main"), **options)


_BUILDERS: dict[WorkKind, Callable[[str, dict[str, Any]], Operation[Any]]] = {
    WorkKind.EXPIRE: _expire,
    WorkKind.ORPHANS: orphan_options.removal,
    WorkKind.MANIFESTS: _manifests,
    WorkKind.DELETES: _deletes,
    WorkKind.TTL: _ttl,
    WorkKind.TAGS: _tags,
    WorkKind.STATISTICS: _statistics,
}


def _words(error: TypeError) -> str:
    """The last words of Python's own message, which names the argument."""
    return inspect.cleandoc(str(error)).rpartition("() ")[2]
