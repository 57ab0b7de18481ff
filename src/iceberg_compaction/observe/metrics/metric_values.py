"""The values of metrics in this process, and their sum with values of others. Figures come in from any thread; a
snapshot goes out."""

from __future__ import annotations

import bisect
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from iceberg_compaction.observe.metrics.metric_list import OTHER, TABLE, MetricKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.observe.metrics.metric_list import Metric

Labels: TypeAlias = tuple[str, ...]  # values, in the order of the metric's labels
Key: TypeAlias = "tuple[Metric, Labels]"


@dataclass(frozen=True, slots=True)
class Distribution:
    """Values of a histogram: how many are in each bucket alone, the last of which has no upper end, and their sum."""

    counts: tuple[float, ...]
    total: float = 0.0

    def __add__(self, other: Distribution) -> Distribution:
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return Distribution(counts, self.total + other.total)

    def __sub__(self, other: Distribution) -> Distribution:
        counts = tuple(a - b for a, b in zip(self.counts, other.counts, strict=True))
        return Distribution(counts, self.total - other.total)


Figure: TypeAlias = float | Distribution
Snapshot: TypeAlias = "dict[Key, Figure]"


class MetricValues:
    """All values, from any thread."""

    def __init__(self) -> None:
        self._figures: dict[Key, float] = {}
        self._counts: dict[Key, tuple[list[float], list[float]]] = {}  # of histograms, with their sum
        self._lock = threading.Lock()

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        """To a counter; 0 makes it visible."""
        with self._lock:
            key = (metric, labels)
            self._figures[key] = self._figures.get(key, 0.0) + amount

    def set(self, metric: Metric, figure: float, *labels: str) -> None:
        """A gauge."""
        with self._lock:
            self._figures[metric, labels] = figure

    def observe(self, metric: Metric, figure: float, *labels: str) -> None:
        """Enter a value in a histogram."""
        with self._lock:
            counts, total = self._counts.setdefault((metric, labels), ([0.0] * (len(metric.buckets) + 1), [0.0]))
            counts[bisect.bisect_left(metric.buckets, figure)] += 1
            total[0] += figure

    def snapshot(self) -> Snapshot:
        """The values as they are now."""
        with self._lock:
            spread = {key: Distribution(tuple(counts), total[0]) for key, (counts, total) in self._counts.items()}
            return {**self._figures, **spread}


def merge(earlier: Mapping[Key, Figure], now: Snapshot, entered: Mapping[Key, Figure]) -> Snapshot:
    """The earlier values of others, with ours: counters and histograms go on from there by all that `entered`, which is
    what the earlier values have of ours already, does not hold yet; gauges are as they are now."""
    merged: Snapshot = dict(earlier)
    for key, figure in now.items():
        before, ours = earlier.get(key), entered.get(key)
        if key[0].kind is MetricKind.GAUGE or before is None:
            merged[key] = figure
        elif isinstance(figure, Distribution):
            assert isinstance(before, Distribution)
            merged[key] = before + (figure - ours if isinstance(ours, Distribution) else figure)
        else:
            assert isinstance(before, float)
            merged[key] = before + figure - (ours if isinstance(ours, float) else 0.0)
    return merged


def named_tables(*snapshots: Mapping[Key, Figure], limit: int) -> set[str]:
    """The tables that keep series of their own: those of the first snapshot, then those of the next, up to a limit."""
    names: dict[str, None] = {}
    for snapshot in snapshots:
        tables = (labels[metric.labels.index(TABLE)] for metric, labels in snapshot if TABLE in metric.labels)
        names |= dict.fromkeys(sorted({*tables} - {OTHER}))
    return set(list(names)[:limit])


def fold(snapshot: Mapping[Key, Figure], tables: set[str]) -> Snapshot:
    """The same values, with those of other tables than these together. Gauges of several tables mean nothing."""
    folded: Snapshot = {}
    for (metric, labels), figure in snapshot.items():
        at = metric.labels.index(TABLE) if TABLE in metric.labels else None
        if at is not None and labels[at] not in tables:
            if metric.kind is MetricKind.GAUGE:
                continue
            labels = (*labels[:at], OTHER, *labels[at + 1 :])
        before = folded.get((metric, labels))
        folded[metric, labels] = figure if before is None else before + figure  # type: ignore[operator]
    return folded
