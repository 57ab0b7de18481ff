"""Who is there: each process of a service writes an entry now and then. Whether one is dead is not a matter of clocks:
the operating system answers for its own machine, and elsewhere a process is dead if its entry has not changed for a
while by the monotonic clock of whoever looks, so that clocks may differ and jump."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pydantic

from iceberg_compaction.model.service_member import ServiceMember
from iceberg_compaction.record import processes
from iceberg_compaction.record.entries import keys

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from iceberg_compaction.model.run_record import Process
    from iceberg_compaction.record.entries.door import StoreEntries, StoreEntry

_PREFIX = "service-member"


@dataclass(frozen=True, slots=True)
class ServiceMembers:
    """The members of a service."""

    entries: StoreEntries

    def beat(self, member: ServiceMember) -> None:
        """Give a sign of life."""
        self.entries.change({keys.key(_PREFIX, member.member): member.model_dump_json()})

    def leave(self, member: str) -> None:
        """Go. Whatever it still has is anybody's from now on."""
        self.entries.change({keys.key(_PREFIX, member): None})

    def list(self) -> list[ServiceMember]:
        """All members, also those that are silent, in the order of their names."""
        return [member for member, _ in self.seen()]

    def seen(self) -> Sequence[tuple[ServiceMember, int]]:
        """The same, each with a number that changes with each sign of life."""
        listed = self.entries.scan(keys.prefix(_PREFIX))
        return [(member, entry.version) for entry in listed if (member := _parsed(entry)) is not None]


@dataclass(slots=True, kw_only=True)
class SilenceWatch:
    """What one process has seen of others. Threads may share it."""

    monotonic: Callable[[], float]
    silent_s: float
    is_alive: Callable[[Process], bool | None] = processes.is_alive
    _seen: dict[str, tuple[int, float]] = field(default_factory=dict)

    def is_dead(self, name: str, version: int, process: Process) -> bool:
        """Whether somebody whose entry has this version is dead."""
        alive = self.is_alive(process)
        if alive is not None:
            return not alive
        return self.silence(name, version) >= self.silent_s

    def silence(self, name: str, version: int) -> float:
        """The seconds since an entry changed, as far as this process has seen."""
        now = self.monotonic()
        before = self._seen.get(name)
        if before is None or before[0] != version:
            self._seen[name] = before = (version, now)
        return now - before[1]

    def forget_others(self, names: Collection[str]) -> None:
        """Keep what was seen of these only."""
        for name in [name for name in self._seen if name not in names]:
            self._seen.pop(name, None)

    def dead(self, seen: Collection[tuple[ServiceMember, int]], workers: Collection[str]) -> frozenset[str]:
        """The workers among these that are dead: silent, or gone without a word."""
        living = {member.member for member, version in seen if not self.is_dead(member.member, version, member.process)}
        return frozenset(workers) - living


def _parsed(entry: StoreEntry) -> ServiceMember | None:
    try:
        return ServiceMember.model_validate_json(entry.value)
    except pydantic.ValidationError:
        return None
