"""Which manifests a commit writes as one (R12), so that a table does not end up with a thousand small ones. Those of
the next snapshot come in, in order; bins of neighbours go out. As Iceberg Java does it: per partition spec, from the
end, so that what is not full is at the front, where the next commit adds."""

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


class Item(Protocol):
    """A manifest of the next snapshot."""

    @property
    def spec_id(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def is_new(self) -> bool:
        """It holds files that the commit adds."""
        ...


I = TypeVar("I", bound=Item)  # noqa: E741


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """The table's wishes."""

    enabled: bool = True
    target: int = 8 << 20
    min_count: int = 100

    def bins(self, items: Sequence[I]) -> list[list[I]]:
        """Neighbours of one spec that fit into the target together; the manifests of a bin keep their order."""
        by_spec: dict[int, list[I]] = defaultdict(list)
        for item in items:
            by_spec[item.spec_id].append(item)
        return [found for members in by_spec.values() for found in self._pack(members)]

    def _pack(self, items: Sequence[I]) -> list[list[I]]:
        found: list[list[I]] = []
        room = -1
        for item in reversed(items):
            room -= item.length
            if room < 0:
                found.append([])
                room = self.target - item.length
            found[-1].append(item)
        return [members[::-1] for members in reversed(found)]

    def joins(self, members: Sequence[I], first: I) -> bool:
        """Whether a bin becomes one manifest. The one that holds what the commit adds (or `first`, if it adds nothing)
        does so only once it has many: it would be written again by each commit."""
        if not self.enabled or len(members) < 2:
            return False
        grows = any(item.is_new for item in members) or any(item is first for item in members)
        return not grows or len(members) >= self.min_count


def merging(properties: Mapping[str, str]) -> Merging:
    """From the table's properties; a wrong one must not cost a finished rewrite."""
    default = Merging()
    return Merging(
        enabled=properties.get(ENABLED, "true").lower() == "true",
        target=commit_retry.number(properties, TARGET, default.target),
        min_count=commit_retry.number(properties, MIN_COUNT, default.min_count),
    )
