"""What is wanted for one table, and what comes of it now: every value with its origin, the work and its reasons, what
is left alone and why, when the table is next due, what the work costs and saves. `explain` prints it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from iceberg_compaction.model import plurals
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.policy_origin import EffectiveSetting, IgnoredSetting
from iceberg_compaction.model.value import Count, Finite, Value

if TYPE_CHECKING:
    from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan


class ExplainedVerdict(str, Enum):
    """What `run` would do now. Closed set."""

    RUNS = "runs"
    HEALTHY = "healthy"  # nothing to do
    DECLINED = "declined"  # the policy passes the table over, or not now
    UNSUPPORTED = "unsupported"


class UpkeepSetting(Value):
    """One step beside the rewrite of files."""

    name: str
    enabled: bool
    sentence: str


class ExpectedGain(Value):
    """What the work costs and saves, as far as the plan can say."""

    input_files: Count
    input_bytes: Count
    output_files: Count
    useless_deletes: Count
    core_seconds: float
    rates: str  # where the speed comes from
    cost: Finite = 0.0  # dollars, by the price list
    saving: Finite = 0.0  # likewise, over the policy's horizon
    in_dollars: str = ""  # both in words, with their parts

    @property
    def sentence(self) -> str:
        whole = round(self.core_seconds)
        seconds = "less than a second" if not whole else f"about {plurals.count(whole, 'second')}"
        fewer = self.input_files - self.output_files + self.useless_deletes
        after = f"Afterwards whoever reads all of the table opens {plurals.count(fewer, 'file')} fewer"
        if fewer <= 0:
            after = "Afterwards there are not fewer files, but files of the right size"
        speed = f"{self.rates} speed" if self.rates == "assumed" else self.rates
        return f"It reads and writes {format_size(self.input_bytes)}: {seconds} on one core ({speed}). {after}."


class Explanation(Value):
    """All of that for one table. Moments are milliseconds since 1970."""

    table: str
    verdict: ExplainedVerdict
    sentence: str
    reasons: tuple[str, ...] = ()  # why files are rewritten
    left_alone: tuple[str, ...] = ()  # why others are not
    declined: str | None = None
    gain: ExpectedGain | None = None
    policy_digest: str
    profile: str | None = None
    environment: str | None = None
    triggers: str = "strategy"
    cron: str | None = None
    time_zone: str = "UTC"
    next_due_ms: int | None = None
    quiet_until_ms: int | None = None
    upkeep: tuple[UpkeepSetting, ...] = ()
    settings: tuple[EffectiveSetting, ...]  # every value
    ignored: tuple[IgnoredSetting, ...] = ()


def gain_of(plan: Plan | EmptyPlan) -> ExpectedGain:
    """The figures of a plan."""
    return ExpectedGain(
        input_files=plan.input_files,
        input_bytes=plan.input_bytes,
        output_files=plan.output_files,
        useless_deletes=plan.useless_deletes,
        core_seconds=round(plan.copying.core_seconds, 3),
        rates=plan.copying.rates.encoding.sentence,
        cost=plan.cost.cost,
        saving=plan.cost.saving,
        in_dollars=plan.cost.sentence,
    )
