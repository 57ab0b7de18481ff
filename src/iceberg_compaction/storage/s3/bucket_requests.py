"""Requests about many objects of a bucket, and copies inside the store: pages of objects, pages of uploads that nobody
has finished, the end of such an upload, and the rules of the bucket. A bucket comes in; values go out, or an OSError in
the words of S3."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.etree import ElementTree

from iceberg_compaction.model.bucket_lifecycle import LifecycleDeed, LifecycleRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.storage.s3 import plain_requests

LARGEST_COPY = 5 * 2**30  # bytes that one request copies
_NAMESPACE = re.compile(r"^\{[^}]*\}")
_CODE = re.compile(rb"<Code>(\w+)</Code>")
_DEEDS = ("Expiration", "Transition", "AbortIncompleteMultipartUpload")  # what rules do to objects that are in use
_LIMITS = ("Tag", "ObjectSizeGreaterThan", "ObjectSizeLessThan")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    key: str
    size: int
    modified_ms: int | None
    storage_class: str  # empty: the store has none


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectsToList:
    """Which objects of a bucket a page has."""

    prefix: str  # of their keys
    deep: bool = True  # also those with another slash behind the prefix; else these are folders of the page
    token: str | None = None  # of the page before


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPage:
    objects: tuple[StoredObject, ...]
    folders: tuple[str, ...]  # prefixes that end in a slash
    next_token: str | None  # None: it is the last page
    date: str | None  # the store's own time, as HTTP writes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An upload in parts that was begun and neither finished nor aborted; its parts cost money."""

    key: str
    upload_id: str
    begun_ms: int | None


def list_objects(bucket: plain_requests.Bucket, wanted: ObjectsToList) -> ObjectPage:
    """One page of the objects whose keys begin with the prefix."""
    query = {"list-type": "2", "prefix": wanted.prefix} | ({} if wanted.deep else {"delimiter": "/"})
    query |= {} if wanted.token is None else {"continuation-token": wanted.token}
    answer = bucket.ask("GET", "", query=query)
    root = _document(answer, "ListObjectsV2")
    objects = tuple(
        StoredObject(
            key=fields["Key"],
            size=int(fields["Size"]),
            modified_ms=_moment(fields.get("LastModified")),
            storage_class=fields.get("StorageClass", ""),
        )
        for fields in _elements(root, "Contents")
    )
    own = _fields(root)
    has_more = own.get("IsTruncated") == "true"
    following = own.get("NextContinuationToken")
    if has_more and not following:
        raise OSError(
            f"The store says that more objects than it lists begin with {wanted.prefix}, but not how to go on"
        )
    return ObjectPage(
        objects=objects,
        folders=tuple(fields["Prefix"] for fields in _elements(root, "CommonPrefixes")),
        next_token=following if has_more else None,
        date=answer.headers.get("Date"),
    )


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


def lifecycle(bucket: plain_requests.Bucket) -> list[LifecycleRule]:
    """The rules by which the bucket moves and removes objects by itself, as far as they are in force. OSError: nobody
    may ask, or the store has no such thing."""
    answer = bucket.ask("GET", "", query={"lifecycle": ""})
    if answer.status == 404 and b"NoSuchBucket" not in answer.body:
        return []
    rules = [each for each in _document(answer, "GetBucketLifecycleConfiguration") if _name(each) == "Rule"]
    return [_rule(each) for each in rules if _fields(each).get("Status") == "Enabled"]


def _rule(element: ElementTree.Element) -> LifecycleRule:
    filters = [each for child in element if _name(child) in ("Filter", "Prefix") for each in child.iter()]
    prefixes = [each.text or "" for each in filters if _name(each) == "Prefix"]
    deeds = ((_name(child), _fields(child)) for child in element if _name(child) in _DEEDS)
    return LifecycleRule(
        name=_fields(element).get("ID", ""),
        prefix=prefixes[0] if prefixes else "",
        limited=any(_name(each) in _LIMITS for each in filters),
        deeds=tuple(
            LifecycleDeed(name=name, when=_when(fields), to=fields.get("StorageClass", ""))
            for name, fields in deeds
            if "ExpiredObjectDeleteMarker" not in fields or _when(fields)  # marks of objects that are gone
        ),
    )


def _when(fields: dict[str, str]) -> str:
    days = fields.get("Days") or fields.get("DaysAfterInitiation")
    return f"{days} days" if days else fields.get("Date", "")[:10]


def _name(element: ElementTree.Element) -> str:
    return _NAMESPACE.sub("", element.tag)


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
