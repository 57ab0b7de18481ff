"""The defaults that people know from other tools. A profile is the weakest source but for our own defaults. Values are
those of the tools' own documentation; sizes are powers of two, as there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from iceberg_compaction.model.policy_origin import OriginKind, PolicyOrigin

if TYPE_CHECKING:
    from collections.abc import Mapping

MIB, GIB = 2**20, 2**30
DAY = 86_400.0
_EXPIRE = "maintenance.expire."

_PROFILES: Final[dict[str, dict[str, Any]]] = {
    "iceberg": {  # rewrite_data_files, expire_snapshots and remove_orphan_files of Iceberg's Spark procedures
        "strategy": "small-files",
        "min-input-files": 5,
        "max-file-group-size-bytes": 100 * GIB,
        "delete-ratio-threshold": 0.3,
        "partial-progress": False,
        "partial-progress-max-commits": 10,
        f"{_EXPIRE}max-snapshot-age": 5 * DAY,
        f"{_EXPIRE}min-snapshots-to-keep": 1,
        "maintenance.orphans.older-than": 3 * DAY,
    },
    "nimtable": {
        "strategy": "small-files",
        "target-file-size-bytes": GIB,
        "min-file-size-bytes": 32 * MIB,
        "max-file-group-size-bytes": 50 * GIB,
    },
    "amoro": {
        "strategy": "small-files",
        "target-file-size-bytes": 128 * MIB,
        "min-file-size-bytes": 96 * MIB,
        "max-files-to-rewrite": 10_000,
        "triggers.preset": "amoro",
        f"{_EXPIRE}enabled": True,
        f"{_EXPIRE}max-snapshot-age": DAY / 2,
        f"{_EXPIRE}min-snapshots-to-keep": 1,
        "maintenance.orphans.older-than": 2 * DAY,
        "maintenance.deletes.enabled": True,
    },
    "guide": {
        "strategy": "small-files",
        "target-file-size-bytes": 128 * MIB,
        "min-file-size-bytes": 64 * MIB,
        "min-input-files": 3,
        "max-files-to-rewrite": 100,
        "triggers.preset": "guide",
        "check-every-writes": 5,
        f"{_EXPIRE}max-snapshot-age": 7 * DAY,
    },
}
_OF_ENVIRONMENT: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("guide", "staging"): {"min-input-files": 15, "check-every-writes": 75},
    ("guide", "production"): {"min-input-files": 20, "check-every-writes": 100},
}
# What the tools have beside that, with the reason why it is not set here.
UNUSED: Final[dict[str, dict[str, str]]] = {
    "nimtable": {
        "max-parallelism": "16 there; here the cores of the engine decide",
        "max-record-batch-rows": "1024 there; here batches are as large as the memory of a task allows",
    },
    "amoro": {"self-optimizing.quota": "0.5 there; it is about Amoro's own server"},
}
NAMES: Final = tuple(_PROFILES)
_SHORT: Final = {"dev": "development", "prod": "production"}


def name_of(value: object) -> str | None:
    """The profile of a name; None: there is none."""
    name = value.strip().lower() if isinstance(value, str) else ""
    return name if name in _PROFILES else None


def values(profile: str, environment: str | None) -> Mapping[str, Any]:
    """The values of a profile by their printed names."""
    stage = _SHORT.get(environment or "", environment or "")
    return _PROFILES[profile] | _OF_ENVIRONMENT.get((profile, stage), {})


def origin(profile: str) -> PolicyOrigin:
    return PolicyOrigin(kind=OriginKind.PROFILE, source=profile)
