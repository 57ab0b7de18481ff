"""Chooses the manifests that a commit merges (R12), so that a table does not end up with a thousand small ones. The
manifests of the next snapshot come in, in order; bins of neighbours go out. Iceberg Java does the same: per partition
spec, from the end, so that a bin with room is at the front, where the next commit adds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from iceberg_compaction.commit import commit_retry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ENABLED = "commit.manifest-merge.enabled"
TARGET = "commit.manifest.target-size-bytes"
MIN_COUNT = "commit.manifest.min-count-to-merge"


class MergeCandidate(Protocol):
    """A manifest of the next snapshot."""

    @property
    def spec_id(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def is_new(self) -> bool:
        """Whether it holds files that the commit adds."""
        ...


I = TypeVar("I", bound=MergeCandidate)  # noqa: E741


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """The table's settings for merges of manifests."""

    enabled: bool = True
    target: int = 8 << 20
    min_count: int = 100

    def bins(self, items: Sequence[I]) -> list[list[I]]:
        """Pack neighbours of one spec that fit into the target size together; a bin keeps the order of its
        manifests."""
        by_spec: dict[int, list[I]] = defaultdict(list)
        for item in items:
            by_spec[item.spec_id].append(item)
        return [packed for members in by_spec.values() for packed in self._pack(members)]

    def _pack(self, items: Sequence[I]) -> list[list[I]]:
        bins: list[list[I]] = []
        room = -1
        for item in reversed(items):
            room -= item.length
            if room < 0:
                bins.append([])
                room = self.target - item.length
            bins[-1].append(item)
        return [members[::-1] for members in reversed(bins)]

    def joins(self, members: Sequence[I], first: I) -> bool:
        """Whether a bin becomes one manifest. The bin with the files that the commit adds (or with `first`, if it adds
        none) is merged only once it has many manifests: each commit would write it again."""
        if not self.enabled or len(members) < 2:
            return False
        grows = any(item.is_new for item in members) or any(item is first for item in members)
        return not grows or len(members) >= self.min_count


def merging(properties: Mapping[str, str]) -> Merging:
    """Read the settings from the table's properties. A wrong property must not fail a finished rewrite."""
    default = Merging()
    return Merging(
        enabled=properties.get(ENABLED, "true").lower() == "true",
        target=commit_retry.number(properties, TARGET, default.target),
        min_count=commit_retry.number(properties, MIN_COUNT, default.min_count),
    )
