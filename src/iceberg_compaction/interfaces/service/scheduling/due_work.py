"""What the scheduler asks for: whether a table is due now by its schedule, its triggers, its upkeep or a failure
before, and the request that follows. What is known of the table comes in; a request, or the moment to think again, goes
out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.model.table_due import DueState
from iceberg_compaction.model.work import WorkKind, WorkOrigin, WorkRequest
from iceberg_compaction.plan.triggers import table_check
from iceberg_compaction.policy import quiet_time
from iceberg_compaction.schedule import due_moments, spread_times, urgency
from iceberg_compaction.workflow import table_upkeep

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.model.run_figures import HealthEntry
    from iceberg_compaction.model.table_policy import TablePolicy
    from iceberg_compaction.model.table_schedule import TableWatch

NEVER_MS = 2**62
UPKEEP_MS = 24 * 3_600_000  # between two times of upkeep, where no schedule says when
_SCHEDULE_AGAIN_MS = 3_600_000  # until schedules without a moment are asked again


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDecision:
    """What to do about a table. `next_ms`: when to think of it again, unless something changes before. `watch`: what is
    known of the table once the request is in the queue."""

    next_ms: int
    request: WorkRequest | None = None
    watch: TableWatch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRules:
    """What tables of one catalog have in common."""

    catalog: str
    jitter_ms: int
    tenant_of: Callable[[str], str | None]
    health_of: Callable[[TableWatch], HealthEntry | None]

    def decide(self, watch: TableWatch, policy: TablePolicy, now_ms: int, *, paused: bool = False) -> ScheduleDecision:
        """The decision about one table."""
        if watch.work_id or not policy.enabled:
            return ScheduleDecision(next_ms=NEVER_MS)
        if paused:
            return self._paused(watch, policy, now_ms)
        quiet = quiet_time.quiet_until(policy.quiet_hours, quiet_time.moment(now_ms))
        wait_ms = due_moments.corrected(watch.again_ms, now_ms + 24 * 3_600_000)
        if quiet is not None:
            wait_ms = max(wait_ms, round(quiet.timestamp() * 1000))
        if wait_ms > now_ms:
            return ScheduleDecision(next_ms=wait_ms)
        if watch.failures:
            return self._again(watch, policy, now_ms)
        if policy.schedule.cron is not None:
            return self._by_schedule(watch, policy, now_ms)
        return self._by_need(watch, policy, now_ms)

    def _paused(self, watch: TableWatch, policy: TablePolicy, now_ms: int) -> ScheduleDecision:
        """Moments of a schedule that come while it is paused are not caught up with."""
        if policy.schedule.cron is None:
            return ScheduleDecision(next_ms=NEVER_MS)
        moment = due_moments.check(policy, watch.scheduled_ms or now_ms, now_ms)
        next_ms = NEVER_MS if moment.next_ms is None else moment.next_ms
        skipped = None if moment.due_ms is None else watch.model_copy(update={"scheduled_ms": now_ms})
        return ScheduleDecision(next_ms=next_ms, watch=skipped)

    def _again(self, watch: TableWatch, policy: TablePolicy, now_ms: int) -> ScheduleDecision:
        reason = f"It failed {watch.failures} times: {watch.sentence}"
        tried = watch.model_copy(update={"scheduled_ms": now_ms})
        return self._ask(tried, policy, now_ms, WorkOrigin.RETRY, reason)

    def _by_schedule(self, watch: TableWatch, policy: TablePolicy, now_ms: int) -> ScheduleDecision:
        delay = spread_times.delay_ms(self.jitter_ms, self.catalog, watch.table)
        since = watch.scheduled_ms or now_ms
        moment = due_moments.check(policy, since, now_ms, delay)
        if moment.due_ms is None:
            next_ms = now_ms + _SCHEDULE_AGAIN_MS if moment.next_ms is None else moment.next_ms + delay
            begun = None if watch.scheduled_ms == since else watch.model_copy(update={"scheduled_ms": since})
            return ScheduleDecision(next_ms=next_ms, watch=begun)
        done = watch.model_copy(update={"scheduled_ms": now_ms - delay})
        reason = f"Its schedule {policy.schedule.cron} {policy.schedule.time_zone} says so."
        return self._ask(done, policy, now_ms, WorkOrigin.SCHEDULE, reason)

    def _by_need(self, watch: TableWatch, policy: TablePolicy, now_ms: int) -> ScheduleDecision:
        later = []
        if watch.trigger_ms and watch.trigger_ms <= now_ms:
            entry = self.health_of(watch)
            due = None if entry is None else table_check.check(entry, policy.rewrite, now_ms)
            if due is None or due.state is not DueState.QUIET:
                reason = "; ".join(due.triggers) if due and due.triggers else "Only a look at its files can say."
                return self._ask(watch, policy, now_ms, WorkOrigin.TRIGGER, reason, entry)
            watch = watch.model_copy(update={"trigger_ms": due.next_ms or 0})
        if watch.trigger_ms:
            later.append(watch.trigger_ms)
        if _has_upkeep(policy) and watch.seen_ms:
            upkeep_ms = due_moments.corrected(watch.upkeep_ms, now_ms) + UPKEEP_MS
            upkeep_ms += spread_times.delay_ms(self.jitter_ms, self.catalog, watch.table)
            if upkeep_ms <= now_ms:
                return self._ask(watch, policy, now_ms, WorkOrigin.SCHEDULE, "Its daily upkeep is due.")
            later.append(upkeep_ms)
        return ScheduleDecision(next_ms=min(later, default=NEVER_MS), watch=watch)

    def _ask(
        self,
        watch: TableWatch,
        policy: TablePolicy,
        now_ms: int,
        origin: WorkOrigin,
        reason: str,
        entry: HealthEntry | None = None,
    ) -> ScheduleDecision:
        """The id follows from how often was asked before: a leader that dies before it has saved that it asked is
        followed by one that asks for the same."""
        upkeep = _has_upkeep(policy)
        name = spread_times.work_id(self.catalog, watch.table, watch.born_ms, watch.asks)
        request = WorkRequest(
            work_id=name,
            kind=WorkKind.MAINTAIN if upkeep else WorkKind.COMPACT,
            catalog=self.catalog,
            table=watch.table,
            tenant=self.tenant_of(watch.table),
            priority=urgency.priority(None if entry is None else entry.figures),
            origin=origin,
            reason=reason,
            requested_ms=now_ms,
        )
        changes: dict[str, object] = {"work_id": name, "asks": watch.asks + 1, "trigger_ms": 0}
        if upkeep:
            changes["upkeep_ms"] = now_ms
        return ScheduleDecision(next_ms=NEVER_MS, request=request, watch=watch.model_copy(update=changes))


def _has_upkeep(policy: TablePolicy) -> bool:
    """Whether anything but the rewrite of files is turned on."""
    return len(table_upkeep.steps_of(policy)) > 1
