"""A policy from arguments and named options. The library and the command line share it, and the command line needs no
more of the library than this."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from iceberg_compaction import errors
from iceberg_compaction.model import policies, validation_words

if TYPE_CHECKING:
    from collections.abc import Mapping


def make_policy(
    strategy: policies.Strategy | str | None, target_file_size: int | str | None, options: Mapping[str, Any]
) -> policies.Policy:
    """A policy from arguments and options; unknown names and impossible values in one sentence."""
    names = {name.replace("_", "-") for name in policies.Policy.model_fields}
    given = {option_name(name): value for name, value in options.items()}
    if unknown := sorted(given.keys() - names):
        near = difflib.get_close_matches(unknown[0], names, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise errors.ConfigError(
            f"Unknown option {', '.join(unknown)}{hint}; the options are {', '.join(sorted(names))}."
        )
    if strategy is not None:
        given["strategy"] = strategy
    if target_file_size is not None:
        given["target-file-size-bytes"] = target_file_size
    try:
        return policies.Policy.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "options"
        raise errors.ConfigError(f"Wrong value for {where}: {validation_words.text(first['msg'])}.") from error


def option_name(given: str) -> str:
    """Iceberg's `partial-progress.max-commits`, and Python's form of a name, as the policy calls them."""
    return given.replace("_", "-").replace("partial-progress.enabled", "partial-progress").replace(".", "-")
