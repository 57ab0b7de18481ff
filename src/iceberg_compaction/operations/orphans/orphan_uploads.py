"""Uploads in parts that were begun and never finished: no listing shows them, and their parts cost money. Folders of a
table come in; those that are old enough go out, and can be aborted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from iceberg_compaction.model.orphan_plan import OpenUpload
from iceberg_compaction.storage import exact_paths, passing_faults, redact, store_trouble, translate, vended_credentials
from iceberg_compaction.storage.s3 import bucket_requests, object_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO

    from iceberg_compaction.storage.s3.plain_requests import Bucket

_log = logging.getLogger(__name__)


def find(io: FileIO, roots: Sequence[str], cutoff_ms: int) -> tuple[list[OpenUpload], list[str]]:
    """The uploads below these folders that were begun before, and the folders whose store cannot be asked."""
    uploads: list[OpenUpload] = []
    silent: list[str] = []
    for root in roots:
        bucket = _bucket(io, root)
        if bucket is None:
            silent.append(root)
            continue
        scheme, name, path = exact_paths.split(root)
        try:
            for each in bucket_requests.list_uploads(bucket, f"{path.strip('/')}/"):
                if each.begun_ms is not None and each.begun_ms < cutoff_ms:
                    location = f"{scheme}://{name}/{each.key}"
                    uploads.append(OpenUpload(path=location, upload_id=each.upload_id, begun_ms=each.begun_ms))
        except OSError as error:
            trouble = store_trouble.explain_io(error, root, io)
            raise trouble or translate.storage_error(error, root, redact.secrets_of(io.properties)) from error
    return uploads, silent


def abort(io: FileIO, upload: OpenUpload) -> bool:
    """Whether the upload is gone now."""
    bucket = _bucket(io, upload.path)
    if bucket is None:
        return False
    key = exact_paths.split(upload.path)[2].removeprefix("/")
    gone = bucket_requests.Upload(key=key, upload_id=upload.upload_id, begun_ms=upload.begun_ms)
    try:
        passing_faults.patiently(lambda: bucket_requests.abort_upload(bucket, gone))
    except OSError as error:
        _log.warning("The upload of %s could not be aborted: %s", upload.path, passing_faults.first_line(error))
        return False
    return True


def _bucket(io: FileIO, location: str) -> Bucket | None:
    current = io.current if isinstance(io, vended_credentials.LastingIO) else io
    return object_files.bucket_of(current, location)
