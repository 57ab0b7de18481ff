"""Plain requests for one bucket: GET of a range, HEAD, conditional PUT, DELETE of one object or many, and lists.
Arrow's client asks for a file's size before every read (HEAD), for a folder after every miss (LIST), and uploads small
files in three requests; these do not. Keys come from Arrow's file system, so that both use the same."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import ssl
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import urllib3

from iceberg_compaction.storage import passing_faults
from iceberg_compaction.storage.s3 import request_pace, signature

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iceberg_compaction.storage import request_counts

_PATIENCE = passing_faults.Patience(retries=4, first=0.4, longest=4.0, total=30.0)  # of one request
_CONNECT_SECONDS, _SILENT_SECONDS = 10.0, 30.0  # where the file system has no other timeouts
_BUSY = frozenset({429, 500, 502, 503, 504})
_KINDS = {"GET": "gets", "HEAD": "heads", "PUT": "puts", "DELETE": "deletes", "POST": "deletes"}
MOST_DELETED = 1000  # objects of one request
_SAFE = "/-_.~"  # in the path of a URL
_VALUE = "-_.~"  # in its query
_EMPTY = 416  # the range begins behind the end of the object
_BROKEN = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
_BLOCK = 2**18  # bytes of a body that must leave within one timeout
_MOST_CONNECTIONS = 256  # kept per store; beyond that urllib3 warns of each that it closes
_LABEL = re.compile(r"[a-z0-9-]+")  # buckets that may be part of a host's name
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    tries: int  # of the request; whether one before the last arrived is unknown

    @property
    def size(self) -> int | None:
        """Bytes of the whole object, if the answer says so."""
        if (total := self.headers.get("Content-Range", "").rpartition("/")[2]).isdigit():
            return int(total)
        return len(self.body) if self.status == 200 else None

    def covers(self, span: str | None) -> bool:
        """Whether the body is the range that was asked for, or the whole object. Some stores and proxies send other
        ranges, or none that they name."""
        if self.status != 206:
            return True
        match = _CONTENT_RANGE.fullmatch(self.headers.get("Content-Range", ""))
        if match is None or span is None:
            return False
        first, last, total = map(int, match.groups())
        start, _, end = span.partition("-")
        wanted = (int(start), min(int(end), total - 1)) if start else (max(0, total - int(end)), total - 1)
        return (first, last) == wanted and len(self.body) == last - first + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Where a bucket is reached, and with which keys."""

    url: str
    keys: signature.Keys
    count: request_counts.RequestCount
    timeout: urllib3.Timeout
    pace: request_pace.RequestPace | None = field(default=None, compare=False)

    def get(self, key: str, span: str | None = None) -> Answer:
        """The object, or the bytes of a range as HTTP writes it."""
        return self._send("GET", key, {} if span is None else {"range": f"bytes={span}"})

    def head(self, key: str) -> Answer:
        return self._send("HEAD", key, {})

    def put(self, key: str, body: bytes, *, overwrite: bool) -> Answer:
        """Stores an object whole. Status 412: the name is taken, and `overwrite` is not given. The store checks the
        bytes that arrive."""
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        headers = {"x-amz-checksum-sha256": digest} | ({} if overwrite else {"if-none-match": "*"})
        return self._send("PUT", key, headers, body)

    def delete(self, key: str) -> Answer:
        return self._send("DELETE", key, {})

    def ask(
        self, method: str, key: str, *, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """The answer to a request without a body; an empty key means the bucket itself."""
        pairs = sorted((quote(name, safe=_VALUE), quote(value, safe=_VALUE)) for name, value in (query or {}).items())
        return self._send(method, key, headers or {}, query="&".join(f"{name}={value}" for name, value in pairs))

    def delete_many(self, keys: Sequence[str]) -> dict[str, str] | None:
        """Deletes up to MOST_DELETED objects in one request. Returns the keys that stay, with the code of the store;
        one that is gone already does not stay. None: the store does not take such a request."""
        objects = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
        body = f"<Delete><Quiet>true</Quiet>{objects}</Delete>".encode()
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        headers = {"content-md5": digest, "content-type": "application/xml"}
        answer = self._send("POST", "", headers, body, query="delete=")
        return _kept(answer.body) if answer.status == 200 else None

    def once(self, key: str) -> Answer:
        """The first byte of the object, or the store's refusal, without another try. Raises urllib3's errors."""
        answer = self._send_once("GET", key, {"range": "bytes=0-0"}, b"", "")
        return Answer(status=answer.status, headers=answer.headers, body=answer.data, tries=1)

    def _send(self, method: str, key: str, headers: Mapping[str, str], body: bytes = b"", *, query: str = "") -> Answer:
        """The answer, after faults that pass; status 0: there is no way to the store from here. Raises OSError where
        faults do not pass."""
        tries, waits = 0, _PATIENCE.waits()
        while True:
            tries += 1
            try:
                answer = self._send_once(method, key, headers, body, query)
                if answer.status not in _BUSY:
                    body_of = b"" if answer.status == _EMPTY else answer.data
                    return Answer(status=answer.status, headers=answer.headers, body=body_of, tries=tries)
                fault = f"AWS Error UNKNOWN (HTTP status {answer.status})"
            except urllib3.exceptions.HTTPError as error:
                if _is_no_way(error):
                    return Answer(status=0, headers={}, body=b"", tries=tries)
                fault = f"AWS Error NETWORK_CONNECTION ({type(error).__name__})"
            if (wait := next(waits, None)) is None:
                raise OSError(f"{fault} during {method} of {key}, {tries} times")
            _PATIENCE.sleep(wait)

    def _send_once(self, method: str, key: str, headers: Mapping[str, str], body: bytes, query: str) -> Any:
        url = urlsplit(self.url)
        path = f"{url.path}/{quote(key, safe=_SAFE)}"
        unsigned = signature.Unsigned(
            method=method, host=url.netloc, path=path, headers=headers, body=body, query=query
        )
        signed = signature.sign(unsigned, self.keys, datetime.now(timezone.utc))
        content: io.BytesIO | None = None
        if method in ("PUT", "POST"):
            # As a file, which goes in blocks: bytes would all have to leave within the timeout of a connection.
            content, signed["content-length"] = io.BytesIO(body), str(len(body))
        kind = (
            "copies" if "x-amz-copy-source" in headers else "lists" if method == "GET" and not key else _KINDS[method]
        )
        if self.pace is not None:
            self.pace.wait()
        self.count.add(**{kind: 1})
        return _connections(os.getpid()).urlopen(
            method,
            f"{url.scheme}://{url.netloc}{path}{'?' if query else ''}{query}",
            body=content,
            headers=signed,
            retries=False,
            redirect=False,
            timeout=self.timeout,
            decode_content=False,
        )


def _kept(answer: bytes) -> dict[str, str] | None:
    """The objects that a store says it has not deleted. None: that is no answer to such a request."""
    try:
        root = ElementTree.fromstring(answer)
    except ElementTree.ParseError:
        return None
    if root.tag.rpartition("}")[2] != "DeleteResult":
        return None
    kept = {}
    for error in root:
        fields = {field.tag.rpartition("}")[2]: field.text or "" for field in error}
        if error.tag.rpartition("}")[2] == "Error" and fields.get("Code") != "NoSuchKey":
            kept[fields.get("Key", "")] = fields.get("Code", "")
    return kept


def _is_no_way(error: urllib3.exceptions.HTTPError) -> bool:
    """Whether the request could not be sent at all. A TLS connection that breaks may have carried it."""
    if isinstance(error, urllib3.exceptions.SSLError):
        return not (error.args and isinstance(error.args[0], _BROKEN))
    return isinstance(error, urllib3.exceptions.NameResolutionError)


@lru_cache(maxsize=1)
def _connections(process: int) -> urllib3.PoolManager:
    """Connections that all tasks of a process keep; a process that was forked has its own."""
    return urllib3.PoolManager(num_pools=8, maxsize=_MOST_CONNECTIONS, blocksize=_BLOCK, cert_reqs="CERT_REQUIRED")


def bucket_of(
    options: Mapping[str, Any],
    name: str,
    count: request_counts.RequestCount,
    pace: request_pace.RequestPace | None = None,
) -> Bucket | None:
    """The bucket as Arrow's S3FileSystem with these options reaches it; None: only Arrow's client can."""
    special = ("role_arn", "tls_ca_file_path", "anonymous")
    proxy = options.get("proxy_options") or {}
    if not options.get("access_key") or not options.get("secret_key") or any(map(options.get, special)):
        return None
    if (isinstance(proxy, str) and proxy) or (isinstance(proxy, dict) and proxy.get("host")):
        return None
    region, endpoint = str(options.get("region") or "us-east-1"), str(options.get("endpoint_override") or "")
    scheme = str(options.get("scheme") or "https")
    if endpoint:
        scheme, _, host = endpoint.rpartition("://") if "://" in endpoint else (scheme, "", endpoint)
    else:
        host = f"s3.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"
    host = host.rstrip("/")
    in_host = bool(options.get("force_virtual_addressing")) or (not endpoint and bool(_LABEL.fullmatch(name)))
    keys = signature.Keys(
        access_key=options["access_key"],
        secret_key=options["secret_key"],
        session_token=options.get("session_token") or "",
        region=region,
    )
    url = f"{scheme}://{name}.{host}" if in_host else f"{scheme}://{host}/{name}"
    return Bucket(url=url, keys=keys, count=count, timeout=_timeout(options), pace=pace)


def _timeout(options: Mapping[str, Any]) -> urllib3.Timeout:
    """Those of the file system; numbers that are not positive mean that it has none of its own."""
    connect, silent = options.get("connect_timeout") or 0.0, options.get("request_timeout") or 0.0
    return urllib3.Timeout(
        connect=connect if connect > 0 else _CONNECT_SECONDS, read=silent if silent > 0 else _SILENT_SECONDS
    )
