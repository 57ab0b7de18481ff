"""Every value of a table's policy with its origin, also those that nobody has stated; and the steps of upkeep in
words. For people who ask why."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from iceberg_compaction.model.explanation import UpkeepSetting
from iceberg_compaction.model.policy_origin import DEFAULT_ORIGIN, EffectiveSetting
from iceberg_compaction.policy import policy_keys

if TYPE_CHECKING:
    from iceberg_compaction.model.policies import Sizes
    from iceberg_compaction.model.policy_origin import EffectivePolicy
    from iceberg_compaction.model.table_policy import MaintenanceSteps, TablePolicy
    from iceberg_compaction.policy.spelling import PolicySpellings

_SIZES = {"target": "target-file-size-bytes", "min": "min-file-size-bytes", "max": "max-file-size-bytes"}
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def all_settings(
    effective: EffectivePolicy, spellings: PolicySpellings, sizes: Sizes | None = None
) -> tuple[EffectiveSetting, ...]:
    """Every value, in the order of the classes. `sizes`: as planning resolves those that are derived."""
    stated = {setting.name: setting for setting in effective.settings}
    resolved = {} if sizes is None else {name: getattr(sizes, part) for part, name in _SIZES.items()}
    settings = []
    for name, key in spellings.keys.items():
        setting = stated.pop(name, None)
        value = _plain(_field(effective.policy, key.path))
        if setting is not None and key.kind is not policy_keys.KeyKind.PLAIN and value is None:
            value = setting.value  # planning reads it by itself
        value = resolved.get(name, value) if value is None or name in resolved else value
        if setting is None:
            setting = EffectiveSetting(name=name, value=value, origin=DEFAULT_ORIGIN)
        settings.append(setting.model_copy(update={"value": value}))
    return (*settings, *stated.values())


def _field(policy: TablePolicy, path: tuple[str, ...]) -> Any:
    value: Any = policy
    for name in path:
        value = getattr(value, name)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [getattr(each, "words", each) for each in value]
    return value


def upkeep(steps: MaintenanceSteps) -> tuple[UpkeepSetting, ...]:
    """What is kept tidy beside data files."""
    refs = "" if steps.expire.max_ref_age is None else f", refs after {duration(steps.expire.max_ref_age)}"
    expire = (
        f"snapshots go after {duration(steps.expire.max_snapshot_age)}, but the last "
        f"{steps.expire.min_snapshots_to_keep} of each branch stay{refs}"
    )
    ttl = f"rows stay for {duration(steps.ttl.keep)} by {steps.ttl.column}" if steps.ttl.keep else "no age is stated"
    tags = f"{steps.tags.period} tags" + (f", kept for {duration(steps.tags.keep)}" if steps.tags.keep else "")
    counted = ", ".join(steps.statistics.columns)
    statistics = "rows and files of partitions are counted" + (f", and values of {counted}" if counted else "")
    words = {
        "expire": expire,
        "orphans": f"files that nothing refers to go after {duration(steps.orphans.older_than)}",
        "manifests": "manifests are clustered by partition",
        "deletes": "delete files are merged, and those that apply to nothing go",
        "ttl": ttl,
        "tags": tags,
        "statistics": statistics,
    }
    return tuple(
        UpkeepSetting(name=name, enabled=getattr(steps, name).enabled, sentence=sentence)
        for name, sentence in words.items()
    )


def duration(seconds: float) -> str:
    """A duration as people and policy files write it: 5d, 36h, 90m."""
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.15g}{unit}"
    return f"{seconds:.15g}s"
