"""The names of all values that a policy has, taken from the classes themselves: a new field is known at once, with its
unit. Names are printed as they stand here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, BeforeValidator

from iceberg_compaction.model import byte_size, policies, table_policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic.fields import FieldInfo

TRIGGERS = "triggers."  # the beginning of the names of thresholds


class KeyKind(Enum):
    """How a value is written."""

    PLAIN = "plain"
    SIZE = "size"  # bytes, with or without a unit
    DURATION = "duration"  # seconds, with or without a unit


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyKey:
    """One value of a policy: the name that is printed, and the way to its field."""

    name: str
    path: tuple[str, ...]
    kind: KeyKind = KeyKind.PLAIN
    choices: tuple[str, ...] = ()  # of an enum
    is_text: bool = False
    description: str = ""
    default: Any = None


def all_keys() -> dict[str, PolicyKey]:
    """Every value by its printed name. Those about the rewrite of files come without a prefix."""
    keys = {key.name: key for key in _fields(policies.Policy, ("rewrite",), "")}
    for key in _fields(table_policy.TablePolicy, (), ""):
        keys.setdefault(key.name, key)
    return keys


def _fields(model: type[BaseModel], path: tuple[str, ...], prefix: str) -> Iterator[PolicyKey]:
    for name, field in model.model_fields.items():
        way, printed = (*path, name), prefix + name.replace("_", "-")
        part = field.annotation
        if isinstance(part, type) and issubclass(part, policies.Policy):
            continue
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield from _fields(part, way, f"{printed}.")
            continue
        yield PolicyKey(
            name=printed,
            path=way,
            kind=_kind(name, field),
            choices=tuple(_choices(field.annotation)),
            is_text=str in _parts([field.annotation]),
            description=field.description or "",
            default=field.get_default(call_default_factory=False),
        )


def _kind(name: str, field: FieldInfo) -> KeyKind:
    validators = {
        part.func for part in _parts([field.annotation, *field.metadata]) if isinstance(part, BeforeValidator)
    }
    if byte_size.validate in validators:
        return KeyKind.SIZE
    if table_policy.parse_duration in validators or name.endswith(("_seconds", "_interval")):
        return KeyKind.DURATION
    return KeyKind.PLAIN


def _parts(types: list[Any]) -> Iterator[Any]:
    for each in types:
        yield each
        yield from _parts(list(get_args(each)))


def _choices(annotation: Any) -> Iterator[str]:
    for part in _parts([annotation]):
        if isinstance(part, type) and issubclass(part, Enum):
            yield from (str(member.value) for member in part)


def nested(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Values by their way as the mappings that the classes take."""
    whole: dict[str, Any] = {}
    for path, value in values.items():
        part = whole
        for name in path[:-1]:
            part = part.setdefault(name, {})
        part[path[-1]] = value
    return whole
