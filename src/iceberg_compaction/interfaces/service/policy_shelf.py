"""The policies that a service follows: the policy file, and documents that were put into the run store over REST. Both
are one book, read again when one of them has changed. Of two that are as specific, the one from the store wins."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.interfaces.followed_policy import FollowedPolicy
from iceberg_compaction.policy import spelling
from iceberg_compaction.policy.policy_sections import PolicyDocument
from iceberg_compaction.policy.sources import load_file
from iceberg_compaction.record.entries import keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.record.entries.door import StoreEntries, StoreEntry

_log = logging.getLogger(__name__)
_PREFIX = "service-policy"
_MOST_DOCUMENTS = 1000


@dataclass(slots=True, kw_only=True)
class PolicyShelf:
    """All policy documents. ConfigError: one cannot be used."""

    entries: StoreEntries
    file: str | None = None
    environment: str | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _seen: tuple[Any, ...] | None = field(default=None, repr=False)
    _book: FollowedPolicy | None = field(default=None, repr=False)

    def followed(self) -> FollowedPolicy:
        """What all documents say now, for whoever plans or schedules. The same object until a document changes. A file
        that cannot be used any more, such as one that is being written, changes nothing: the last good state holds."""
        stored = self._stored()
        seen = (_stamp(self.file), tuple((entry.key, entry.version) for entry in stored))
        with self._lock:
            if self._book is None or seen != self._seen:
                try:
                    made = FollowedPolicy(source=self._joined(stored), environment=self.environment, from_flags=False)
                    _ = made.book
                except errors.ConfigError as error:
                    if self._book is None:
                        raise
                    _log.warning("The policies of before hold, because the new ones cannot be used: %s", error)
                else:
                    self._book = made
                self._seen = seen  # also of what cannot be used: it is not tried again until it changes
            return self._book

    def with_arguments(self, given: Mapping[str, Any]) -> FollowedPolicy:
        """The same with arguments of a request, by option name, which come first."""
        from iceberg_compaction.interfaces import followed_policy

        made = followed_policy.follow(given, file=None, environment=None)
        return FollowedPolicy(
            rewrite=made.rewrite,
            more=made.more,
            source=self.followed().source,
            environment=self.environment,
            from_flags=False,
        )

    def documents(self) -> dict[str, Any]:
        """The stored documents by name."""
        return {keys.words(entry.key)[1]: json.loads(entry.value) for entry in self._stored()}

    def put(self, name: str, document: Mapping[str, Any]) -> None:
        """Store a document, which must be one that can be used."""
        spellings = spelling.PolicySpellings()
        load_file.parse(json.dumps(document), f"policy {name}", spellings)
        key = keys.key(_PREFIX, name)
        stored = self._stored()
        if len(stored) >= _MOST_DOCUMENTS and all(entry.key != key for entry in stored):
            raise errors.ConfigError(f"There are {_MOST_DOCUMENTS} policies already; delete one first.")
        self.entries.change({key: json.dumps(document)})

    def remove(self, name: str) -> bool:
        """Forget a stored document. False: there is none of that name."""
        key = keys.key(_PREFIX, name)
        if key not in self.entries.get([key]):
            return False
        return self.entries.change({key: None})

    def _stored(self) -> list[StoreEntry]:
        return self.entries.scan(keys.prefix(_PREFIX))

    def _joined(self, stored: list[StoreEntry]) -> PolicyDocument | None:
        spellings = spelling.PolicySpellings()
        documents = [] if self.file is None else [load_file.load(self.file, spellings)]
        documents += [load_file.parse(entry.value, f"policy {keys.words(entry.key)[1]}", spellings) for entry in stored]
        if not documents:
            return None
        return PolicyDocument(
            file=documents[0].file,
            sections=tuple(section for document in documents for section in document.sections),
            environments=tuple(dict.fromkeys(name for each in documents for name in each.environments)),
            environment=next((each.environment for each in documents if each.environment is not None), None),
        )


def _stamp(file: str | None) -> tuple[int, int] | None:
    """Changes when the file does. A file that it extends is not looked at: touch the one that is named."""
    if file is None:
        return None
    try:
        state = Path(file).stat()
    except OSError:
        return (0, 0)
    return state.st_mtime_ns, state.st_size
