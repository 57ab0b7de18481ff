"""Work whose worker died: first it is found out how far its last run came. A run that ended is the end of the work; one
that left a checkpoint is gone on with; one whose commits are in the table is not done again, and what is missing there
of its plan is planned anew. Only else the work begins anew, and its run removes what the dead one left."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import load_tables
from iceberg_compaction.interfaces.service.work import dead_runs, work_ends, work_operations
from iceberg_compaction.model import outcome
from iceberg_compaction.model.work import WorkKind
from iceberg_compaction.operations.past_runs import run_commits
from iceberg_compaction.operations.rewrite_files.resume.resume_run import ResumeRun
from iceberg_compaction.workflow import operate, resumable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.interfaces.service.work.dead_runs import DeadRun
    from iceberg_compaction.interfaces.service.work.work_ends import WorkVerdict
    from iceberg_compaction.interfaces.service.work.work_job import WorkJob
    from iceberg_compaction.model.run_record import RunRecord

_log = logging.getLogger(__name__)
# Steps of upkeep are safe to do again, and find out by themselves what is left; a check writes nothing.
_DONE_AGAIN = (WorkKind.MAINTAIN, WorkKind.VERIFY)
_REST = "Another run does the rest."


def find_end(job: WorkJob) -> WorkVerdict | None:
    """How inherited work ends without being done again. None: it has to be."""
    run_ids = job.claimed.work.run_ids
    if not run_ids or job.request.kind in _DONE_AGAIN:
        return None
    record = job.house.store.run(run_ids[-1])
    if record is not None and _has_ended(record):
        return work_ends.of_outcome(record.outcome)
    if job.request.kind is WorkKind.COMPACT and (resumed := _resume(job)) is not None:
        return resumed
    # A run that was stopped has told so: what it committed by then is a part, and the rest is planned anew.
    return None if record is not None else _from_table(job)


def of_both(job: WorkJob, verdict: WorkVerdict) -> WorkVerdict:
    """The verdict after a run that was to do the rest. Events may die with their worker, and then nobody knows that
    there is no rest: a run that finds nothing to do tells so, and the work is what the dead one has committed."""
    if verdict.end.outcome is not outcome.Kind.HEALTHY:
        return verdict
    records = map(job.house.store.run, reversed(job.claimed.work.run_ids))
    record = next((each for each in records if each is not None and each.outcome.sentence.endswith(_REST)), None)
    if record is None:
        return verdict
    sentence = f"{_whole(record.run_id)}; its worker died before it could say so."
    whole = record.model_copy(update={"outcome": record.outcome.model_copy(update={"sentence": sentence})})
    job.house.store.save(whole)
    return work_ends.of_outcome(whole.outcome)


def _whole(run_id: str) -> str:
    return f"Run {run_id} has committed its work"


def _has_ended(record: RunRecord) -> bool:
    """A run that only ended because its worker did is gone on with."""
    return work_ends.STOPPING not in record.outcome.sentence


def _resume(job: WorkJob) -> WorkVerdict | None:
    for run_id in reversed(job.claimed.work.run_ids):
        probe = job.probe()
        try:
            head = resumable.find(probe, run_id).head
        except errors.ConfigError as error:
            _log.info("Run %s is not resumed: %s", run_id, error)
            continue
        operation = ResumeRun(table=job.request.table, run_id=run_id, branch=head.branch)
        run = job.begin()
        result = operate.operate(operation, job.operating_house(), run)
        if run.leased:
            return work_ends.later(result.sentence)
        if result.kind is not outcome.Kind.CONFLICT:
            return work_ends.of_outcome(_of_both(job, run_id, result))
    return None


def _of_both(job: WorkJob, run_id: str, result: outcome.Outcome) -> outcome.Outcome:
    """The outcome of a run that went on with a dead one. The history also gets the part of that; if nothing was left to
    do, it is the outcome of both."""
    metadata = load_tables.load_table(job.catalog(), job.request.table).metadata
    dead = dead_runs.find(job.house.store, run_commits.of_run(metadata, run_id))
    if dead is None:
        return result
    is_all = result.kind is outcome.Kind.HEALTHY
    words = _whole(run_id) if is_all else f"{dead.words[:-1]}, and run {result.run_id} went on"
    ended = _remembered(job, dead, f"{words}; its worker died before it could say so." if is_all else f"{words}.")
    return ended if is_all else result


def _from_table(job: WorkJob) -> WorkVerdict | None:
    """The end that the table itself tells of: snapshots of the run are part of it. None: there are none, or they are
    only a part of its plan, and the rest is planned anew."""
    metadata = load_tables.load_table(job.catalog(), job.request.table).metadata
    for run_id in reversed(job.claimed.work.run_ids):
        if (dead := dead_runs.find(job.house.store, run_commits.of_run(metadata, run_id))) is None:
            continue
        if dead.is_whole:
            return work_ends.of_outcome(_remembered(job, dead, dead.words))
        if _may_plan_anew(job, metadata.properties):
            _remembered(job, dead, f"{dead.words} {_REST}")
            return None
        return work_ends.of_outcome(_remembered(job, dead, f"{dead.words} The next run finds what is left."))
    return None


def _remembered(job: WorkJob, dead: DeadRun, sentence: str) -> outcome.Outcome:
    """The outcome of a dead run, which is in the history from now on."""
    facts = {"table": job.request.table, "sentence": sentence, "run_id": dead.run_id, **dead.figures}
    if job.request.kind is WorkKind.COMPACT:
        ended: outcome.Outcome = outcome.Compacted.model_validate(facts)
    else:
        ended = outcome.Maintained.model_validate({**facts, "operation": job.request.kind.value})
    catalog = job.house.catalogs.identity(job.request.catalog) or ""
    return dead_runs.remember(job.house.store, dead, ended, job.house.clock(), catalog)


def _may_plan_anew(job: WorkJob, properties: Mapping[str, str]) -> bool:
    """Whether a new plan leaves alone what the dead run has rewritten."""
    if job.request.kind is not WorkKind.COMPACT:
        return False
    rule = work_operations.policy_rule(job.request, job.house)
    return not rule.given.effective(job.request.table, properties).policy.rewrite.rewrite_all
