"""Operations of housekeeping from what people write, for the command line and the library alike."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model import durations, moments
from iceberg_compaction.model.repair_plan import RepairGoal
from iceberg_compaction.model.snapshot_retention import RetentionGoal
from iceberg_compaction.model.statistics_plan import StatisticsGoal
from iceberg_compaction.model.tag_plan import Every, TagGoal
from iceberg_compaction.operations.expire.expire_snapshots import ExpireSnapshots
from iceberg_compaction.operations.neighbourhood.look_around import Neighbourhoods
from iceberg_compaction.operations.repair.repair_table import RepairTable
from iceberg_compaction.operations.statistics.refresh_statistics import RefreshStatistics
from iceberg_compaction.operations.tags.make_tags import MakeTags

if TYPE_CHECKING:
    from collections.abc import Sequence

_CLOCK = re.compile(r"(\d\d?):(\d\d)", re.ASCII)


def retention_goal(  # noqa: PLR0913 - one for each option
    *,
    older_than: str | None = None,
    retain_last: int | None = None,
    snapshot_ids: Sequence[int] = (),
    allow_recent: bool = False,
    clean_metadata: bool = False,
    keep_files: bool = False,
    allow_unlisted: bool = False,
) -> RetentionGoal:
    """What is asked of an expiry. `older_than` is a moment such as 5d or 2026-01-31."""
    return RetentionGoal(
        older_than_ms=None if older_than is None else max(0, moments.parse_ms(older_than, wiring.now_ms())),
        retain_last=retain_last,
        snapshot_ids=tuple(snapshot_ids),
        allow_recent=allow_recent,
        clean_metadata=clean_metadata,
        keep_files=keep_files,
        allow_unlisted=allow_unlisted,
    )


def expire(
    table: str,
    goal: RetentionGoal,
    *,
    per_second: float | None = None,
    count_files: bool = False,
    neighbourhoods: Neighbourhoods | None = None,
) -> ExpireSnapshots:
    """The expiry of a table's snapshots. `count_files`: the plan finds the files that would go, too; `neighbourhoods`:
    those of all tables of a command."""
    if per_second is not None and not (isinstance(per_second, int | float) and 0 < per_second < math.inf):
        raise errors.ConfigError(f"{per_second} files each second is no pace; write a number above 0, or leave it out.")
    return ExpireSnapshots(
        table=table,
        goal=goal,
        per_second=per_second,
        count_files=count_files,
        neighbourhoods=neighbourhoods or Neighbourhoods(),
    )


def tag_goal(
    *,
    every: str = "day",
    at: str = "00:00",
    zone: str = "UTC",
    keep: str | None = None,
    name: str | None = None,
    max_delay: str | None = None,
) -> TagGoal:
    """Which tags a table should have, as people write it."""
    if every not in {each.value for each in Every}:
        raise errors.ConfigError(f"{every!r} is no period; write hour, day or month.")
    match = _CLOCK.fullmatch(at.strip())
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        raise errors.ConfigError(f"{at!r} is no time of day; write it like 02:30.")
    return TagGoal(
        every=Every(every),
        at_minutes=60 * int(match[1]) + int(match[2]),
        zone=zone,
        keep_ms=None if keep is None else round(1000 * durations.parse_seconds(keep)),
        pattern=name,
        max_delay_ms=None if max_delay is None else round(1000 * durations.parse_seconds(max_delay)),
    )


def tags(table: str, goal: TagGoal, *, branch: str = "main", only_changed: bool = False) -> MakeTags:
    """The tags of a table. `only_changed`: none for a period without commits."""
    return MakeTags(table=table, goal=goal.model_copy(update={"only_changed": only_changed}), branch=branch)


def statistics(
    table: str, *, branch: str = "main", columns: Sequence[str] | str = (), partitions: bool = True
) -> RefreshStatistics:
    """The statistics of a table. `columns`: names, in a list or with commas between them, or `all`."""
    given = columns.split(",") if isinstance(columns, str) else columns
    names = tuple(name.strip() for name in given if name.strip())
    if not partitions and not names:
        raise errors.ConfigError("There is nothing to count: partition statistics are off, and no columns are named.")
    return RefreshStatistics(table=table, goal=StatisticsGoal(partitions=partitions, columns=names), branch=branch)


def repair(
    table: str, *, branch: str = "main", deep: bool = False, drop_missing: bool = False, even_most: bool = False
) -> RepairTable:
    """The repair of a table's metadata."""
    goal = RepairGoal(deep=deep, drop_missing=drop_missing, even_most=even_most)
    return RepairTable(table=table, goal=goal, branch=branch)
