"""Results as JSON documents for programs: what `--output json` prints. They have the fields of the values, and three
differences. Ids of snapshots are there as text as well, because many readers of JSON round numbers of 19 digits.
Partitions are objects. Options have the names that flags have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.model.value import Value

_PARTITION, _AS_TEXT = "partition", "_str"
_STORED, _PRINTED = 1, 2  # versions of outcomes


def document(value: Value) -> dict[str, Any]:
    """The document of one result. A plan gets a `kind` too, so that a list of tables can be told apart by it."""
    plain: dict[str, Any] = _for_programs(value.model_dump(mode="json", by_alias=True))
    empty = getattr(value, "empty", None)
    return plain if empty is None or "kind" in plain else {"kind": "healthy" if empty else "planned"} | plain


def restore(content: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the value that a document was made of."""
    fields: dict[str, Any] = _from_programs(content)
    if content.get("kind") in ("planned", "healthy") and "pin" in content:
        del fields["kind"]
    return fields


def text(content: Any) -> str:
    """A document, or a list of them, as text."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _for_programs(content: Any) -> Any:
    if isinstance(content, list):
        return [_for_programs(item) for item in content]
    if not isinstance(content, dict):
        return content
    plain: dict[str, Any] = {}
    for name, item in _with_version(content, _STORED, _PRINTED).items():
        plain[name] = _object(item) if name == _PARTITION else _for_programs(item)
        if name.endswith(("snapshot_id", "snapshot_ids")):
            plain[name + _AS_TEXT] = _as_text(item)
    return plain


def _with_version(content: dict[str, Any], old: int, new: int) -> dict[str, Any]:
    """Outcomes have a version, and no other result has this number in a field of that name."""
    return content | {"version": new} if content.get("version") == old else content


def _object(item: Any) -> Any:
    """A partition as an object. Some are for people already, such as in `doctor`."""
    return json.loads(item) if isinstance(item, str) and item.startswith("{") else item


def _as_text(item: Any) -> Any:
    if isinstance(item, list):
        return [_as_text(each) for each in item]
    return None if item is None else str(item)


def _from_programs(content: Any) -> Any:
    if isinstance(content, list):
        return [_from_programs(item) for item in content]
    if not isinstance(content, dict):
        return content
    return {
        name: json.dumps(item, ensure_ascii=False, separators=(",", ":"))
        if name == _PARTITION and isinstance(item, dict)
        else _from_programs(item)
        for name, item in _with_version(content, _PRINTED, _STORED).items()
        if not name.endswith(("snapshot_id" + _AS_TEXT, "snapshot_ids" + _AS_TEXT))
    }
