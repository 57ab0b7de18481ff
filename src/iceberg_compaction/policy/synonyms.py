"""What others call the values of a policy: the guides' config.json, Amoro's and Iceberg's table properties, Polaris,
the custom resource. Names are folded (`spelling.fold`), so that one entry stands for all separators. The first key that
exists is meant."""

from __future__ import annotations

from typing import Final

_TARGET = ("target-file-size-bytes",)
_EXPIRE = "maintenance.expire."

SYNONYMS: Final[dict[str, tuple[str, ...]]] = {
    # sizes and counts
    "target-file-size": _TARGET,
    "target-size": _TARGET,
    "self-optimizing-target-size": _TARGET,
    "write-target-file-size": _TARGET,
    "write-target-file-size-bytes": _TARGET,
    "small-file-threshold": ("min-file-size-bytes",),
    "small-file-size": ("min-file-size-bytes",),
    "min-files-to-compact": ("min-input-files",),
    "min-files": ("min-input-files",),
    "max-files": ("max-files-to-rewrite",),
    "max-files-per-compaction": ("max-files-to-rewrite",),
    "self-optimizing-max-file-count": ("max-files-to-rewrite",),
    "max-bytes": ("max-bytes-to-rewrite",),
    "max-rewrite-bytes": ("max-bytes-to-rewrite",),
    "max-task-size": ("max-file-group-size-bytes",),
    "max-file-group-size": ("max-file-group-size-bytes",),
    "partial-progress-enabled": ("partial-progress",),
    "self-optimizing-allow-partial-commit": ("partial-progress",),
    "copy": ("copy-row-groups",),
    "deletes-action": ("delete-action",),
    "delete-mode": ("delete-action",),
    "cold-tiers": ("rewrite-cold-tiers",),
    "filter": ("where",),
    "partition-filter": ("where",),
    "self-optimizing-filter": ("where",),
    "compaction-strategy": ("strategy",),
    "compaction-type": ("strategy",),
    # costs
    "cost-limit": ("max-cost",),
    "cost-limit-run": ("max-cost",),
    "cost-limit-hourly": ("hourly-cost-limit",),
    "hourly-cost": ("hourly-cost-limit",),
    # when
    "enable": ("enabled",),
    "self-optimizing-enabled": ("enabled",),
    "suspend": ("enabled",),  # turned round, see NEGATED
    "schedule": ("schedule.cron",),
    "cron": ("schedule.cron",),
    "time-zone": ("schedule.time-zone",),
    "timezone": ("schedule.time-zone",),
    "schedule-timezone": ("schedule.time-zone",),
    "quiet": ("quiet-hours",),
    "triggers": ("triggers.preset",),
    "trigger": ("triggers.preset",),
    "opportunistic-check-interval": ("check-every-writes",),
    # expiry of snapshots
    "expire": (f"{_EXPIRE}enabled",),
    "expire-snapshots": (f"{_EXPIRE}enabled",),
    "maintenance-expire": (f"{_EXPIRE}enabled",),
    "table-expire-enabled": (f"{_EXPIRE}enabled",),
    "snapshot-expire-enabled": (f"{_EXPIRE}enabled",),
    "snapshot-retention": (f"{_EXPIRE}max-snapshot-age",),
    "snapshot-keep-duration": (f"{_EXPIRE}max-snapshot-age",),
    "max-snapshot-age": (f"{_EXPIRE}max-snapshot-age",),
    "history-expire-max-snapshot-age": (f"{_EXPIRE}max-snapshot-age",),
    "snapshot-base-keep": (f"{_EXPIRE}max-snapshot-age",),
    "min-snapshot-to-keep": (f"{_EXPIRE}min-snapshots-to-keep",),
    "min-snapshots-to-keep": (f"{_EXPIRE}min-snapshots-to-keep",),
    "snapshot-keep-min-count": (f"{_EXPIRE}min-snapshots-to-keep",),
    "history-expire-min-snapshots-to-keep": (f"{_EXPIRE}min-snapshots-to-keep",),
    "retain-last": (f"{_EXPIRE}min-snapshots-to-keep",),
    "max-ref-age": (f"{_EXPIRE}max-ref-age",),
    "history-expire-max-ref-age": (f"{_EXPIRE}max-ref-age",),
    # other upkeep
    "clean-orphan-file-enabled": ("maintenance.orphans.enabled",),
    "maintenance-orphans": ("maintenance.orphans.enabled",),
    "remove-orphan-files": ("maintenance.orphans.enabled",),
    "clean-orphan-file-min-existing-time": ("maintenance.orphans.older-than",),
    "max-orphan-file-age": ("maintenance.orphans.older-than",),
    "orphan-file-age": ("maintenance.orphans.older-than",),
    "maintenance-manifests": ("maintenance.manifests.enabled",),
    "rewrite-manifests": ("maintenance.manifests.enabled",),
    "clean-dangling-delete-files-enabled": ("maintenance.deletes.enabled",),
    "maintenance-deletes": ("maintenance.deletes.enabled",),
    "data-expire-enabled": ("maintenance.ttl.enabled",),
    "data-expire-field": ("maintenance.ttl.column",),
    "data-expire-retention-time": ("maintenance.ttl.keep",),
    "data-expire-level": ("maintenance.ttl.level",),
    "tag-auto-create-enabled": ("maintenance.tags.enabled",),
    "tag-auto-create-trigger-period": ("maintenance.tags.period",),
    "tag-auto-create-max-age": ("maintenance.tags.keep",),
    "maintenance-tags": ("maintenance.tags.enabled",),
    "maintenance-statistics": ("maintenance.statistics.enabled",),
    "tenant-id": ("tenant",),
    "env": ("environment",),
}
NEGATED: Final = frozenset({"suspend"})

