"""How an explanation looks to people: first what would happen now and why, then every value with its origin."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from iceberg_compaction.interfaces.cli.screens import paragraphs
from iceberg_compaction.interfaces.cli.screens.grid import grid, sentences
from iceberg_compaction.model import plurals
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.explanation import ExplainedVerdict
from iceberg_compaction.model.policy_origin import OriginKind
from iceberg_compaction.policy import all_settings, policy_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from iceberg_compaction.model.explanation import Explanation
    from iceberg_compaction.model.policy_origin import EffectiveSetting, IgnoredSetting

_VERDICTS = {
    ExplainedVerdict.RUNS: "a run would work on it now",
    ExplainedVerdict.HEALTHY: "a run would find nothing to do",
    ExplainedVerdict.DECLINED: "a run would pass it over",
    ExplainedVerdict.UNSUPPORTED: "a run cannot work on it",
}


def story(explained: Explanation) -> Iterator[RenderableType]:
    """The whole explanation."""
    yield paragraphs.Named(name=explained.table, sentence=f"{_VERDICTS[explained.verdict]}.")
    if explained.declined:
        yield paragraphs.bullet(explained.declined)
        yield paragraphs.bullet(f"Otherwise: {explained.sentence}")
    else:
        yield paragraphs.bullet(explained.sentence)
    yield ""
    yield from _listed("Why", explained.reasons)
    if explained.gain is not None:  # else the sentence says it
        yield from _listed("Left alone", explained.left_alone)
    if explained.gain is not None:
        yield from _listed(
            "Cost and gain", [each for each in (explained.gain.sentence, explained.gain.in_dollars) if each]
        )
    yield from _listed("When", list(_times(explained)))
    yield from _listed("Beside data files", _upkeep(explained))
    yield from values(explained.settings)
    yield from ignored(explained.ignored)
    chosen = [
        f"profile {explained.profile}" if explained.profile else "",
        f"environment {explained.environment}" if explained.environment else "",
    ]
    named = "".join(f", {each}" for each in chosen if each)
    yield paragraphs.Paragraph(text=f"Policy {explained.policy_digest}{named}.", style="dim")


def _listed(title: str, lines: Sequence[str]) -> Iterator[RenderableType]:
    if not lines:
        return
    yield paragraphs.Paragraph(text=title, style="bold")
    for line in lines:
        text = line[:1].upper() + line[1:]
        yield paragraphs.bullet(text if text.endswith(".") else f"{text}.")
    yield ""


def _times(explained: Explanation) -> Iterator[str]:
    if explained.quiet_until_ms is not None:
        yield f"It has quiet hours until {_moment(explained.quiet_until_ms)}."
    if explained.cron is None:
        yield "It has no schedule: a run looks at it whenever it is called."
    elif explained.next_due_ms is None:
        yield f"It is never due: the schedule {explained.cron} ({explained.time_zone}) has quiet moments only."
    else:
        schedule = f"{explained.cron} ({explained.time_zone})"
        yield f"It is next due at {_moment(explained.next_due_ms)}, by the schedule {schedule}."


def _moment(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, timezone.utc):%Y-%m-%d %H:%M} UTC"


def _upkeep(explained: Explanation) -> list[str]:
    on = [f"{step.name}: {step.sentence}" for step in explained.upkeep if step.enabled]
    off = [step.name for step in explained.upkeep if not step.enabled]
    return [*on, f"Off: {', '.join(off)}"] if off else on


def values(settings: Sequence[EffectiveSetting]) -> Iterator[RenderableType]:
    """Values with their origins: those that somebody has stated, and all about the rewrite of files."""
    table = grid("Value", sentences("Is", least=12), sentences("From"))
    left_out = 0
    for setting in settings:
        stated = setting.origin.kind is not OriginKind.DEFAULT
        if not stated and ("." in setting.name or setting.value in (None, [], False, "")):
            left_out += 1
            continue
        others = "" if not setting.overrides else f", over {'; '.join(each.words for each in setting.overrides)}"
        table.add_row(escape(setting.name), escape(shown(setting)), escape(setting.origin.words + others))
    yield table
    if left_out:
        more = plurals.count(left_out, "more value is a default", "more values are defaults")
        yield paragraphs.Paragraph(text=f"{more} and say nothing here; --output json has all.", style="dim")
        yield ""


def shown(setting: EffectiveSetting) -> str:
    """A value as people write it."""
    value: Any = setting.value
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "none"
    kind = (
        policy_keys.all_keys()[setting.name].kind
        if setting.name in policy_keys.all_keys()
        else policy_keys.KeyKind.PLAIN
    )
    if kind is policy_keys.KeyKind.SIZE and isinstance(value, int):
        return format_size(value)
    if kind is policy_keys.KeyKind.DURATION and isinstance(value, int | float):
        return all_settings.duration(value)
    return str(value)


def ignored(settings: Sequence[IgnoredSetting]) -> Iterator[RenderableType]:
    """What is said and has no effect, with the reasons."""
    if not settings:
        return
    table = grid("Ignored", sentences("Why"), sentences("From", drop=1))
    for setting in settings:
        table.add_row(escape(setting.name), escape(setting.reason), escape(setting.origin.words))
    yield table
