"""How fast copying and encoding are, learned from what earlier runs took. Their efforts come in, the newest first;
rates go out that say where they come from. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.model.copy_plan import Origin, Rate, Rates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iceberg_compaction.model.rewrite_task import Effort

    Figure = tuple[int, float]  # bytes, and the seconds that they took

ENOUGH_BYTES = 16 * 10**6  # of one run; less tells more about starting than about going on
RUNS = 8  # that count at most
_FADING = 0.7  # what a run counts beside the one after it
_SLOWEST, _FASTEST = 10**6, 10**11  # bytes in a second; beyond that a clock was wrong


def learn(own: Sequence[Effort], others: Sequence[Effort]) -> Rates:
    """Rates of this table's runs; where these do not tell, of other tables' runs; else what is assumed."""
    assumed = Rates()

    def best(name: str, default: Rate) -> Rate:
        for efforts, origin in ((own, Origin.TABLE), (others, Origin.OTHERS)):
            figures = list(_telling(efforts, name))[:RUNS]
            if figures:
                return Rate(bytes_per_second=_smoothed(figures), origin=origin, runs=len(figures))
        return default

    return Rates(encoding=best("encode", assumed.encoding), copying=best("copy", assumed.copying))


def _telling(efforts: Iterable[Effort], name: str) -> Iterable[Figure]:
    for effort in efforts:
        if name == "encode":
            figure = (effort.encoded_bytes, effort.encode_seconds)
        else:
            figure = (effort.copied_bytes, effort.copy_seconds)
        if figure[0] >= ENOUGH_BYTES and figure[1] > 0 and _SLOWEST <= figure[0] / figure[1] <= _FASTEST:
            yield figure


def _smoothed(figures: Sequence[Figure]) -> float:
    """All bytes by all seconds, so that large runs count for more, and old ones for less."""
    weights = [_FADING**age for age in range(len(figures))]
    done = sum(weight * size for weight, (size, _) in zip(weights, figures, strict=True))
    taken = sum(weight * seconds for weight, (_, seconds) in zip(weights, figures, strict=True))
    return done / taken
