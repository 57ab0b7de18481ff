"""When a table is next due: the next moment of its schedule that does not lie in quiet hours."""

from __future__ import annotations

from datetime import timezone
from typing import TYPE_CHECKING

from cronsim import CronSim, CronSimError

from iceberg_compaction import errors
from iceberg_compaction.policy import quiet_time

if TYPE_CHECKING:
    from datetime import datetime

    from iceberg_compaction.model.table_policy import CronSchedule, TablePolicy

_MOST_MOMENTS = 2000  # of the schedule that are looked at; more than a day of minutes
_FIELDS = 5


def next_due(policy: TablePolicy, now: datetime) -> datetime | None:
    """The next moment, in UTC; None: there is no schedule, or all of its moments are quiet."""
    moments = _moments(policy.schedule, now)
    if moments is None:
        return None
    for _, due in zip(range(_MOST_MOMENTS), moments, strict=False):
        if quiet_time.quiet_until(policy.quiet_hours, due) is None:
            return due.astimezone(timezone.utc)
    return None


def check(policy: TablePolicy) -> None:
    """ConfigError: the schedule or a time zone cannot be used. It is not about any moment."""
    for window in policy.quiet_hours:
        quiet_time.zone(window.time_zone)
    _moments(policy.schedule, quiet_time.moment(0))


def _moments(schedule: CronSchedule, now: datetime) -> CronSim | None:
    if schedule.cron is None:
        return None
    local = now.astimezone(quiet_time.zone(schedule.time_zone))
    try:
        if len(schedule.cron.split()) != _FIELDS:
            raise CronSimError("Bad number of fields")
        return CronSim(schedule.cron, local)
    except CronSimError as error:
        raise errors.ConfigError(
            f"{schedule.cron[:60]!r} is no schedule: {str(error)[:60]}; write five fields such as 0 2 * * * "
            "(minute, hour, day, month, day of the week)."
        ) from None
