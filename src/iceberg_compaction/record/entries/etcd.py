"""Entries in an etcd server, through its HTTP gateway. Every call is one of etcd's transactions, so that it is of one
moment. Versions are etcd's revisions, counted on from the time at which the store was created."""

from __future__ import annotations

import base64
import os
import time
from typing import TYPE_CHECKING, Any
from urllib import parse

import etcd3gw
import requests
from etcd3gw import exceptions

from iceberg_compaction.record.entries import fork_lock
from iceberg_compaction.record.entries.door import StoreEntry
from iceberg_compaction.record.entries.server_url import ServerUrl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ANSWER_S = 30
_PORT = 2379
_PAGE = 200  # entries of one answer, where there is no limit
_TROUBLE = (exceptions.Etcd3Exception, requests.RequestException, OSError)


class EtcdEntries:
    """See `door.StoreEntries`. A change is never sent twice by the client."""

    def __init__(self, url: str) -> None:
        self._url = ServerUrl(url)
        self._epoch_key = f"{self._url.prefix}/epoch"
        self._prefix = f"{self._url.prefix}/entries/"
        self._client: etcd3gw.Etcd3Client | None = None
        self._process = os.getpid()
        self._mutex = fork_lock.ForkLock()

    def __str__(self) -> str:
        return str(self._url)

    def get(self, keys: Sequence[str]) -> dict[str, StoreEntry]:
        entries: dict[str, StoreEntry] = {}
        for at in range(0, len(keys), 100):
            ranges = [{"key": self._encoded(key)} for key in keys[at : at + 100]]
            with self._url.translated("read", *_TROUBLE):
                entries |= {entry.key: entry for entry in self._ranges(ranges)}
        return entries

    def scan(
        self, prefix: str, *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[StoreEntry]:
        entries: list[StoreEntry] = []
        while limit is None or len(entries) < limit:
            at_once = _PAGE if limit is None else limit - len(entries)
            with self._url.translated("read", *_TROUBLE):
                page = list(self._ranges([self._range(prefix, after, reverse=reverse) | {"limit": at_once}]))
            entries += page
            if len(page) < at_once:
                break
            after = page[-1].key
        return entries

    def change(self, values: Mapping[str, str | None], expected: Mapping[str, int | None] | None = None) -> bool:
        operations = [self._operation(key, value) for key, value in values.items()]
        with self._url.translated("written", *_TROUBLE):
            epoch = self._epoch()
            while True:
                compared = [self._comparison(key, version, epoch) for key, version in (expected or {}).items()]
                unchanged = {
                    "key": _base64(self._epoch_key),
                    "target": "VALUE",
                    "result": "EQUAL",
                    "value": _base64(str(epoch)),
                }
                otherwise = [{"request_range": {"key": _base64(self._epoch_key)}}]
                answer = self._send({"compare": [unchanged, *compared], "success": operations, "failure": otherwise})
                if answer.get("succeeded"):
                    return True
                if self._epoch_of(answer) == epoch:
                    return False
                epoch = self._epoch()  # the store was lost meanwhile

    def close(self) -> None:
        with self._mutex:
            client, self._client = self._client, None
            if client is not None and self._process == os.getpid():
                client.session.close()

    def _ranges(self, ranges: list[dict[str, Any]]) -> Iterator[StoreEntry]:
        operations = [{"request_range": keys} for keys in [{"key": _base64(self._epoch_key)}, *ranges]]
        answer = self._send({"success": operations})
        epoch = self._epoch_of(answer) or 0
        for response in answer["responses"][1:]:
            for kv in response["response_range"].get("kvs", []):
                key = base64.b64decode(kv["key"]).decode().removeprefix(self._prefix)
                value = base64.b64decode(kv.get("value", "")).decode(errors="replace")
                yield StoreEntry(key, value, epoch + int(kv["mod_revision"]))

    def _range(self, prefix: str, after: str, *, reverse: bool) -> dict[str, Any]:
        first, last = self._prefix + prefix, _after_prefix(self._prefix + prefix)
        if after and reverse:
            last = min(last, self._prefix + after)
        elif after:
            first = max(first, self._prefix + after + "\0")
        if first >= last:  # etcd takes a range without an end for all keys
            first, last = self._epoch_key, self._epoch_key + "\0"
            return {"key": _base64(first + "!"), "range_end": _base64(last + "!")}
        order = {"sort_order": "DESCEND", "sort_target": "KEY"} if reverse else {}
        return {"key": _base64(first), "range_end": _base64(last), **order}

    def _epoch(self) -> int:
        """The time at which the store was created, which it is now if nobody did."""
        key = _base64(self._epoch_key)
        absent = {"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
        new = str(time.time_ns() // 1000)
        put = {"request_put": {"key": key, "value": _base64(new)}}
        answer = self._send({"compare": [absent], "success": [put], "failure": [{"request_range": {"key": key}}]})
        return int(new) if answer.get("succeeded") else self._epoch_of(answer) or int(new)

    def _epoch_of(self, answer: dict[str, Any]) -> int | None:
        kvs = answer["responses"][0]["response_range"].get("kvs", [])
        return int(base64.b64decode(kvs[0]["value"])) if kvs else None

    def _comparison(self, key: str, version: int | None, epoch: int) -> dict[str, Any]:
        revision = "0" if version is None else str(version - epoch)
        return {"key": self._encoded(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision}

    def _operation(self, key: str, value: str | None) -> dict[str, Any]:
        if value is None:
            return {"request_delete_range": {"key": self._encoded(key)}}
        return {"request_put": {"key": self._encoded(key), "value": _base64(value)}}

    def _encoded(self, key: str) -> str:
        return _base64(self._prefix + key)

    def _send(self, transaction: dict[str, Any]) -> dict[str, Any]:
        client = self._connect()
        try:
            answer: dict[str, Any] = client.post(client.get_url("/kv/txn"), json=transaction)
        except exceptions.Etcd3Exception as error:
            if "invalid auth token" not in f"{error} {error.detail_text}":
                raise
            self.close()  # tokens live for minutes
            client = self._connect()
            answer = client.post(client.get_url("/kv/txn"), json=transaction)
        return answer

    def _connect(self) -> etcd3gw.Etcd3Client:
        with self._mutex:
            if self._client is None or self._process != os.getpid():
                self._client, self._process = self._new_client(), os.getpid()
            return self._client

    def _new_client(self) -> etcd3gw.Etcd3Client:
        parts, options = self._url.parts, self._url.options
        client = etcd3gw.client(
            host=parts.hostname or "localhost",
            port=parts.port or _PORT,
            protocol="https" if parts.scheme == "etcds" else "http",
            ca_cert=options.get("ca"),
            cert_cert=options.get("cert"),
            cert_key=options.get("key"),
            timeout=_ANSWER_S,
            api_path="/v3/",
        )
        if parts.username:
            login = {"name": parse.unquote(parts.username), "password": parse.unquote(parts.password or "")}
            token = client.post(client.get_url("/auth/authenticate"), json=login)["token"]
            client.session.headers["Authorization"] = token
        return client


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _after_prefix(prefix: str) -> str:
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
