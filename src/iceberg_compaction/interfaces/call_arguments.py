"""Checks the calls of programs against what the functions of the library say that they take: unknown names and values
of another type are told in one sentence, before they fail somewhere inside. Annotations come in as text, so that
nothing is imported for them; of what is not a plain type, the functions know more themselves."""

from __future__ import annotations

import difflib
import functools
import inspect
import numbers
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from iceberg_compaction import errors
from iceberg_compaction.model import validation_words

T = TypeVar("T")
_C = TypeVar("_C", bound=type)
_VARIADIC = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def _is_number(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


# A plain type in an annotation: how it is called, and whether a value is one.
_TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("text", lambda value: isinstance(value, str)),
    "int": ("a whole number", _is_number(numbers.Integral)),
    "float": ("a number", _is_number(numbers.Real)),
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "None": ("None", lambda value: value is None),
    "Path": ("a path", lambda value: isinstance(value, os.PathLike)),
    "Mapping": ("a mapping", lambda value: isinstance(value, Mapping)),
    "Sequence": ("a list", _is_list),
    "Callable": ("a function", callable),
}


def checked(kind: _C) -> _C:
    """The class with all its public methods checked."""
    for name, member in list(vars(kind).items()):
        if inspect.isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(kind, name, _checked(member, kind.__name__ if name == "__init__" else name))
        elif isinstance(member, classmethod):
            setattr(kind, name, classmethod(_checked(member.__func__, name)))
    return kind


def made(make: Callable[..., T], called: str, options: Mapping[str, Any], *, also: Sequence[str] = (), **own: Any) -> T:
    """What a function makes of the options of a call, to which `own` are added. ConfigError: it has no such options, or
    they cannot be meant. `also`: further options that the call has."""
    check(make, called, (), {**options, **own}, hidden=own.keys(), also=also)
    try:
        return make(**options, **own)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "options"
        raise errors.ConfigError(f"Wrong value for {where}: {validation_words.text(first['msg'])}.") from error


def check(
    function: Callable[..., Any],
    called: str,
    positional: Sequence[Any],
    named: Mapping[str, Any],
    *,
    hidden: Collection[str] = (),
    also: Sequence[str] = (),
) -> None:
    """ConfigError: the function does not take these arguments. `hidden`: those that people do not give; `also`: those
    that others take."""
    signature = inspect.signature(function)
    parameters = {name: each for name, each in signature.parameters.items() if name not in ("self", "cls", *hidden)}
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    names = [name for name, each in parameters.items() if each.kind not in _VARIADIC]
    if not takes_all and (unknown := [name for name in named if name not in names and name not in hidden]):
        raise errors.ConfigError(_unknown(called, unknown[0], [*names, *also]))
    try:
        bound = signature.bind(*positional, **named)
    except TypeError as error:
        raise errors.ConfigError(f"{called} cannot be called so: {error}; {_listed([*names, *also])}.") from None
    for name, value in bound.arguments.items():
        if name in names and (wanted := _wanted(parameters[name].annotation, value)):
            raise errors.ConfigError(
                f"{name} of {called} must be {wanted}, not a value of type {type(value).__name__}."
            )


def _checked(function: Callable[..., Any], called: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*positional: Any, **named: Any) -> Any:
        check(function, called, positional, named)
        return function(*positional, **named)

    return call


def _wanted(annotation: Any, value: Any) -> str:
    """The types that a value should have; empty: it has one of them, or may have."""
    if not isinstance(annotation, str):
        return ""
    types = [_TYPES.get(part.split("[")[0].strip()) for part in _alternatives(annotation)]
    plain = [each for each in types if each is not None]
    if len(plain) < len(types) or any(is_one(value) for _, is_one in plain):
        return ""
    return " or ".join(words for words, _ in plain if words != "None") or "None"


def _alternatives(annotation: str) -> list[str]:
    """`str | Mapping[str, int | None]` has two."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(annotation):
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            parts.append(annotation[start:at])
            start = at + 1
    return [*parts, annotation[start:]]


def _unknown(called: str, name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f"{called} has no argument {name}{f' (did you mean {near[0]}?)' if near else ''}; {_listed(names)}."


def _listed(names: Sequence[str]) -> str:
    return f"the arguments are {', '.join(names)}" if names else "it has none"
