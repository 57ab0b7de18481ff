"""The whole policy of one table: how files are rewritten, when, what else is kept tidy, who owns it and what it may
cost. One class for every outside: files, table properties, flags, code and REST all become this value."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, field_validator

from iceberg_compaction import errors
from iceberg_compaction.model import durations
from iceberg_compaction.model.byte_size import ByteSize
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.value import Value

MINUTES_A_DAY = 24 * 60
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def parse_duration(value: Any) -> float:
    """The seconds of a duration, as a field takes it."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("it must be a duration such as 90s, 15m, 2h or 5d")
    try:
        return durations.parse_seconds(value)
    except errors.ConfigError as error:
        raise ValueError(str(error)) from None


Seconds = Annotated[float, BeforeValidator(parse_duration)]
_CLOCK = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)", re.ASCII)
_WINDOW = re.compile(
    r"(?:(?P<days>[a-z,-]+)\s+)?(?P<start>\S+?)\s*-\s*(?P<end>\S+)(?:\s+(?P<zone>\S+))?", re.IGNORECASE
)


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class _Part(Value):
    """A part of the policy; its fields have the names that files have."""

    model_config = ConfigDict(alias_generator=_kebab)


class CronSchedule(_Part):
    """When a table is looked at."""

    cron: Annotated[str | None, Field(description="five fields: minute, hour, day, month, day of the week")] = None
    time_zone: Annotated[str, Field(description="of the cron text, such as Europe/Berlin")] = "UTC"


class QuietHours(_Part):
    """Hours in which no run begins: from `start` on, until just before `end`, which may be on the next day."""

    start: str
    end: str
    days: Annotated[tuple[str, ...], Field(description="of their start: mon to sun; none means every day")] = ()
    time_zone: str = "UTC"

    @field_validator("start", "end")
    @classmethod
    def _is_clock(cls, text: str) -> str:
        if not _CLOCK.fullmatch(text) or minutes(text) > MINUTES_A_DAY:
            raise ValueError(f"{text!r} is not a time of the day; write it like 22:00")
        return text

    @field_validator("days", mode="before")
    @classmethod
    def _are_days(cls, given: Any) -> tuple[str, ...]:
        texts = given.split(",") if isinstance(given, str) else given
        if not isinstance(texts, list | tuple):
            raise ValueError("it must be days such as mon-fri")
        return tuple(dict.fromkeys(day for text in texts for day in _days(text)))

    @property
    def words(self) -> str:
        days = f"{_day_words(self.days)} " if self.days else ""
        return f"{days}{self.start}-{self.end} {self.time_zone}"


def minutes(clock: str) -> int:
    """The minutes since midnight of a text such as 22:00."""
    hours, _, rest = clock.partition(":")
    return int(hours) * 60 + int(rest)


def _day_words(days: tuple[str, ...]) -> str:
    """Days in a row as their first and last one: mon-fri."""
    first, last = DAYS.index(days[0]), DAYS.index(days[-1])
    is_row = len(days) > 2 and days == DAYS[first : last + 1]
    return f"{days[0]}-{days[-1]}" if is_row else ",".join(days)


def _days(text: Any) -> list[str]:
    ends = [part.strip().lower()[:3] for part in str(text).split("-")]
    if len(ends) > 2 or any(day not in DAYS for day in ends):
        raise ValueError(f"{text!r} is no day; write mon, sat,sun or mon-fri")
    first, last = DAYS.index(ends[0]), DAYS.index(ends[-1])
    return [DAYS[number % len(DAYS)] for number in range(first, last + 1 if last >= first else last + len(DAYS) + 1)]


def _windows(value: Any) -> Any:
    """`22:00-06:00 Europe/Berlin`, `mon-fri 8:00-18:00`, a mapping, or a list of either; `off` means none."""
    if value is None or value is False or (isinstance(value, str) and value.strip().lower() in ("off", "none", "")):
        return ()
    return tuple(_window(each) for each in (value if isinstance(value, list | tuple) else [value]))


