"""A partition tuple for people: canonical JSON (model.table_view) comes in, `day=2026-01-31/region=eu` goes out."""

from __future__ import annotations

import json


def text(partition: str) -> str:
    """The tuple as in partition paths; empty for an unpartitioned table."""
    values: dict[str, object] = json.loads(partition)
    return "/".join(f"{name}={_value(value)}" for name, value in values.items())


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