# Thresholds of triggers. Amoro's fragment ratio divides the target size; the guide's is delete files per data file.
THRESHOLDS: Final[dict[str, str]] = {
    "max-file-count-per-partition": "max-file-count-per-partition",
    "max-delete-ratio": "max-delete-ratio",
    "self-optimizing-fragment-ratio": "fragment-size-divisor",
    "self-optimizing-min-target-size-ratio": "min-target-size-ratio",
    "self-optimizing-minor-trigger-file-count": "minor-trigger-file-count",
    "self-optimizing-minor-trigger-interval": "minor-trigger-interval",
    "self-optimizing-major-trigger-duplicate-ratio": "major-trigger-duplicate-ratio",
    "self-optimizing-full-trigger-interval": "full-trigger-interval",
}
MILLISECOND: Final = 0.001  # the unit of Amoro's intervals
AMORO_TRIGGERS: Final = tuple(name for name in THRESHOLDS if name.startswith("self-optimizing-"))

VALUES: Final[dict[str, dict[str, str]]] = {
    "strategy": {
        "binpack": "small-files",
        "bin-pack": "small-files",
        "auto": "adaptive",
        "merge-small-data-files": "small-files",
        "zorder": "dimensional",
        "z-order": "dimensional",
    },
}

_ENGINE = "the engine decides how much runs side by side, see --parallel and Spark's own settings"
_AMORO_OWN = "it is about Amoro's own server"
IGNORED: Final[dict[str, str]] = {
    "parquet-row-group-size": "it is a number of rows for writers, never for compaction; row groups follow the table's "
    "write.parquet.row-group-size-bytes",
    "compression-codec": "it is for writers; compaction takes write.parquet.compression-codec of the table, or of "
    "write-options",
    "compression": "it is for writers; compaction takes write.parquet.compression-codec of the table, or of "
    "write-options",
    "max-parallelism": _ENGINE,
    "max-concurrent-file-group-rewrites": _ENGINE,
    "max-record-batch-rows": "batches are as large as the memory of a task allows",
    "grouping-strategy": "groups are always packed to the target size",
    "max-num-files-to-rewrite": _ENGINE,
    "use-starting-sequence-number": "new files always have the sequence number of the planned snapshot",
    "remove-dangling-deletes": "delete files that apply to nothing always leave in the same commit",
    "partial-progress-max-failed-commits": "a commit that fails never stops the others",
    "compression-factor": "sizes of outputs are estimated from the files themselves",
    "shuffle-partitions-per-file": "sorting needs no shuffle here",
    "force": "it is for one request; use --rewrite-all",
    "self-optimizing-quota": _AMORO_OWN,
    "self-optimizing-major-trigger-file-count": "Amoro itself does not use it any more",
    "self-optimizing-full-rewrite-all-files": "what a full trigger asks for, the strategy chooses; see strategy: full",
    "self-optimizing-group": _AMORO_OWN,
    "self-optimizing-min-plan-interval": _AMORO_OWN,
    "self-optimizing-execute-num-retries": "tasks are tried again by the engine",
    "self-optimizing-max-task-size-bytes": "the size of a task follows from the target size",
    "self-optimizing-evaluation-fallback-interval": _AMORO_OWN,
    "self-optimizing-evaluation-file-size-mse-tolerance": _AMORO_OWN,
    "self-optimizing-rewrite-use-parquet-row-group-merge-enabled": "row groups that need no change are copied anyway, "
    "see copy-row-groups",
    "change-data-ttl": "it is for Amoro's own table format",
    "change-data-ttl-minutes": "it is for Amoro's own table format",
    "resources-memory": "it is for the jobs of the operator; a run has the memory of its process or executors",
    "resources-cpu": "it is for the jobs of the operator; a run has the cores of its process or executors",
    "catalog-type": "the catalog is chosen by --catalog-uri and CATALOG_* variables",
    "catalog-uri": "the catalog is chosen by --catalog-uri and CATALOG_* variables",
    "catalog-warehouse": "the catalog is chosen by --catalog-uri and CATALOG_* variables",
    "catalog-name": "the catalog is chosen by --catalog-uri and CATALOG_* variables",
    "prefix-mismatch-mode": "paths are compared as they stand",
    "spec-id": "manifests of every spec are looked at",
}
