"""Notices wait in the run store until a webhook has taken them, so that neither a restart nor a receiver that is away
loses one. A receiver may get a notice twice; its id says so."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pydantic

from iceberg_compaction import errors
from iceberg_compaction.interfaces.service.notices import webhook
from iceberg_compaction.model.notice import Notice
from iceberg_compaction.model.value import Value
from iceberg_compaction.record.rules.queue import Queue, QueueItem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Event

    from iceberg_compaction.interfaces.service.service_settings import WebhookSettings
    from iceberg_compaction.record.entries.door import StoreEntries

_NAME = "notices"
_MOST_FAILURES = 12  # with growing waits, about two hours
_HOLD_MS = 60_000  # how long one delivery may take
_PAUSE_S = 1.0
_log = logging.getLogger(__name__)


class _Parcel(Value):
    """A notice on its way to one webhook, named by the hash of its URL: the URL may hold a secret."""

    receiver: str
    notice: Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeQueue:
    """Notices for the webhooks of a service."""

    entries: StoreEntries
    webhooks: Sequence[WebhookSettings]
    clock: Callable[[], int]
    send: Callable[[WebhookSettings, Notice], None] = webhook.send

    def post(self, notice: Notice) -> int:
        """Put a notice in for every webhook that wants it; for how many. A store that is away loses it, with a word in
        the log: a notice must not stop the work that it is about."""
        wanted = [each for each in self.webhooks if webhook.wants(each, notice)]
        for each in wanted:
            parcel = _Parcel(receiver=_receiver(each), notice=notice)
            item = QueueItem(
                item_id=f"{notice.notice_id}-{parcel.receiver}",
                payload=parcel.model_dump_json(),
                put_ms=notice.at_ms,
                due_ms=notice.at_ms,
                most_failures=_MOST_FAILURES,
            )
            try:
                self._queue.put(item)
            except errors.StoreError as error:
                _log.warning("A notice is lost (%s): %s", notice.sentence, error)
                return 0
        return len(wanted)

    def deliver_one(self, owner: str) -> bool:
        """Deliver the next notice that is due. False: there is none."""
        item = self._queue.claim(owner, self.clock(), _HOLD_MS)
        if item is None:
            return False
        receivers = {_receiver(each): each for each in self.webhooks}
        try:
            parcel = _Parcel.model_validate_json(item.payload)
        except pydantic.ValidationError:
            self._end(item)
            return True
        receiver = receivers.get(parcel.receiver)
        if receiver is None:  # it left the settings meanwhile
            self._end(item)
            return True
        try:
            self.send(receiver, parcel.notice)
        except errors.UnreachableError as error:
            failed = self._queue.fail(item, self.clock(), str(error))
            if failed.failures >= failed.most_failures:
                _log.warning("A notice is given up after %d attempts: %s", failed.failures, error)
                self._queue.remove(item.item_id)
        else:
            self._end(item)
        return True

    def run(self, owner: str, stop: Event) -> None:
        """Deliver notices until `stop` is set."""
        while not stop.is_set():
            try:
                while not stop.is_set() and self.deliver_one(owner):
                    pass
            except errors.StoreError as error:
                _log.info("Notices wait: %s", error)
            stop.wait(_PAUSE_S)

    def _end(self, item: QueueItem) -> None:
        self._queue.done(item)
        self._queue.remove(item.item_id)

    @property
    def _queue(self) -> Queue:
        return Queue(self.entries, _NAME)


def _receiver(settings: WebhookSettings) -> str:
    return hashlib.sha256(f"{settings.format} {settings.url}".encode()).hexdigest()[:16]
