"""A policy from arguments and named options. The library and the command line share it, and the command line needs no
more of the library than this."""

from __future__ import annotations

import difflib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from iceberg_compaction import errors, settings
from iceberg_compaction.model import policies, validation_words

if TYPE_CHECKING:
    from collections.abc import Mapping


_log = logging.getLogger(__name__)
_SORTING = (policies.Strategy.SORT, policies.Strategy.TIME_SERIES, policies.Strategy.DIMENSIONAL)
# Options that only some of our strategies look at.
_OPTIONS_OF = {
    "sort_order": _SORTING[:1],
    "cluster_by": _SORTING[2:],
    "max_sort_bytes": _SORTING,
    "max_overlap_depth": _SORTING,
    "time_column": _SORTING[1:2],
    "hot_window": _SORTING[1:2],
    "cold_after": _SORTING[1:2],
    "cold_target_file_size_bytes": _SORTING[1:2],
}


def make_policy(
    strategy: policies.Strategy | str | None,
    target_file_size: int | str | None,
    options: Mapping[str, Any],
    *,
    whole: bool = True,
) -> policies.Policy:
    """A policy from arguments and options; unknown names and impossible values in one sentence. `whole`: no file states
    the strategy, where no argument does."""
    if wrong := [name for name in options if not isinstance(name, str)]:
        raise errors.ConfigError(f"The name of an option is text, such as min-input-files, not {wrong[0]!r}.")
    names = {name.replace("_", "-") for name in policies.Policy.model_fields}
    given = {option_name(name): value for name, value in _in_our_words(options).items()}
    if unknown := sorted(given.keys() - names):
        near = difflib.get_close_matches(unknown[0], names, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise errors.ConfigError(
            f"Unknown option {', '.join(unknown)}{hint}; the options are {', '.join(sorted(names))}."
        )
    if strategy is not None:
        given["strategy"] = strategy
    if isinstance(named := given.get("strategy"), str) and not isinstance(named, policies.Strategy):
        given["strategy"] = _STRATEGIES.get(named.lower(), named)
    if isinstance(prices := given.get("prices"), str | Path):
        given["prices"] = settings.read_prices(str(prices), origin="prices")
    if target_file_size is not None:
        given["target-file-size-bytes"] = target_file_size
    try:
        policy = policies.Policy.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "options"
        raise errors.ConfigError(f"Wrong value for {where}: {validation_words.text(first['msg'])}.") from error
    if whole or "strategy" in policy.model_fields_set:
        _check_strategy(policy)
    return policy


def _in_our_words(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that only Iceberg has in our names; those without effect are told. ConfigError: one is refused."""
    fields = {name.replace("_", "-") for name in policies.Policy.model_fields}
    if all(option_name(name) in fields for name in options):
        return dict(options)
    from iceberg_compaction.interfaces.procedures import iceberg_options

    translated = iceberg_options.translate(options)
    for note in translated.notes:
        _log.warning(note)
    return translated.options


def _check_strategy(policy: policies.Policy) -> None:
    """ConfigError: there is no such strategy, or an option is given that it would ignore."""
    if not isinstance(policy.strategy, policies.Strategy):
        from iceberg_compaction.plan.strategies import registry  # late: a wrong name is rare

        registry.named(policy.strategy)
        return
    for name, strategies in _OPTIONS_OF.items():
        if name in policy.model_fields_set and policy.strategy not in strategies:
            names = " or ".join(strategy.value for strategy in strategies)
            raise errors.ConfigError(
                f"The option {name.replace('_', '-')} is for the strategy {names}, not for {policy.strategy.value}."
            )


_STRATEGIES = {"binpack": "small-files", "bin-pack": "small-files", "zorder": "dimensional", "z-order": "dimensional"}
_SYNONYMS = {
    "partial-progress-enabled": "partial-progress",
    "max-bytes": "max-bytes-to-rewrite",
    "max-files": "max-files-to-rewrite",
    "costLimit-hourly": "hourly-cost-limit",
    "cost-limit-hourly": "hourly-cost-limit",
    "write-option": "write-options",
    "snapshot-property": "snapshot-properties",
}


def option_name(given: str) -> str:
    """Iceberg's `partial-progress.max-commits`, the guides' `max_bytes`, and Python's form of a name, as the policy
    calls them."""
    name = given.replace("_", "-").replace(".", "-")
    return _SYNONYMS.get(name, name)
