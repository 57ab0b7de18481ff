"""Requests about many objects of a bucket, and copies inside the store: pages of objects, pages of uploads that nobody
has finished, and the end of such an upload. A bucket comes in; values go out, or an OSError in the words of S3."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.storage.s3 import plain_requests

LARGEST_COPY = 5 * 2**30  # bytes that one request copies
_NAMESPACE = re.compile(r"^\{[^}]*\}")
_CODE = re.compile(rb"<Code>(\w+)</Code>")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    key: str
    size: int
    modified_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPage:
    objects: tuple[StoredObject, ...]
    next_token: str | None  # None: it is the last page
    date: str | None  # the store's own time, as HTTP writes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An upload in parts that was begun and neither finished nor aborted; its parts cost money."""

    key: str
    upload_id: str
    begun_ms: int | None


def list_objects(bucket: plain_requests.Bucket, prefix: str, token: str | None) -> ObjectPage:
    """One page of the objects whose keys begin with the prefix."""
    query = {"list-type": "2", "prefix": prefix} | ({} if token is None else {"continuation-token": token})
    answer = bucket.ask("GET", "", query=query)
    root = _document(answer, "ListObjectsV2")
    objects = tuple(
        StoredObject(key=fields["Key"], size=int(fields["Size"]), modified_ms=_moment(fields.get("LastModified")))
        for fields in _elements(root, "Contents")
    )
    own = _fields(root)
    has_more = own.get("IsTruncated") == "true"
    following = own.get("NextContinuationToken")
    if has_more and not following:
        raise OSError(f"The store says that more objects than it lists begin with {prefix}, but not how to go on")
    return ObjectPage(objects=objects, next_token=following if has_more else None, date=answer.headers.get("Date"))


def list_uploads(bucket: plain_requests.Bucket, prefix: str) -> Iterator[Upload]:
    """The uploads whose keys begin with the prefix and that nobody has finished."""
    markers: dict[str, str] = {}
    while True:
        answer = bucket.ask("GET", "", query={"uploads": "", "prefix": prefix, **markers})
        root = _document(answer, "ListMultipartUploads")
        for fields in _elements(root, "Upload"):
            if fields["Key"].startswith(prefix):
                begun_ms = _moment(fields.get("Initiated"))
                yield Upload(key=fields["Key"], upload_id=fields["UploadId"], begun_ms=begun_ms)
        own = _fields(root)
        following = {"key-marker": own.get("NextKeyMarker", ""), "upload-id-marker": own.get("NextUploadIdMarker", "")}
        if own.get("IsTruncated") != "true" or following == markers:
            return
        markers = following


def abort_upload(bucket: plain_requests.Bucket, upload: Upload) -> None:
    """Remove the parts of an upload. One that is gone is fine."""
    answer = bucket.ask("DELETE", upload.key, query={"uploadId": upload.upload_id})
    if answer.status not in (200, 204, 404):
        raise _refusal(answer, "AbortMultipartUpload")


def copy_object(bucket: plain_requests.Bucket, name: str, source: str, target: str) -> None:
    """Copy an object of the bucket `name` to another key, inside the store. FileExistsError: the key is taken."""
    headers = {"x-amz-copy-source": quote(f"/{name}/{source}", safe="/-_.~"), "if-none-match": "*"}
    answer = bucket.ask("PUT", target, headers=headers)
    if answer.status == 412:
        raise FileExistsError(f"Cannot create file, already exists: {target}")
    if answer.status == 404:
        raise FileNotFoundError(f"Cannot copy file, does not exist: {source}")
    if answer.status != 200 or _CODE.search(answer.body):  # S3 may notice a failure after it has said 200
        raise _refusal(answer, "CopyObject")


def _document(answer: plain_requests.Answer, act: str) -> ElementTree.Element:
    if answer.status == 404 and b"NoSuchBucket" not in answer.body:
        raise FileNotFoundError(f"{act} says that there is nothing")
    if answer.status != 200:
        raise _refusal(answer, act)
    try:
        return ElementTree.fromstring(answer.body)
    except ElementTree.ParseError as error:
        raise OSError(f"The answer to {act} is no XML: {error}") from error


def _refusal(answer: plain_requests.Answer, act: str) -> OSError:
    code = _CODE.search(answer.body)
    name = code[1].decode() if code else "UNKNOWN"
    return OSError(f"AWS Error {name} (HTTP status {answer.status}) during {act} operation")


def _elements(root: ElementTree.Element, name: str) -> Iterator[dict[str, str]]:
    return (_fields(element) for element in root if _NAMESPACE.sub("", element.tag) == name)


def _fields(element: ElementTree.Element) -> dict[str, str]:
    return {_NAMESPACE.sub("", child.tag): child.text or "" for child in element}


def _moment(text: str | None) -> int | None:
    try:
        return None if not text else int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
    except ValueError:
        return None
