"""Loading a table only if it has changed, where the catalog has ETags. The REST catalog asks its `condition` before
each request for a table and after each answer; an answer "not modified" comes up as a signal through PyIceberg, which
does not know such answers."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_MODIFIED = 304


class NotModifiedSignal(BaseException):
    """The table is as it was. No error, so that nobody translates it or tries again."""


class LoadCondition(threading.local):
    """What a thread wants of its next load. `etag`: of the table as it was seen last, and after a load of the one that
    was seen now; empty: none."""

    active: bool = False
    etag: str = ""

    @contextmanager
    def unless(self, etag: str) -> Iterator[LoadCondition]:
        """Loads inside raise NotModifiedSignal if the table is as it was."""
        self.active, self.etag = True, etag
        try:
            yield self
        finally:
            self.active = False

    def headers(self, method: str, url: str) -> dict[str, str]:
        """What a request for a table says in addition."""
        return {"If-None-Match": self.etag} if self._is_about(method, url) and self.etag else {}

    def answered(self, method: str, url: str, status: int, etag: str) -> None:
        """Note the answer to a request."""
        if not self._is_about(method, url):
            return
        if status == NOT_MODIFIED:
            raise NotModifiedSignal
        self.etag = etag

    def _is_about(self, method: str, url: str) -> bool:
        return self.active and method.upper() == "GET" and "/tables/" in url
