"""Who looks after schedules: one process at a time. The leader renews its entry at every turn; when it is dead another
one takes its place. All that a leader writes expects the very entry that it wrote itself, so that one who was only
asleep can change nothing any more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pydantic

from iceberg_compaction.model.service_member import Leader
from iceberg_compaction.record.entries import keys

if TYPE_CHECKING:
    from iceberg_compaction.model.run_record import Process
    from iceberg_compaction.record.entries.door import StoreEntries, StoreEntry
    from iceberg_compaction.record.service.service_members import SilenceWatch

_KEY = keys.key("service-leader", "schedules")


@dataclass(slots=True, kw_only=True)
class Leadership:
    """One process that would lead."""

    entries: StoreEntries
    member: str
    process: Process
    watch: SilenceWatch
    _term: int | None = field(default=None, init=False)

    def hold(self) -> tuple[int, dict[str, int]] | None:
        """Renew the own leadership, or take the place of a dead leader. Returns the term, which tells one time of
        leading from the next, and what changes of the leader expect. None: another one leads."""
        entry = self.entries.get([_KEY]).get(_KEY)
        leader = _parsed(entry)
        if entry is not None and leader is not None and self._is_led_by(leader, entry.version):
            return None
        mine = leader is not None and leader.member == self.member and leader.term == self._term
        term, beat = (0, 0) if leader is None else (leader.term, leader.beat)
        new = Leader(member=self.member, process=self.process, term=term if mine else term + 1, beat=beat + 1)
        if not self.entries.change({_KEY: new.model_dump_json()}, {_KEY: None if entry is None else entry.version}):
            return None
        written = self.entries.get([_KEY]).get(_KEY)
        if written is None or _parsed(written) != new:
            return None
        self._term = new.term
        return new.term, {_KEY: written.version}

    def _is_led_by(self, leader: Leader, version: int) -> bool:
        other = leader.member != self.member
        return other and not self.watch.is_dead(f"leader {leader.member}", version, leader.process)

    def resign(self) -> None:
        """Let another one lead at once."""
        entry = self.entries.get([_KEY]).get(_KEY)
        leader = _parsed(entry)
        if entry is not None and leader is not None and leader.member == self.member:
            self.entries.change({_KEY: None}, {_KEY: entry.version})
        self._term = None


def leader_of(entries: StoreEntries) -> Leader | None:
    """Who leads, or led last."""
    return _parsed(entries.get([_KEY]).get(_KEY))


def _parsed(entry: StoreEntry | None) -> Leader | None:
    """A leader that a newer version wrote cannot be read, and is replaced: that version does the same."""
    try:
        return None if entry is None else Leader.model_validate_json(entry.value)
    except pydantic.ValidationError:
        return None
