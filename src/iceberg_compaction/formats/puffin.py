"""Puffin files: blobs with a footer that says what they are. Blobs come in and the bytes of a file go out, or the other
way round. Blobs are stored as they are given; those of other files may be compressed, and are not opened here."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAGIC = b"PFA1"
_COMPRESSED = 1  # a flag: the payload of the footer is LZ4


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One blob, and what the footer says of it."""

    kind: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    data: bytes
    codec: str | None = None  # None: not compressed
    properties: Mapping[str, str] = field(default_factory=dict)


def write(blobs: Sequence[Blob], created_by: str) -> tuple[bytes, int]:
    """The bytes of a file, and how many of them are the footer's."""
    body, described = bytearray(_MAGIC), []
    for blob in blobs:
        entry: dict[str, Any] = {
            "type": blob.kind,
            "fields": list(blob.fields),
            "snapshot-id": blob.snapshot_id,
            "sequence-number": blob.sequence_number,
            "offset": len(body),
            "length": len(blob.data),
        }
        if blob.codec is not None:
            entry["compression-codec"] = blob.codec
        if blob.properties:
            entry["properties"] = dict(blob.properties)
        described.append(entry)
        body += blob.data
    payload = json.dumps({"blobs": described, "properties": {"created-by": created_by}}).encode()
    footer = _MAGIC + payload + struct.pack("<iI", len(payload), 0) + _MAGIC
    return bytes(body) + footer, len(footer)


def read(content: bytes, *, where: str) -> list[Blob]:
    """The blobs of a file. `where` names it in errors. MetadataError: it is damaged, or in a form that is not read."""
    try:
        length, flags = struct.unpack("<iI", content[-12:-4])
        start = len(content) - 12 - length
        if content[-4:] != _MAGIC or content[:4] != _MAGIC or start < 8 or content[start - 4 : start] != _MAGIC:
            raise ValueError
        if flags & _COMPRESSED:
            raise errors.UnsupportedError(f"{where} has a compressed footer, which cannot be read.")
        return [_blob(entry, content) for entry in json.loads(content[start:-12])["blobs"]]
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise errors.MetadataError(f"{where} is damaged or no Puffin file.") from error


def _blob(entry: dict[str, Any], content: bytes) -> Blob:
    start, end = entry["offset"], entry["offset"] + entry["length"]
    if not 4 <= start <= end <= len(content):
        raise ValueError
    return Blob(
        kind=entry["type"],
        fields=tuple(entry["fields"]),
        snapshot_id=entry["snapshot-id"],
        sequence_number=entry["sequence-number"],
        data=content[start:end],
        codec=entry.get("compression-codec"),
        properties=entry.get("properties") or {},
    )
