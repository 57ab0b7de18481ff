"""How long snapshots are kept: what is asked for, what the table itself says, and what holds in the end, each value
with its origin. Snapshots and refs are plain facts here, so that the choice is made without I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from iceberg_compaction.model.value import Count, Value

MAX_AGE = "history.expire.max-snapshot-age-ms"
MIN_COUNT = "history.expire.min-snapshots-to-keep"
MAX_REF_AGE = "history.expire.max-ref-age-ms"
AMORO_AGE = "snapshot.keep.duration"
AMORO_COUNT = "snapshot.keep.min-count"
GC = "gc.enabled"
FOREVER = 2**63 - 1  # Iceberg's default of max-ref-age


class RetentionGoal(Value):
    """What is asked for, by flags and by a policy. Nothing: the table's own settings hold."""

    older_than_ms: Count | None = None  # a moment: snapshots before it may go
    retain_last: Annotated[int, Field(strict=True, ge=1)] | None = None  # of each branch
    snapshot_ids: tuple[int, ...] = ()  # to expire; without the two above, these and no others
    policy_age_ms: Count | None = None
    policy_count: int | None = None
    policy_ref_age_ms: Count | None = None
    allow_recent: bool = False  # also snapshots of the last hour may go
    clean_metadata: bool = False  # schemas and partition specs as well that nothing uses any more
    keep_files: bool = False  # snapshots go from the metadata, and no file is deleted
    allow_unlisted: bool = False  # delete files although other tables of the catalog cannot be looked at

    @property
    def only_ids(self) -> bool:
        """Whether nothing goes but the snapshots that are named."""
        return bool(self.snapshot_ids) and self.older_than_ms is None and self.retain_last is None


class Sourced(Value):
    """A value, and where it comes from."""

    value: int
    origin: str


class Retention(Value):
    """What holds for branches and tags that have no retention of their own."""

    older_than_ms: Sourced  # a moment
    min_snapshots: Sourced
    max_ref_age_ms: Sourced


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """A snapshot, as far as its life is concerned."""

    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    flink_job: str | None = None  # the job and operator that committed it
    flink_checkpoint: int | None = None  # the last checkpoint that it holds


@dataclass(frozen=True, slots=True, kw_only=True)
class RefFacts:
    """A branch or tag, with its own retention."""

    name: str
    snapshot_id: int
    is_branch: bool
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None