def _window(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    match = _WINDOW.fullmatch(value.strip())
    if match is None:
        raise ValueError(
            f"{value!r} are no quiet hours; write them like 22:00-06:00 or mon-fri 8:00-18:00 Europe/Berlin"
        )
    parts = {"start": match["start"], "end": match["end"], "days": match["days"], "time_zone": match["zone"]}
    return {name: part for name, part in parts.items() if part is not None}


def _names(value: Any) -> Any:
    """`id, city`, or a list of names."""
    return tuple(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value


class ExpireStep(_Part):
    """Old snapshots are expired."""

    enabled: bool = False
    max_snapshot_age: Annotated[Seconds, Field(description="older snapshots go, but for those that are kept")] = (
        5 * 86_400.0
    )
    min_snapshots_to_keep: Annotated[int, Field(ge=1, description="of each branch, whatever their age")] = 1
    max_ref_age: Annotated[Seconds | None, Field(description="older branches and tags go; default: none")] = None
    allow_unlisted: Annotated[
        bool, Field(description="delete files although other tables of the catalog cannot be looked at")
    ] = False


class OrphansStep(_Part):
    """Files that no snapshot refers to are removed."""

    enabled: bool = False
    older_than: Annotated[Seconds, Field(description="younger files may belong to a writer at work")] = 3 * 86_400.0
    allow_unlisted: Annotated[
        bool, Field(description="go on although other tables of the catalog cannot be looked at")
    ] = False


class ManifestsStep(_Part):
    """Manifests are rewritten by partition."""

    enabled: bool = False
    target_size_bytes: Annotated[
        ByteSize | None, Field(gt=0, description="default: the table's commit.manifest.target-size-bytes")
    ] = None


class DeletesStep(_Part):
    """Delete files are rewritten, and those that apply to nothing are removed."""

    enabled: bool = False


class TtlStep(_Part):
    """Rows beyond an age are deleted."""

    enabled: bool = False
    column: Annotated[str | None, Field(description="a date or timestamp; its age is the row's")] = None
    keep: Annotated[Seconds | None, Field(description="rows of this age and younger stay")] = None
    level: Annotated[str, Field(description="partition or file: what must be old as a whole")] = "partition"


class TagsStep(_Part):
    """Snapshots get tags by the calendar."""

    enabled: bool = False
    period: Annotated[str, Field(description="hourly, daily or monthly")] = "daily"
    keep: Annotated[Seconds | None, Field(description="tags beyond this age go")] = None


class StatisticsStep(_Part):
    """Statistics of partitions are made, and of distinct values on request."""

    enabled: bool = False
    columns: Annotated[
        tuple[str, ...],
        BeforeValidator(_names),
        Field(description="count distinct values of these, or of `all`, which reads them; default: none"),
    ] = ()


class MaintenanceSteps(_Part):
    """What is kept tidy beside data files. Each step is off unless it is turned on."""

    expire: ExpireStep = ExpireStep()
    orphans: OrphansStep = OrphansStep()
    manifests: ManifestsStep = ManifestsStep()
    deletes: DeletesStep = DeletesStep()
    ttl: TtlStep = TtlStep()
    tags: TagsStep = TagsStep()
    statistics: StatisticsStep = StatisticsStep()


class TablePolicy(_Part):
    """All that is wanted for one table. `rewrite` has the options of Iceberg's rewrite_data_files and ours."""

    enabled: Annotated[bool, Field(description="false: runs pass the table over")] = True
    rewrite: Policy = Policy()
    schedule: CronSchedule = CronSchedule()
    quiet_hours: Annotated[
        tuple[QuietHours, ...],
        BeforeValidator(_windows),
        Field(description="hours in which no run begins, such as mon-fri 8:00-18:00 Europe/Berlin"),
    ] = ()
    maintenance: MaintenanceSteps = MaintenanceSteps()
    owner: Annotated[str | None, Field(description="who answers for the table")] = None
    environment: Annotated[str | None, Field(description="development, staging, production or another name")] = None
    check_every_writes: Annotated[
        int | None, Field(ge=1, description="after every so many writes the database handler looks for small files")
    ] = None

    @property
    def digest(self) -> str:
        """The same for equal policies, in every version that knows their fields."""
        text = self.model_dump_json(by_alias=True, exclude_defaults=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
