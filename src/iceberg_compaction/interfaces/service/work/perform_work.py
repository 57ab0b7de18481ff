"""Does one piece of work, through the workflow that the command line uses. A job comes in, the verdict goes out: how
the work ended, or when it is to be tried again. Trouble with the catalog is told apart from trouble with the table."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.catalog import load_tables
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.service.work import inherited_work, work_ends, work_operations
from iceberg_compaction.model import outcome
from iceberg_compaction.model.work import WorkKind
from iceberg_compaction.operations.verify import verify_run
from iceberg_compaction.policy import decline
from iceberg_compaction.storage import translate
from iceberg_compaction.workflow import operate, table_upkeep

if TYPE_CHECKING:
    from iceberg_compaction.interfaces.service.work.work_ends import WorkVerdict
    from iceberg_compaction.interfaces.service.work.work_job import WorkJob
    from iceberg_compaction.operations.operation import Operation

_AWAY_S = 15.0
_log = logging.getLogger(__name__)


def perform(job: WorkJob) -> WorkVerdict:
    """Do the work, or find out that it cannot be done now. LostWorkError: another worker has it by now."""
    try:
        if not job.claimed.inherited:
            return _perform(job)
        return inherited_work.find_end(job) or inherited_work.of_both(job, _perform(job))
    except errors.LostWorkError:
        raise
    except errors.CancelledError as error:
        stopped = error.outcome
        return work_ends.cancelled(str(error), stopped if isinstance(stopped, outcome.Failed) else None)
    except errors.NoSuchTableError as error:
        return work_ends.failed(str(error))
    except errors.CatalogError as error:
        return _catalog_trouble(job, error)
    except errors.CompactionError as error:
        return work_ends.again(str(error)) if error.retryable else work_ends.failed(str(error))
    except Exception as error:  # noqa: BLE001 a defect must not stop the worker
        _log.exception("The work %s failed", job.request.work_id)
        job.engines.forget(job.request.catalog)
        return work_ends.failed(f"Unexpected {type(error).__name__}: {error} (this is a defect).")


def _perform(job: WorkJob) -> WorkVerdict:
    request = job.request
    match request.kind:
        case WorkKind.COMPACT:
            return _operate(job, work_operations.rewrite(request, job.house))
        case WorkKind.UNDO:
            return _operate(job, work_operations.undo(request, job.house))
        case WorkKind.MAINTAIN:
            return _maintain(job)
        case WorkKind.VERIFY:
            return _verify(job)
        case _:
            followed = job.house.policies.followed()
            properties = {} if request.options else load_tables.load_table(job.catalog(), request.table).properties
            policy = followed.effective(request.table, properties).policy
            return _operate(job, work_operations.upkeep(request, policy))


def _operate(job: WorkJob, operation: Operation[Any]) -> WorkVerdict:
    run = job.begin()
    result = operate.operate(operation, job.operating_house(), run)
    if run.leased:
        return work_ends.later(result.sentence)
    # Why a run cannot be undone does not pass; commits of others that come between are met within the run.
    return work_ends.of_outcome(result, may_pass=job.request.kind is not WorkKind.UNDO)


def _maintain(job: WorkJob) -> WorkVerdict:
    """All upkeep of the table, each step as a run of its own."""
    request = job.request
    rule = work_operations.policy_rule(request, job.house)
    named = work_operations.steps_of(request)
    table = load_tables.load_table(job.catalog(), request.table)
    effective = rule.given.effective(request.table, table.properties)
    if reason := decline.reason(effective, job.house.clock()):
        return work_ends.of_maintenance(table_upkeep.declined(request.table, reason))
    policy = rule.whole(effective.policy)
    leased: list[str] = []

    def step(operation: Operation[Any], loaded: Any) -> outcome.Outcome:
        run = job.begin()
        result = operate.operate(operation, job.operating_house(loaded), run)
        if run.leased:
            leased.append(result.sentence)
        return result

    steps, branch = table_upkeep.steps_of(policy, named), work_operations.branch_of(request)
    upkeep = table_upkeep.UpkeepRequest(table=request.table, policy=policy, steps=steps, branch=branch)
    result = table_upkeep.maintain(table, upkeep, step)
    return work_ends.later(leased[0]) if leased else work_ends.of_maintenance(result)


def _verify(job: WorkJob) -> WorkVerdict:
    request = job.request
    if request.run_id is None:
        return work_ends.failed("Which run is to be verified is not said; name it with run_id.")
    record = wiring.past_run(job.house.store, request.run_id)
    remembered = () if record is None else record.outcome.snapshot_ids
    checked = verify_run.VerifyRun(table=request.table, checked_run_id=request.run_id, remembered=remembered)
    table = load_tables.load_table(job.catalog(), request.table)
    engines = job.engines.of_catalog(request.catalog)
    return work_ends.of_verification(verify_run.verify(checked, table, job.begin(), engines))


def _catalog_trouble(job: WorkJob, error: errors.CatalogError) -> WorkVerdict:
    """The catalog delays all of its tables, the storage of a table only that one."""
    try:
        answers = _answers(job.catalog())
    except errors.CompactionError:
        answers = False
    if answers:
        return work_ends.again(str(error)) if error.retryable else work_ends.failed(str(error))
    return work_ends.later(str(error), _AWAY_S, catalog_away=True)


def _answers(catalog: Any) -> bool:
    with translate.catalog_border(catalog):
        catalog.list_namespaces()
    return True
