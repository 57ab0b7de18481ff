"""Rates of copying, joining and encoding, learned from earlier runs. Efforts come in, the newest first; rates with
their origin go out. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.model.copy_plan import Rate, RateOrigin, Rates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.rewrite_task import Effort

    Figure = tuple[int, float]  # bytes, seconds

ENOUGH_BYTES = 16 * 10**6  # of one run; with less, the start of the run outweighs its rate
RUNS = 8  # that count at most
_FADING = 0.7  # weight of a run relative to the next newer one
_SLOWEST, _FASTEST = 10**6, 10**11  # bytes in a second; beyond that a clock was wrong


def learn(own: Sequence[Effort], others: Sequence[Effort]) -> Rates:
    """Rates of this table's runs; if they have too little data, of other tables' runs; else the assumed rates."""
    encoding = [[(effort.encoded_bytes, effort.encode_seconds) for effort in efforts] for efforts in (own, others)]
    copying = [[(effort.copied_bytes, effort.copy_seconds) for effort in efforts] for efforts in (own, others)]
    joining = [[(effort.joined_bytes, effort.join_seconds) for effort in efforts] for efforts in (own, others)]
    assumed = Rates()
    return Rates(
        encoding=_rate(*encoding) or assumed.encoding,
        copying=_rate(*copying) or assumed.copying,
        joining=_rate(*joining) or assumed.joining,
    )


def _rate(own: Sequence[Figure], others: Sequence[Figure]) -> Rate | None:
    for figures, origin in ((own, RateOrigin.TABLE), (others, RateOrigin.OTHERS)):
        usable = [figure for figure in figures if _is_usable(*figure)][:RUNS]
        if usable:
            return Rate(bytes_per_second=_smoothed(usable), origin=origin, runs=len(usable))
    return None


def _is_usable(size: int, seconds: float) -> bool:
    return size >= ENOUGH_BYTES and seconds > 0 and _SLOWEST <= size / seconds <= _FASTEST


def _smoothed(figures: Sequence[Figure]) -> float:
    """All bytes / all seconds, weighted: large runs count more, old runs less."""
    weights = [_FADING**age for age in range(len(figures))]
    done = sum(weight * size for weight, (size, _) in zip(weights, figures, strict=True))
    taken = sum(weight * seconds for weight, (_, seconds) in zip(weights, figures, strict=True))
    return done / taken
