"""Byte sizes as people write them. `1GB`, `512MiB`, `512Mi`, `1.5 GB` and plain integers come in, bytes go out."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from iceberg_compaction import errors

_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40, "pi": 2**50}
_FACTORS = _DECIMAL | _BINARY
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgtp]?i?)b?\s*", re.IGNORECASE)


def parse_size(value: object) -> int:
    """Bytes of a size: `1GB` is 10⁹, `1GiB` and `1Gi` are 2³⁰, a bare number is bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise errors.ConfigError(f"A size cannot be negative, got {value}.")
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or (factor := _FACTORS.get(match[2].lower())) is None:
        raise errors.ConfigError(f"{value!r} is not a size; write it like 512MB, 1GiB or 536870912.")
    return round(float(match[1]) * factor) if "." in match[1] else int(match[1]) * factor


def format_size(count: float) -> str:
    """A byte count in the unit a person would choose: 1.4 GiB, 312 KiB, 17 B."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def _validate(value: object) -> int:
    try:
        return parse_size(value)
    except errors.ConfigError as error:
        raise ValueError(str(error)) from None


ByteSize = Annotated[int, BeforeValidator(_validate), Field(ge=0)]
