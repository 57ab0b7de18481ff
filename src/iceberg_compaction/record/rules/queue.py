"""A queue of work in the store: whoever claims an item has it for a while, with a token that is worth nothing once
another has it. Of all that is due, the highest priority comes first, then the oldest."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import pydantic

from iceberg_compaction import errors
from iceberg_compaction.model.value import Value
from iceberg_compaction.record.entries import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.record.entries.door import StoreEntries, StoreEntry

HIGHEST_PRIORITY = 9
_AT_ONCE = 20  # due items that are looked at together
_FIRST_WAIT_MS, _LONGEST_WAIT_MS = 1_000, 15 * 60_000  # after a failure; each is twice the one before


class ItemState(str, Enum):
    """Where an item is. Closed set."""

    WAITING = "waiting"  # for its time, or for somebody
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"  # as often as it may
    CANCELLED = "cancelled"


class QueueItem(Value):
    """One piece of work."""

    item_id: str  # the idempotency key of whoever put it in
    payload: str
    priority: int = 0  # 0 to 9
    put_ms: int
    due_ms: int  # not before; of a claimed item, when it is anybody's again
    state: ItemState = ItemState.WAITING
    owner: str = ""
    token: int = 0  # of the last claim; each claim has a higher one
    failures: int = 0
    most_failures: int = 5
    sentence: str = ""  # the last failure


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue by its name. StoreError: the store is away, or an item is another's by now."""

    entries: StoreEntries
    name: str = "work"

    def put(self, item: QueueItem) -> QueueItem:
        """Add an item. If one of the same id is there, nothing is added, and that one is returned."""
        if not 0 <= item.priority <= HIGHEST_PRIORITY:
            raise errors.ConfigError(f"The priority {item.priority} is not between 0 and {HIGHEST_PRIORITY}.")
        new = {self._key(item.item_id): item.model_dump_json(), self._order(item): ""}
        while not self.entries.change(new, {self._key(item.item_id): None}):
            if (present := self.get(item.item_id)) is not None:
                return present
        return item

    def get(self, item_id: str) -> QueueItem | None:
        """One item; None: there is none, or this version cannot read it."""
        key = self._key(item_id)
        entry = self.entries.get([key]).get(key)
        return None if entry is None else _parsed(entry)

    def items(self, after: str = "", limit: int = 100) -> list[QueueItem]:
        """Items in the order of their ids, also those that have ended; `after` is the last id of the page before."""
        prefix = keys.prefix("queue", self.name)
        listed = self.entries.scan(prefix, after=self._key(after) if after else "", limit=limit)
        return [item for item in map(_parsed, listed) if item is not None]

    def claim(self, owner: str, now_ms: int, visible_after_ms: int) -> QueueItem | None:
        """Take the first item that is due, for this long. None: there is none. An item whose owner was silent for too
        long is due again."""
        for priority in range(HIGHEST_PRIORITY, -1, -1):
            prefix = keys.prefix("queue-due", self.name, HIGHEST_PRIORITY - priority)
            listed = self.entries.scan(prefix, limit=_AT_ONCE)
            for entry in listed:
                *_, due_ms, item_id = keys.words(entry.key)
                if int(due_ms) > now_ms:
                    break
                if (item := self._claim(item_id, owner, now_ms, visible_after_ms)) is not None:
                    return item
        return None

    def extend(self, item: QueueItem, now_ms: int, visible_after_ms: int) -> QueueItem:
        """Keep a claimed item for longer."""
        return self._held(item, lambda present: {"due_ms": now_ms + visible_after_ms})

    def done(self, item: QueueItem) -> QueueItem:
        """The work is done."""
        return self._held(item, lambda present: {"state": ItemState.DONE, "owner": ""})

    def fail(self, item: QueueItem, now_ms: int, sentence: str) -> QueueItem:
        """The work failed: it is due again later, unless it has failed as often as it may."""

        def failed(present: QueueItem) -> dict[str, object]:
            failures = present.failures + 1
            wait_ms = min(_FIRST_WAIT_MS * 2 ** (failures - 1), _LONGEST_WAIT_MS)
            state = ItemState.FAILED if failures >= present.most_failures else ItemState.WAITING
            return {
                "state": state,
                "owner": "",
                "failures": failures,
                "sentence": sentence,
                "due_ms": now_ms + wait_ms,
            }

        return self._held(item, failed)

    def cancel(self, item_id: str) -> QueueItem | None:
        """End an item, whoever has it. None: there is no such item, or it has ended."""

        def ended(present: QueueItem) -> dict[str, object] | None:
            return {"state": ItemState.CANCELLED, "owner": ""} if _is_open(present) else None

        return self._update(item_id, ended)

    def remove(self, item_id: str) -> bool:
        """Forget an item that has ended, and its id with it. False: it has not, or is not there."""
        key = self._key(item_id)
        entry = self.entries.get([key]).get(key)
        item = None if entry is None else _parsed(entry)
        if entry is None or item is None or _is_open(item):
            return False
        return self.entries.change({key: None}, {key: entry.version})

    def _claim(self, item_id: str, owner: str, now_ms: int, visible_after_ms: int) -> QueueItem | None:
        def claimed(present: QueueItem) -> dict[str, object] | None:
            if not _is_open(present) or present.due_ms > now_ms:
                return None
            until_ms = now_ms + visible_after_ms
            return {"state": ItemState.CLAIMED, "owner": owner, "token": present.token + 1, "due_ms": until_ms}

        return self._update(item_id, claimed)

    def _held(self, item: QueueItem, change: Callable[[QueueItem], dict[str, object] | None]) -> QueueItem:
        def fenced(present: QueueItem) -> dict[str, object] | None:
            is_own = present.state is ItemState.CLAIMED and present.token == item.token
            return change(present) if is_own else None

        updated = self._update(item.item_id, fenced)
        if updated is None:
            raise errors.StoreError(f"The item {item.item_id} of the queue {self.name} is not {item.owner}'s any more.")
        return updated

    def _update(self, item_id: str, change: Callable[[QueueItem], dict[str, object] | None]) -> QueueItem | None:
        """Change an item as `change` says, which may be asked again if others change it meanwhile."""
        key = self._key(item_id)
        while True:
            entry = self.entries.get([key]).get(key)
            item = None if entry is None else _parsed(entry)
            fields = None if item is None else change(item)
            if entry is None or item is None or fields is None:
                return None
            new = item.model_copy(update=fields)
            values: dict[str, str | None] = {self._order(item): None, key: new.model_dump_json()}
            if _is_open(new):
                values[self._order(new)] = ""
            if self.entries.change(values, {key: entry.version}):
                return new

    def _key(self, item_id: str) -> str:
        return keys.key("queue", self.name, item_id)

    def _order(self, item: QueueItem) -> str:
        return keys.key("queue-due", self.name, HIGHEST_PRIORITY - item.priority, item.due_ms, item.item_id)


def _is_open(item: QueueItem) -> bool:
    return item.state in (ItemState.WAITING, ItemState.CLAIMED)


def _parsed(entry: StoreEntry) -> QueueItem | None:
    try:
        return QueueItem.model_validate_json(entry.value)
    except pydantic.ValidationError:
        return None
