"""The log of all acts in a service, in the run store, the newest first. Old entries leave it after a while."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pydantic

from iceberg_compaction.model.audit_entry import AuditEntry
from iceberg_compaction.record.entries import door, keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iceberg_compaction.record.entries.door import StoreEntries

_PREFIX = "service-audit"
_LONGEST = 500  # characters of a text
_PAGE = 500  # entries that are read at a time
_MOST_READ = 20_000  # entries that a filter may pass over for one page


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLog:
    """`unique` makes a few characters of chance, so that acts of one moment do not meet."""

    entries: StoreEntries
    unique: Callable[[], str]

    def add(self, entry: AuditEntry) -> None:
        """Write one act down."""
        cut = {name: value[:_LONGEST] for name, value in entry.model_dump().items() if isinstance(value, str)}
        text = entry.model_copy(update=cut).model_dump_json()
        self.entries.change({keys.key(_PREFIX, keys.newest_first(entry.at_ms), self.unique()): text})

    def page(
        self, *, limit: int, after: str = "", fits: Callable[[AuditEntry], bool] = lambda entry: True
    ) -> tuple[list[AuditEntry], str | None]:
        """The newest acts that fit, and where the next page begins; None: there are no more."""
        acts: list[AuditEntry] = []
        for read, (key, entry) in enumerate(self._each(after), start=1):
            if entry is not None and fits(entry):
                acts.append(entry)
            if len(acts) == limit or read == _MOST_READ:
                return acts, key
        return acts, None

    def _each(self, after: str) -> Iterator[tuple[str, AuditEntry | None]]:
        start = keys.prefix(_PREFIX) + after if after else ""
        while True:
            rows = self.entries.scan(keys.prefix(_PREFIX), after=start, limit=_PAGE)
            for row in rows:
                yield row.key.removeprefix(keys.prefix(_PREFIX)), _parsed(row.value)
            if len(rows) < _PAGE:
                return
            start = rows[-1].key


def remove_before(entries: StoreEntries, moment_ms: int) -> int:
    """Forget acts that are older, some at a time; how many."""
    start = keys.key(_PREFIX, keys.newest_first(moment_ms - 1))
    old = entries.scan(keys.prefix(_PREFIX), after=start, limit=door.MOST_KEYS)
    if old:
        entries.change(dict.fromkeys((entry.key for entry in old), None))
    return len(old)


def _parsed(text: str) -> AuditEntry | None:
    try:
        return AuditEntry.model_validate_json(text)
    except pydantic.ValidationError:
        return None
