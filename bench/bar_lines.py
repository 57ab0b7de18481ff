"""Bars of benchmarks as people read them: a line for each, with the figure and the reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def show(bars: Iterable[dict[str, Any]]) -> None:
    """Prints the bars, those that were missed marked as such."""
    for bar in bars:
        value = "none" if bar["value"] is None else bar["value"]
        print(f"{bar['name']:75} {value:>10}  {bar['reach']:8} {'' if bar['ok'] else 'missed'}")
