"""Strategies and engines of other packages, found by entry points. A group and a name come in, the object goes out that
the package names, or a sentence why it cannot be had. Nothing is kept: whoever asks twice looks twice."""

from __future__ import annotations

import difflib
from importlib import metadata
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

STRATEGIES = "iceberg_compaction.strategies"
ENGINES = "iceberg_compaction.engines"


def names(group: str) -> list[str]:
    """The names that installed packages give in this group."""
    return sorted({point.name for point in metadata.entry_points(group=group)})


def load(group: str, name: str, *, kind: str, ours: Sequence[str]) -> Any:
    """The object of a name. `kind` and `ours` are for the sentence of a ConfigError: there is no such name, two
    packages have it, or it cannot be imported."""
    points = list(metadata.entry_points(group=group, name=name))
    if not points:
        choices = [*ours, *names(group)]
        near = difflib.get_close_matches(name, choices, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise errors.ConfigError(f"{name!r} is not {kind}{hint}; choose one of {', '.join(choices)}.")
    if len({point.value for point in points}) > 1:
        packages = ", ".join(sorted({_package(point) for point in points}))
        raise errors.ConfigError(f"{name!r} is the name of {kind} in several packages ({packages}); keep one of them.")
    try:
        return points[0].load()
    except Exception as error:
        raise errors.ConfigError(
            f"{name!r} is {kind} of the package {_package(points[0])}, which cannot be loaded from "
            f"{points[0].value} ({type(error).__name__}: {_first_line(error)})."
        ) from error


def _package(point: metadata.EntryPoint) -> str:
    return "unknown" if point.dist is None else point.dist.name


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0].rstrip(".")[:200]
