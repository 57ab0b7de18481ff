"""Places that share parsed manifests among machines: a folder of any storage, such as a bucket, or a Redis server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib import parse

from iceberg_compaction import errors

if TYPE_CHECKING:
    from iceberg_compaction.metadata.cache.shared_cache import SharedPlace

_KEEP_S = 30 * 24 * 3600  # an entry that no machine has replaced since
_MOST_REDIS = 64 << 20  # bytes of an entry
_ANSWER_S = 10


def open_place(url: str) -> SharedPlace:
    """The place at a URL. Nothing is read yet. ConfigError: it cannot be one."""
    if url.startswith(("redis://", "rediss://")):
        return _Redis(url)
    if "://" not in url:
        raise errors.ConfigError(f"ICEBERG_COMPACTION_CACHE_URL: {url!r} is no URL, such as s3://bucket/folder.")
    return _Bucket(url)


class _Bucket:
    """The options of the URL are properties of the FileIO, such as `s3.endpoint`."""

    def __init__(self, url: str) -> None:
        from iceberg_compaction.storage import file_io

        address, _, query = url.partition("?")
        self._url = address.rstrip("/")
        self._io: Any = file_io.open_io(dict(parse.parse_qsl(query)), self._url)

    def load(self, name: str) -> bytes | None:
        try:
            with self._io.new_input(self._path(name)).open() as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def store(self, name: str, content: bytes) -> None:
        with self._io.new_output(self._path(name)).create(overwrite=True) as file:
            file.write(content)

    def _path(self, name: str) -> str:
        return f"{self._url}/{name}.pack"  # a name that no client takes for compressed


class _Redis:
    def __init__(self, url: str) -> None:
        from iceberg_compaction.record.entries import server_url

        self._url = server_url.ServerUrl(url)
        try:
            import redis
        except ModuleNotFoundError as error:
            raise errors.SetupError(
                f"The shared cache {self._url} needs redis, which this Python does not have: "
                "pip install 'iceberg-compaction[redis]'."
            ) from error
        self._client: Any = redis.Redis.from_url(
            self._url.client_url, socket_timeout=_ANSWER_S, socket_connect_timeout=_ANSWER_S
        )

    def load(self, name: str) -> bytes | None:
        content: bytes | None = self._client.get(self._key(name))
        return content

    def store(self, name: str, content: bytes) -> None:
        if len(content) <= _MOST_REDIS:
            self._client.set(self._key(name), content, ex=_KEEP_S)

    def _key(self, name: str) -> str:
        return f"{self._url.prefix}:manifests:{name}"
