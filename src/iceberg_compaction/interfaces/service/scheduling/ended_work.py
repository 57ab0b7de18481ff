"""What the scheduler learns from work that ended: failures in a row make the next try later, runs that found nothing to
do make the next look rarer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.work import WorkOrigin, WorkState
from iceberg_compaction.policy import quiet_time
from iceberg_compaction.schedule import suspension

if TYPE_CHECKING:
    from iceberg_compaction.model.table_schedule import TableWatch
    from iceberg_compaction.model.work import Work

_IDLE = (Kind.HEALTHY, Kind.UNSUPPORTED)
_SKIPPED_AGAIN_MS = 10 * 60_000


def learn(watch: TableWatch, work: Work, suspend_after: int, now_ms: int) -> TableWatch:
    """The watch of a table after work on it ended. Work that people asked for ends failures, and makes none."""
    own = work.request.work_id == watch.work_id
    if not own and (work.request.origin is not WorkOrigin.REQUEST or work.state is not WorkState.DONE):
        return watch
    changes: dict[str, object] = {"work_id": ""} if own else {}
    match work.state:
        case WorkState.FAILED:
            failures = watch.failures + 1
            wait_ms = suspension.wait_ms(failures, suspend_after)
            changes |= {"failures": failures, "again_ms": now_ms + wait_ms, "sentence": work.sentence[:500]}
        case WorkState.DONE:
            changes |= {"failures": 0, "again_ms": 0, "sentence": ""}
            if work.outcome is Kind.SKIPPED:
                changes["trigger_ms"] = now_ms + _SKIPPED_AGAIN_MS  # such as quiet hours that have begun
            else:
                changes["idle_runs"] = watch.idle_runs + 1 if work.outcome in _IDLE else 0
                if work.outcome not in _IDLE:
                    changes["look_ms"] = now_ms  # the table is another one now
        case _:
            pass
    return watch.model_copy(update=changes)


def words(watch: TableWatch, suspend_after: int) -> str:
    """What is wrong with a table, for people; empty: nothing."""
    if suspension.is_suspended(watch.failures, suspend_after):
        return suspension.words(
            watch.failures, f"{quiet_time.moment(watch.again_ms):%Y-%m-%d %H:%M} UTC", watch.sentence
        )
    return watch.sentence
