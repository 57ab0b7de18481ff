"""Values of metrics in the forms of Prometheus: as a collector of a registry, and as text that can be read again. Only
here are its classes made."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import TYPE_CHECKING

import prometheus_client
from prometheus_client import core, parser

from iceberg_compaction.observe.metrics import metric_list, metric_values
from iceberg_compaction.observe.metrics.metric_list import MetricKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.samples import Sample

    from iceberg_compaction.observe.metrics.metric_list import Metric
    from iceberg_compaction.observe.metrics.metric_values import Distribution, Labels, Snapshot


class Collector:
    """Gives the values of a moment to a registry. `scrapes`: how often it did."""

    def __init__(self, snapshot: Callable[[], Snapshot], metrics: Sequence[Metric] = metric_list.METRICS) -> None:
        self._snapshot = snapshot
        self._metrics = metrics
        self.scrapes = 0

    def describe(self) -> list[Family]:
        """Nothing is collected when it is registered."""
        return []

    def collect(self) -> Iterator[Family]:
        yield from families(self._snapshot(), self._metrics)
        self.scrapes += 1


def text(snapshot: Snapshot, metrics: Sequence[Metric] = metric_list.METRICS) -> bytes:
    """The exposition format of Prometheus."""
    return prometheus_client.generate_latest(registry(lambda: snapshot, metrics))


def registry(
    snapshot: Callable[[], Snapshot], metrics: Sequence[Metric] = metric_list.METRICS
) -> prometheus_client.CollectorRegistry:
    """A registry with these values alone."""
    made = prometheus_client.CollectorRegistry(auto_describe=False)
    made.register(Collector(snapshot, metrics))
    return made


def families(snapshot: Snapshot, metrics: Sequence[Metric] = metric_list.METRICS) -> Iterator[Family]:
    """The metrics that have values, in the order of the list."""
    found: dict[Metric, list[Labels]] = defaultdict(list)
    for metric, labels in snapshot:
        found[metric].append(labels)
    for metric in metrics:
        if metric in found:
            yield _family(metric, {labels: snapshot[metric, labels] for labels in sorted(found[metric])})


def _family(metric: Metric, figures: Mapping[Labels, metric_values.Figure]) -> Family:
    name = metric.full_name
    match metric.kind:
        case MetricKind.HISTOGRAM:
            histogram = core.HistogramMetricFamily(name, metric.help, labels=metric.labels)
            for labels, spread in figures.items():
                assert isinstance(spread, metric_values.Distribution)
                histogram.add_metric(labels, _cumulated(metric, spread), sum_value=spread.total)
            return histogram
        case MetricKind.COUNTER:
            family: Family = core.CounterMetricFamily(name, metric.help, labels=metric.labels)
        case MetricKind.GAUGE:
            family = core.GaugeMetricFamily(name, metric.help, labels=metric.labels)
    for labels, figure in figures.items():
        family.add_metric(labels, figure)  # type: ignore[attr-defined]
    return family


def _cumulated(metric: Metric, spread: Distribution) -> list[tuple[str, float]]:
    ends = [*map(str, metric.buckets), "+Inf"]
    return list(zip(ends, itertools.accumulate(spread.counts), strict=True))


def parse(content: str, chosen: Mapping[str, str] | None = None) -> Snapshot:
    """The values of our metrics in a text, of samples that have the `chosen` labels besides. Raises ValueError if it is
    no such text. Values of another version that had other labels or buckets are left out."""
    snapshot: Snapshot = {}
    spreads: dict[tuple[Metric, Labels], dict[float | str, float]] = defaultdict(dict)
    for family in parser.text_string_to_metric_families(content):
        for sample in family.samples:
            _enter(sample, chosen or {}, snapshot, spreads)
    for (metric, labels), parts in spreads.items():
        if (spread := _distribution(metric, parts)) is not None:
            snapshot[metric, labels] = spread
    return snapshot


def _enter(
    sample: Sample,
    chosen: Mapping[str, str],
    snapshot: Snapshot,
    spreads: dict[tuple[Metric, Labels], dict[float | str, float]],
) -> None:
    labels = {name: value for name, value in sample.labels.items() if value}  # a gateway adds an empty instance
    if any(labels.pop(name, "") != value for name, value in chosen.items()):
        return
    base, _, part = sample.name.rpartition("_")
    metric = metric_list.BY_NAME.get(sample.name) or metric_list.BY_NAME.get(base)
    if metric is None:
        return
    end = labels.pop("le", "")
    if set(labels) != set(metric.labels):
        return
    values = tuple(labels[name] for name in metric.labels)
    if metric.kind is MetricKind.HISTOGRAM:
        spreads[metric, values][float(end) if end else part] = float(sample.value)
    elif sample.name == metric.full_name:
        snapshot[metric, values] = float(sample.value)


def _distribution(metric: Metric, parts: Mapping[float | str, float]) -> Distribution | None:
    ends = [*metric.buckets, math.inf]
    if {*ends, "sum", "count"} != set(parts):
        return None
    cumulated = [0.0, *(parts[end] for end in ends)]
    counts = tuple(upto - before for before, upto in itertools.pairwise(cumulated))
    return metric_values.Distribution(counts, parts["sum"])
