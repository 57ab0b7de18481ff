"""A catalog that vends keys for its tables' files, and a store that takes no others and those only for a while: gates
before SeaweedFS. Signatures are checked with the key that was vended, and made anew with the one that the store has."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import re
import secrets
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.factories import gate as gates

from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.factories.servers import S3Server

    from iceberg_compaction.execute.engine_door import Rewrite
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]+)"
)
_TOKEN = "x-amz-security-token"
_BEGIN = "/-/begins/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    access: str
    secret: str
    token: str
    ends: float  # by the monotonic clock


@dataclass(slots=True, kw_only=True)
class Vending:
    """A running pair of gates."""

    server: S3Server
    seconds: float
    extra: dict[str, str] = field(default_factory=dict)  # what else the catalog says for every table
    keys: dict[str, Key] = field(default_factory=dict)
    refused: int = 0  # requests with a key that had expired
    deadly: set[tuple[int, int]] = field(default_factory=set)  # task, and which of its beginnings ends all keys
    begun: Counter[int] = field(default_factory=Counter)  # tasks
    rest: gates.Gate = field(init=False)
    s3: gates.Gate = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def settings(self) -> CatalogSettings:
        """No key for storage among them."""
        mine = {"credential": f"{self.server.access_key}:{self.server.secret_key}", "s3.region": "us-east-1"}
        token = {"oauth2-server-uri": f"{self.rest.uri}/v1/oauth/tokens"}
        return CatalogSettings(uri=self.rest.uri, warehouse=self.server.warehouse, properties=mine | token)

    def vend(self, request: gates.Request, answer: gates.Answer) -> gates.Answer:
        """The catalog's answer with a new key, where it is about a table."""
        if answer.status != 200 or b'"metadata"' not in answer.body:
            return answer
        key = Key(
            access=f"ASIA{secrets.token_hex(8).upper()}",
            secret=secrets.token_hex(20),
            token=secrets.token_hex(30),
            ends=time.monotonic() + self.seconds,
        )
        with self._lock:
            self.keys[key.access] = key
        told = json.loads(answer.body)
        told["config"] = {
            **told.get("config", {}),
            "s3.endpoint": self.s3.uri,
            "s3.access-key-id": key.access,
            "s3.secret-access-key": key.secret,
            "s3.session-token": key.token,
            **self.extra,
        }
        return replace(answer, body=json.dumps(told).encode())

    def admit(self, request: gates.Request) -> gates.Request | gates.Answer:
        """The request as the store's own key would have signed it, or its refusal."""
        if request.path.startswith(_BEGIN):
            return self._begin(int(request.path.removeprefix(_BEGIN)))
        found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
        key = self.keys.get(found[1]) if found else None
        if found is None or key is None or request.headers.get(_TOKEN) != key.token:
            return gates.s3_error(403, "InvalidAccessKeyId")
        names = found[3].split(";")
        if not hmac.compare_digest(_signature(request, found[2], names, key.secret), found[4]):
            return gates.s3_error(403, "SignatureDoesNotMatch")
        if time.monotonic() > key.ends:
            with self._lock:
                self.refused += 1
            return gates.s3_error(400, "ExpiredToken")
        names.remove(_TOKEN)
        mine = _signature(request, found[2], names, self.server.secret_key)
        signed = f"AWS4-HMAC-SHA256 Credential={self.server.access_key}/{found[2]}, SignedHeaders={';'.join(names)}, "
        headers = {name: value for name, value in request.headers.items() if name != _TOKEN}
        return replace(request, headers=headers | {"authorization": f"{signed}Signature={mine}"})

    def expire(self) -> None:
        """No key that was vended so far works any more."""
        with self._lock:
            self.keys = {name: replace(key, ends=time.monotonic()) for name, key in self.keys.items()}

    def _begin(self, task: int) -> gates.Answer:
        with self._lock:
            self.begun[task] += 1
            deadly = (task, self.begun[task]) in self.deadly
        if deadly:
            self.expire()
        return gates.Answer(status=200, headers=(), body=b"")

    def telling(self, seconds: float = 0.0) -> Rewrite:
        """The real rewrite, except that the store hears of every task that begins, and that it begins late. A nested
        function, so that it travels to Spark's workers by value."""
        address = f"{self.s3.uri}{_BEGIN}"

        def rewrite(task: RewriteTask, context: RewriteContext, attempt: str) -> TaskResult:
            import time
            import urllib.request

            from iceberg_compaction.execute.worker import execute_task

            time.sleep(seconds)
            with urllib.request.urlopen(f"{address}{task.id}", timeout=30):
                return execute_task.rewrite(task, context, attempt)

        return rewrite


@contextlib.contextmanager
def vending(server: S3Server, *, seconds: float = 3600.0) -> Iterator[Vending]:
    """A catalog whose keys stop working after so many seconds."""
    made = Vending(server=server, seconds=seconds)
    with gates.gate(server.rest_uri, change=made.vend) as rest, gates.gate(server.s3_endpoint, check=made.admit) as s3:
        made.rest, made.s3 = rest, s3
        yield made


def _signature(request: gates.Request, scope: str, names: list[str], secret: str) -> str:
    """AWS signature, version 4."""
    path, _, query = request.path.partition("?")
    parts = sorted(part if "=" in part else f"{part}=" for part in query.split("&")) if query else []
    headers = "".join(f"{name}:{' '.join(request.headers.get(name, '').split())}\n" for name in names)
    payload = request.headers.get("x-amz-content-sha256", "")
    canonical = "\n".join((request.method, path, "&".join(parts), headers, ";".join(names), payload))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(("AWS4-HMAC-SHA256", request.headers["x-amz-date"], scope, digest))
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
