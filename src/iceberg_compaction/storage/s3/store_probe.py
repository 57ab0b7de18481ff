"""One more request to S3 after one that failed, because an answer to HEAD has no body, and the body says why. The
FileIO's properties and the object come in, S3's own code for the fault goes out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import urllib3
from pyarrow import fs
from pyiceberg.io.pyarrow import PyArrowFileIO

from iceberg_compaction.storage import request_counts
from iceberg_compaction.storage.s3 import plain_requests

if TYPE_CHECKING:
    from collections.abc import Mapping

_CODE = re.compile(rb"<Code>(\w+)</Code>")
_REGION = re.compile(rb"<Region>([\w-]+)</Region>|expecting '([\w-]+)'")
_ARROW_CODE = re.compile(r"ExceptionName: (\w+)|AWS Error (?!UNKNOWN)(\w+)")  # the first for codes unknown to Arrow
_ARROW_REGION = re.compile(r"expecting '([\w-]+)'|in the region '([\w-]+)'|region ([a-z]{2}(?:-[a-z]+)+-\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason of S3. Codes are in lower case and without underscores, since clients spell them in two ways."""

    code: str  # empty: the object is there and may be read
    endpoint: str
    signed_for: str
    region: str = ""  # the bucket's, where the answer says it
    keys: bool = True  # the client has been given keys of its own
    said: str = ""  # words of a client that reached nobody


def code_in(text: str) -> str:
    """The code in an error of Arrow's client; empty: there is none that says anything."""
    match = _ARROW_CODE.search(text)
    return "" if match is None else (match[1] or match[2]).replace("_", "").lower()


def ask(properties: Mapping[str, Any], bucket: str, key: str) -> Refusal:
    """The answer of S3 to a request for one byte of the object."""
    file_system = PyArrowFileIO(dict(properties)).fs_by_scheme("s3", bucket)
    options = file_system.__reduce__()[1][0]
    way = plain_requests.bucket_of(options, bucket, request_counts.RequestCount())
    endpoint = str(options.get("endpoint_override") or "")
    signed_for = str(options.get("region") or "us-east-1")
    if way is None:
        return _ask_arrow(file_system, f"{bucket}/{key}", endpoint, signed_for)
    try:
        answer = way.once(key)
    except urllib3.exceptions.HTTPError as error:
        return Refusal(code="network", endpoint=endpoint, signed_for=signed_for, said=f"{type(error).__name__} {error}")
    code, region = _CODE.search(answer.body), _REGION.search(answer.body)
    fits = answer.status in (200, 206, 416)
    named = answer.headers.get("x-amz-bucket-region") or (region and (region[1] or region[2]).decode()) or ""
    said = code[1].decode().lower() if code else f"http{answer.status}"
    return Refusal(code="" if fits else said, endpoint=endpoint, signed_for=signed_for, region=named)


def _ask_arrow(file_system: fs.FileSystem, path: str, endpoint: str, signed_for: str) -> Refusal:
    """The same by Arrow's client, which alone knows how to find the keys: an answer to LIST has a body. Below an
    object there is nothing to list."""
    try:
        file_system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    except OSError as error:
        text = str(error)
        region = _ARROW_REGION.search(text)
        return Refusal(
            code=code_in(text) or "unknown",
            endpoint=endpoint,
            signed_for=signed_for,
            region=next(filter(None, region.groups()), "") if region else "",
            keys=False,
            said=text,
        )
    return Refusal(code="", endpoint=endpoint, signed_for=signed_for, keys=False)
