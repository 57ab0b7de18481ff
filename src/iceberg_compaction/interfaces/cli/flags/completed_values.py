"""The values that a shell offers after a flag when somebody presses Tab. Nothing is loaded before."""

from __future__ import annotations


def strategies(incomplete: str) -> list[str]:
    from iceberg_compaction.model.policies import Strategy

    return [each.value for each in Strategy if each.value.startswith(incomplete)]


def engines(incomplete: str) -> list[str]:
    from iceberg_compaction.interfaces import wiring

    return [each for each in wiring.ENGINES if each.startswith(incomplete)]
