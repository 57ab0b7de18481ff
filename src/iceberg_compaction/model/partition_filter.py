"""The option `partition`: `field=value`, where the value may have wildcards. A text comes in, a filter goes out that
tells which partition tuples match. A file that is in a partition without that field matches nothing."""

from __future__ import annotations

import difflib
import fnmatch
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NULL = "null"  # how a null is written


def parse(text: str) -> tuple[str, str]:
    """The field and the pattern of a filter. ValueError: it has none."""
    name, separator, pattern = text.partition("=")
    name, pattern = name.strip(), pattern.strip()
    if not separator or not name or not pattern:
        raise ValueError(f"{text!r} is no partition filter; write it as field=value, such as day=2026-01-*")
    return name, pattern


def matching(filters: Sequence[str], tuples: Iterable[str]) -> list[bool]:
    """Whether each partition, in canonical JSON, matches: for every field that is named, one of its patterns.
    ValueError: no partition has a field of that name."""
    patterns: dict[str, list[str]] = {}
    for name, pattern in map(parse, filters):
        patterns.setdefault(name, []).append(pattern)
    records = [json.loads(each) for each in tuples]
    fields = {name for record in records for name in record}
    for name in patterns:
        if records and name not in fields:
            near = difflib.get_close_matches(name, fields, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(fields)) or 'none'}"
            raise ValueError(f"no file has a partition field {name!r} ({hint})")
    return [_matches(record, patterns) for record in records]


def _matches(record: Mapping[str, Any], patterns: Mapping[str, Sequence[str]]) -> bool:
    return all(
        name in record and any(fnmatch.fnmatchcase(_written(record[name]), pattern) for pattern in of_field)
        for name, of_field in patterns.items()
    )


def _written(value: Any) -> str:
    """A partition value as people write it in a filter."""
    if value is None:
        return NULL
    return value if isinstance(value, str) else json.dumps(value)
