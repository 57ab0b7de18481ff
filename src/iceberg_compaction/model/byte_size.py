"""Byte sizes as people write them. `1GB`, `512MiB`, `512Mi`, `1.5 GB` and plain integers come in, bytes go out."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from iceberg_compaction import errors

_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40, "pi": 2**50}
_FACTORS = _DECIMAL | _BINARY
LARGEST = 2**63 - 1  # bytes; Iceberg's settings are longs
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgtp]?i?)b?\s*", re.IGNORECASE)


def parse_size(value: object) -> int:
    """Bytes of a size: `1GB` is 10⁹, `1GiB` and `1Gi` are 2³⁰, a bare number is bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise errors.ConfigError(f"A size cannot be negative, got {_shown(value)}.")
        return _checked(value, value)
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or (factor := _FACTORS.get(match[2].lower())) is None:
        raise errors.ConfigError(f"{value!r} is not a size; write it like 512MB, 1GiB or 536870912.")
    whole, _, part = match[1].partition(".")
    if len(whole.lstrip("0")) > len(str(LARGEST)):  # beyond any number that is worth reading
        return _checked(LARGEST + 1, value)
    return _checked(round(float(match[1]) * factor) if part else int(whole) * factor, value)


def _checked(count: int, given: object) -> int:
    if count > LARGEST:
        raise errors.ConfigError(f"The size {_shown(given)} is too large; it is {LARGEST} bytes at most.")
    return count


def _shown(value: object) -> str:
    """What was given, short enough for a sentence."""
    if isinstance(value, int) and abs(value) >= 2**128:
        return f"{'-' if value < 0 else ''}2^{abs(value).bit_length() - 1}"
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def format_size(count: float) -> str:
    """A byte count in the unit a person would choose: 1.4 GiB, 312 KiB, 17 B."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(count) < 1024 or unit == "PiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("unreachable")


def validate(value: object) -> int:
    """The same for a field of a value: a ValueError that pydantic turns into words."""
    try:
        return parse_size(value)
    except errors.ConfigError as error:
        raise ValueError(str(error)) from None


ByteSize = Annotated[int, BeforeValidator(validate), Field(ge=0)]
