"""The processes of one service that share a run store. Each gives signs of life there. An SQLite file is for one
process of a service: another one is refused in words. Whether one on this machine lives, the operating system knows; of
one in another container, or elsewhere, only its next sign of life tells."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.interfaces import run_stores
from iceberg_compaction.model.service_member import ServiceMember
from iceberg_compaction.record import processes
from iceberg_compaction.record.service.service_members import ServiceMembers

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse

_BEATS = 4  # in the time after which a silent process is dead
_LATE = 2  # beats after which another process is not waited for any more
_LOOKS = 10  # in the time of a beat
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Replica:
    """This process among the others. While a worker gives signs of life (`is_worker`), nobody else does."""

    house: ServiceHouse
    member: str
    version: str
    is_worker: bool = False
    monotonic: Callable[[], float] = time.monotonic
    _over: threading.Event = field(default_factory=threading.Event)
    _since_ms: int = 0

    def join(self) -> None:
        """Enter the list, and go on giving signs of life. ConfigError: the store is a file, and another process of a
        service has it."""
        self._since_ms = self.house.clock()
        self._beat()
        try:
            self._check_alone()
        except errors.ConfigError:
            self.leave()
            raise
        threading.Thread(target=self._go_on, name="signs of life", daemon=True).start()

    def leave(self) -> None:
        """Go."""
        self._over.set()
        try:
            ServiceMembers(self.house.store.entries).leave(self.member)
        except errors.StoreError:
            return  # whoever looks will see that the process is gone

    def _check_alone(self) -> None:
        given = self.house.settings.store
        if given is None or run_stores.file_of(given) is None:
            return
        unsure: dict[str, int] = {}
        for each, version in self._older():
            match processes.is_alive(each.process):
                case True:
                    raise _taken(each, given)
                case None if self.house.clock() - each.beat_ms < _LATE * 1000 * self.house.settings.takeover:
                    unsure[each.member] = version
        if unsure:
            _log.warning("Another process used the run store %s a moment ago; looking whether it still does.", given)
            self._await_silence(unsure, given)

    def _older(self) -> list[tuple[ServiceMember, int]]:
        """The members that were here before, each with the number of its sign of life. Of two that come at the same
        time, one stays."""
        own, seen = (self._since_ms, self.member), ServiceMembers(self.house.store.entries).seen()
        me = processes.this_process()
        return [(each, version) for each, version in seen if each.process != me and (each.since_ms, each.member) < own]

    def _await_silence(self, unsure: dict[str, int], given: str) -> None:
        beat_s = self.house.settings.takeover / _BEATS
        end = self.monotonic() + _LATE * beat_s
        while self.monotonic() < end and not self._over.wait(beat_s / _LOOKS):
            for each, version in self._older():
                if unsure.get(each.member, version) != version:
                    raise _taken(each, given)

    def _go_on(self) -> None:
        while not self._over.wait(self.house.settings.takeover / _BEATS):
            if self.is_worker:
                continue
            try:
                self._beat()
            except errors.StoreError:
                continue  # it may be back at the next beat

    def _beat(self) -> None:
        ServiceMembers(self.house.store.entries).beat(
            ServiceMember(
                member=self.member,
                role=self.house.settings.role.value,
                process=processes.this_process(),
                version=self.version,
                since_ms=self._since_ms,
                beat_ms=self.house.clock(),
            )
        )


def _taken(by: ServiceMember, given: str) -> errors.ConfigError:
    return errors.ConfigError(
        f"Process {by.process.pid} of {by.process.machine} serves with the run store {given} already, and an SQLite "
        "file is for one process of a service. Several replicas need a server: --store postgresql://HOST/DATABASE, "
        "redis:// or etcd://."
    )
