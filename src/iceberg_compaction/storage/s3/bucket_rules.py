"""The lifecycle rules of buckets, asked for once in a command. Folders of tables come in, rules go out. Whoever may not
ask, or asks another store than S3, gets none: nothing depends on them but a warning."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from iceberg_compaction.storage import exact_paths, vended_credentials
from iceberg_compaction.storage.s3 import bucket_requests, object_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.io import FileIO

    from iceberg_compaction.model.bucket_lifecycle import LifecycleRule

_log = logging.getLogger(__name__)


class BucketRules:
    """The rules of all buckets that a command has met. Threads may share it."""

    def __init__(self) -> None:
        self._rules: dict[str, tuple[LifecycleRule, ...]] = {}
        self._lock = threading.Lock()

    def of(self, io: FileIO, folders: Iterable[str]) -> dict[str, tuple[LifecycleRule, ...]]:
        """The rules of the buckets of these folders, by the names of the buckets."""
        by_bucket = {}
        for folder in folders:
            name = exact_paths.split(folder)[1]
            by_bucket[name] = self._of(io, folder, name)
        return by_bucket

    def _of(self, io: FileIO, folder: str, name: str) -> tuple[LifecycleRule, ...]:
        current = io.current if isinstance(io, vended_credentials.LastingIO) else io
        bucket = object_files.bucket_of(exact_paths.exact(current), folder.rstrip("/"))
        if bucket is None:
            return ()
        with self._lock:
            if bucket.url not in self._rules:
                try:
                    self._rules[bucket.url] = tuple(bucket_requests.lifecycle(bucket))
                except OSError as error:
                    _log.info("The lifecycle rules of the bucket %s are not known: %s", name, error)
                    self._rules[bucket.url] = ()
            return self._rules[bucket.url]
