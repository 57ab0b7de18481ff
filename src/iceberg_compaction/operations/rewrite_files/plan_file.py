"""Plans as files: JSON for people and programs, compressed if the name ends in `.gz`. A checksum reveals damage and
edits. A plan holds no secret, so neither does its file."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from iceberg_compaction import errors
from iceberg_compaction.model import rewrite_plan, upkeep_plan, validation_words
from iceberg_compaction.operations.rewrite_files import plan_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.model.upkeep_plan import UpkeepPlan

_CHECKSUM, _HASH = "checksum", "sha256:"
_PACKED = b"\x1f\x8b"
_LEVEL = 6  # of gzip; 9 takes three times as long and saves a fiftieth
_SHOWN = 300  # characters of a reason
_PART = 10_000  # list items written at a time, so that a million paths are not held as text once more


def save_plan(plan: rewrite_plan.Plan | rewrite_plan.EmptyPlan | UpkeepPlan, path: str | Path) -> None:
    """Write the plan to a file; it is compressed if the name ends in `.gz`."""
    if not hasattr(plan, "format") or not isinstance(path, str | os.PathLike):
        raise errors.ConfigError("save_plan takes a plan and the name of a file.")
    target = Path(path)
    try:
        target.write_bytes(dump(plan, packed=target.suffix == ".gz"))
    except OSError as error:
        raise errors.ConfigError(f"The plan cannot be written to {target}: {error.strerror}.") from error


def load_plan(path: str | Path) -> rewrite_plan.Plan | rewrite_plan.EmptyPlan:
    """Read a plan that `save_plan` or `iceberg-compact plan --out` wrote, exactly as it was made."""
    return plan_of(read_content(path), name=str(path))


def read_content(path: str | Path) -> dict[str, Any]:
    """The fields of a plan of any kind. ConfigError: the file is no plan, damaged or edited."""
    if not isinstance(path, str | os.PathLike):
        raise errors.ConfigError(f"The name of a plan's file is needed, not a value of type {type(path).__name__}.")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise errors.ConfigError(f"The plan {path} cannot be read: {error.strerror}.") from error
    return _checked(data, str(path))


def dump(plan: rewrite_plan.Plan | rewrite_plan.EmptyPlan | UpkeepPlan, *, packed: bool = False) -> bytes:
    """The plan as the bytes of a file."""
    content = plan.model_dump(mode="json", by_alias=True)
    content = {"format": content.pop("format"), _CHECKSUM: _checksum(content | {"format": plan.format}), **content}
    parts = [part.encode() for part in _readable(content)]
    if not packed:
        return b"".join(parts)
    packer = zlib.compressobj(_LEVEL, wbits=zlib.MAX_WBITS | 16)  # gzip, and no time in it: equal plans, equal files
    return b"".join([*map(packer.compress, parts), packer.flush()])


def load(data: bytes, *, name: str = "the file") -> rewrite_plan.Plan | rewrite_plan.EmptyPlan:
    """Read a plan from the bytes of a file, compressed or not. ConfigError: they are no plan, of another format,
    damaged or edited."""
    return plan_of(_checked(data, name), name=name)


def plan_of(content: dict[str, Any], *, name: str) -> rewrite_plan.Plan | rewrite_plan.EmptyPlan:
    """The plan of a rewrite that has these fields. ConfigError: it is of another kind or format, or not valid."""
    if content.get("format") != rewrite_plan.FORMAT:
        raise errors.ConfigError(
            f"The plan in {name} has format {content.get('format')}, but this version reads {rewrite_plan.FORMAT}; "
            "make a new plan."
        )
    try:
        plan = rewrite_plan.parse(content)
        plan_check.check(plan)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise _invalid(name, f"{field}: {first['msg']}" if field else first["msg"]) from error
    except ValueError as error:
        raise _invalid(name, str(error)) from error
    return plan


def _checked(data: bytes, name: str) -> dict[str, Any]:
    """The fields in the bytes of a file. A plan of another format has its checksum elsewhere, perhaps."""
    content = _parse(data, name)
    del data
    given = content.pop(_CHECKSUM)
    known = content.get("format") in (rewrite_plan.FORMAT, upkeep_plan.FORMAT)
    if known and given != _checksum(content):
        raise errors.ConfigError(
            f"The plan in {name} was changed or damaged after it was written: its checksum differs; make a new plan."
        )
    return content


def _invalid(name: str, reason: str) -> errors.ConfigError:
    text = validation_words.text(reason)
    return errors.ConfigError(f"The plan in {name} is not valid: {text[:_SHOWN]}; make a new plan.")


def _parse(data: bytes, name: str) -> dict[str, Any]:
    try:
        data = gzip.decompress(data) if data.startswith(_PACKED) else data
        content = json.loads(data)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise errors.ConfigError(f"{name} is not a plan, or only a part of one: it is not JSON.") from error
    if b"\\ud" in data and not _is_text(content):
        raise errors.ConfigError(f"{name} is not a plan, or a damaged one: it has half of a character.")
    if not isinstance(content, dict) or not {"format", _CHECKSUM} <= content.keys():
        raise errors.ConfigError(f"{name} is not a plan: `iceberg-compact plan --out FILE` writes one.")
    return content


def _is_text(content: Any) -> bool:
    """Whether all characters are whole: an escape of JSON can be half of a character, which UTF-8 cannot hold."""
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _checksum(content: dict[str, Any]) -> str:
    """Hash the plan as JSON with sorted names and no white space, so that a formatter does not change the checksum."""
    digest = hashlib.sha256()
    for part in _canonical(content):
        digest.update(part.encode())
    return _HASH + digest.hexdigest()


def _canonical(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for number, key in enumerate(sorted(value)):
            yield f"{',' if number else '{'}{json.dumps(key)}:"
            yield from _canonical(value[key])
        yield "}" if value else "{}"
    elif isinstance(value, list):
        yield "["
        for start in range(0, len(value), _PART):
            text = json.dumps(value[start : start + _PART], sort_keys=True, separators=(",", ":"))
            yield f"{',' if start else ''}{text[1:-1]}"
        yield "]"
    else:
        yield json.dumps(value)


def _readable(content: dict[str, Any]) -> Iterator[str]:
    """JSON with one line for each figure, group and file."""
    for number, (key, value) in enumerate(content.items()):
        yield f"{',' if number else '{'}\n  {json.dumps(key)}: "
        if key == "files":
            yield from _columns(value)
        else:
            yield from _lines(value, " " * 4) if isinstance(value, list) else (json.dumps(value),)
    yield "\n}\n"


def _columns(columns: dict[str, list[Any]]) -> Iterator[str]:
    for number, (name, values) in enumerate(columns.items()):
        yield f"{',' if number else '{'}\n    {json.dumps(name)}: "
        yield from _lines(values, " " * 6)
    yield "\n  }"


def _lines(values: list[Any], indent: str) -> Iterator[str]:
    separator = f",\n{indent}"
    yield "["
    for start in range(0, len(values), _PART):
        part = values[start : start + _PART]
        if isinstance(part[0], dict):
            text = separator.join(map(json.dumps, part))
        else:
            text = json.dumps(part, separators=(separator, ":"))[1:-1]  # thrice as fast as one by one
        yield f"{',' if start else ''}\n{indent}{text}"
    yield f"\n{indent[2:]}]" if values else "]"
