"""Every request that reaches an S3 store, by kind: the truth that our own counts are compared with. A gate before the
store writes down what passes, with a delay per request if a test or a benchmark wants one."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from tests.factories import gate as gates

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    kind: str
    path: str  # bucket and key
    started: float


@dataclass(slots=True, kw_only=True)
class RequestLog:
    """The requests since the last `clear`."""

    uri: str = ""
    delay: float = 0.0  # seconds that each request takes at least
    then: gates.Pass = lambda request: request  # befalls a request after it was written down
    entries: list[Entry] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def clear(self) -> None:
        with self._lock:
            self.entries.clear()

    def counts(self, suffix: str = "") -> dict[str, int]:
        """Requests by kind, of the paths with this end."""
        with self._lock:
            return dict(sorted(Counter(each.kind for each in self.entries if each.path.endswith(suffix)).items()))

    def check(self, request: gates.Request) -> gates.Request | gates.Answer:
        entry = Entry(kind=kind(request), path=unquote(urlsplit(request.path).path), started=time.monotonic())
        with self._lock:
            self.entries.append(entry)
        time.sleep(self.delay)
        return self.then(request)


@contextlib.contextmanager
def logged(endpoint: str) -> Iterator[RequestLog]:
    """A log of the requests to an S3 store at this endpoint; clients use the log's `uri` instead."""
    log = RequestLog()
    with gates.gate(endpoint, log.check) as gate:
        log.uri = gate.uri
        yield log


def kind(request: gates.Request) -> str:
    """The kind of a request to S3, in the words of `iceberg_compaction.model.storage_requests`."""
    url = urlsplit(request.path)
    query = parse_qs(url.query, keep_blank_values=True)
    is_copy = "x-amz-copy-source" in request.headers
    match request.method:
        case "GET":
            return "get" if "/" in url.path.strip("/") and "list-type" not in query else "list"
        case "PUT" if is_copy:
            return "copy"
        case "PUT":
            return "part" if "partNumber" in query else "put"
        case "POST" if "delete" in query:
            return "delete"
        case "POST":
            return "put"  # begins or completes an upload in parts
        case method:
            return method.lower()
