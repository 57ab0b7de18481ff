"""Manifests as a rewrite of them sees them: what is known of each, and the plan of which become which, and why. The
plan is a value of its own, beside that of data files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from iceberg_compaction.model import lease, plurals
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.table_view import Pin
from iceberg_compaction.model.value import Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TARGET_PROPERTY = "commit.manifest.target-size-bytes"
DEFAULT_TARGET = 8 << 20
LEAST_TARGET = 64 << 10  # a manifest's own header may take tens of kilobytes


class Content(str, Enum):
    """What a manifest lists."""

    DATA = "data"
    DELETES = "deletes"


class Reason(str, Enum):
    """Why manifests are rewritten. Closed set."""

    SMALL = "small"  # many are far below the target size
    LARGE = "large"  # some are more than twice the target size
    SCATTERED = "scattered"  # a partition's files lie in many manifests


class KeptReason(str, Enum):
    """Why manifests are left alone. Closed set."""

    WELL_PACKED = "well-packed"  # neither their number nor the spread of partitions would be halved
    ALONE = "alone"  # there is no other to cluster it with
    OTHER_SPEC = "other-spec"  # another partition spec was asked for
    LOST_COLUMN = "lost-column"  # the type of a partition field is unknown, so bounds cannot be written
    NO_FILES = "no-files"  # the table has no live files


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFacts:
    """What decides about one manifest; it has live files."""

    path: str
    spec_id: int
    content: Content
    bytes: int
    live: int  # entries
    dead: int  # entries of files that were deleted
    partitions: NDArray[np.int64]  # of the live files, each once, as numbers that mean the same in all manifests

    @property
    def live_bytes(self) -> int:
        """About what its live entries take."""
        return self.bytes * self.live // max(1, self.live + self.dead)


class ManifestGroup(Value):
    """Manifests of one partition spec and content that are written anew, together."""

    spec_id: int
    content: Content
    reason: Reason
    manifests: tuple[str, ...]  # paths, in the order of the manifest list
    bytes: int
    entries: int  # live
    outputs: int  # at most, as far as can be told
    spread: float  # manifests that a partition's files lie in, on average, now
    spread_after: float  # at most
    sentence: str


class KeptManifests(Value):
    """Manifests that the plan does not touch."""

    reason: KeptReason
    spec_id: int | None = None
    content: Content | None = None
    manifests: int = 0
    bytes: int = 0
    sentence: str


class ManifestPlan(Value):
    """What becomes of a branch's manifests, and why."""

    id: str
    table: str
    created_ms: int
    pin: Pin | None
    target_size_bytes: int
    groups: tuple[ManifestGroup, ...]
    kept: tuple[KeptManifests, ...]

    def __repr__(self) -> str:
        return self._line(self.table, self.sentence)

    __str__ = __repr__

    @property
    def empty(self) -> bool:
        return not self.groups

    @property
    def resources(self) -> tuple[str, ...]:
        """A run that performs the plan needs a lease of these. No data file is rewritten."""
        return (lease.MANIFESTS,)

    @property
    def replaced(self) -> int:
        return sum(len(group.manifests) for group in self.groups)

    @property
    def outputs(self) -> int:
        return sum(group.outputs for group in self.groups)

    @property
    def sentence(self) -> str:
        """The plan in one sentence, empty or not."""
        if self.empty:
            why = "; ".join(kept.sentence for kept in self.kept)
            return f"Nothing to do: {why}."
        size = format_size(sum(group.bytes for group in self.groups))
        left = sum(kept.manifests for kept in self.kept)
        rest = f"; {plurals.count(left, 'stays as it is', 'stay as they are')}" if left else ""
        count = plurals.count(self.replaced, "manifest")
        becomes = plurals.form(self.replaced, "becomes", "become")
        return f"{count} ({size}) {becomes} about {self.outputs}{rest}."
