"""Entries in a Redis server: a sorted set with the keys in order, and a hash with their versions and values. Scripts
read and change them at one moment. The names of the three Redis keys have one hash tag, as clusters need it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

import redis
from redis import backoff, retry

from iceberg_compaction import errors
from iceberg_compaction.record.entries.door import StoreEntry
from iceberg_compaction.record.entries.server_url import ServerUrl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ANSWER_S, _CONNECT_S = 30, 10
_GET = """
local answer = {}
for at, key in ipairs(ARGV) do answer[at] = redis.call('HGET', KEYS[2], key) end
return answer
"""
# ARGV: whether it goes back, both ends of the range, the limit. Values that are gone are left out.
_SCAN = """
local keys
if ARGV[1] == '1' then keys = redis.call('ZREVRANGEBYLEX', KEYS[1], ARGV[3], ARGV[2], 'LIMIT', 0, ARGV[4])
else keys = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4]) end
local answer = {}
for _, key in ipairs(keys) do
  local value = redis.call('HGET', KEYS[2], key)
  if value then answer[#answer + 1] = key; answer[#answer + 1] = value end
end
return answer
"""
# ARGV: the first version of a new store; how many are expected, each with its version or ''; how many are removed, and
# these; the others with their values.
_CHANGE = """
local at = 2
local expected = tonumber(ARGV[at])
for _ = 1, expected do
  local value = redis.call('HGET', KEYS[2], ARGV[at + 1])
  local version = value and string.match(value, '^%d+') or ''
  if version ~= ARGV[at + 2] then return 0 end
  at = at + 2
end
at = at + 1
for _ = 1, tonumber(ARGV[at]) do
  at = at + 1
  redis.call('ZREM', KEYS[1], ARGV[at])
  redis.call('HDEL', KEYS[2], ARGV[at])
end
if ARGV[at + 1] then redis.call('SET', KEYS[3], ARGV[1], 'NX') end
while ARGV[at + 1] do
  local version = string.format('%.0f', redis.call('INCR', KEYS[3]))
  redis.call('ZADD', KEYS[1], 0, ARGV[at + 1])
  redis.call('HSET', KEYS[2], ARGV[at + 1], version .. ' ' .. ARGV[at + 2])
  at = at + 2
end
return 1
"""


class RedisEntries:
    """See `door.StoreEntries`. The client keeps connections and is safe for threads and forks. A change is never sent
    twice: it would find its own versions."""

    def __init__(self, url: str) -> None:
        self._url = ServerUrl(url)
        database = self._url.parts.path.strip("/")
        if database and not database.isdecimal():  # the client would take database 0 without a word
            raise errors.ConfigError(
                f"The run store {self._url} names the database {database!r}, but databases of Redis are numbers; "
                "choose one, such as redis://HOST/0."
            )
        self._names = [f"{{{self._url.prefix}}}:{name}" for name in ("keys", "values", "version")]
        with self._url.translated("used", ValueError, redis.RedisError):
            self._client = redis.Redis.from_url(
                self._url.client_url,
                socket_timeout=_ANSWER_S,
                socket_connect_timeout=_CONNECT_S,
                decode_responses=False,
                retry=retry.Retry(backoff.NoBackoff(), 0),
            )
        self._get, self._scan, self._change = (
            cast("Any", self._client.register_script(script)) for script in (_GET, _SCAN, _CHANGE)
        )

    def __str__(self) -> str:
        return str(self._url)

    def get(self, keys: Sequence[str]) -> dict[str, StoreEntry]:
        with self._url.translated("read", redis.RedisError, OSError):
            values = self._get(keys=self._names, args=list(keys)) if keys else []
        return {key: _entry(key, value) for key, value in zip(keys, values, strict=True) if value is not None}

    def scan(
        self, prefix: str, *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[StoreEntry]:
        first, last = f"[{prefix}" if prefix else "-", f"({_after_prefix(prefix)}" if prefix else "+"
        if after and reverse:
            last = f"({after}" if not prefix or after < _after_prefix(prefix) else last
        elif after and after >= prefix:
            first = f"({after}"
        args = ["1" if reverse else "0", first, last, -1 if limit is None else limit]
        with self._url.translated("read", redis.RedisError, OSError):
            answer = self._scan(keys=self._names, args=args)
        return [_entry(key.decode(), value) for key, value in zip(answer[::2], answer[1::2], strict=True)]

    def change(self, values: Mapping[str, str | None], expected: Mapping[str, int | None] | None = None) -> bool:
        args: list[str | int] = [time.time_ns() // 1000, len(expected or {})]
        for key, version in (expected or {}).items():
            args += [key, "" if version is None else version]
        removed = [key for key, value in values.items() if value is None]
        args += [len(removed), *removed]
        for key, value in values.items():
            if value is not None:
                args += [key, value]
        with self._url.translated("written", redis.RedisError, OSError):
            return bool(self._change(keys=self._names, args=args))

    def close(self) -> None:
        self._client.close()


def _after_prefix(prefix: str) -> str:
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _entry(key: str, value: bytes) -> StoreEntry:
    version, _, text = value.partition(b" ")
    return StoreEntry(key, text.decode(errors="replace"), int(version))
