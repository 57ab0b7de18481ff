"""The same metrics as instruments of OpenTelemetry, by its API alone: where they go is the affair of the meter provider
that the process has."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics

from iceberg_compaction import version
from iceberg_compaction.observe.metrics.metric_list import MetricKind

if TYPE_CHECKING:
    from iceberg_compaction.observe.metrics.metric_list import Metric


class OtelInstruments:
    """Figures go to the meter at once."""

    def __init__(self) -> None:
        self._meter = metrics.get_meter("iceberg_compaction", version.__version__)
        self._instruments: dict[Metric, Any] = {}
        self._lock = threading.Lock()

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        self._instrument(metric).add(amount, _attributes(metric, labels))

    def set(self, metric: Metric, figure: float, *labels: str) -> None:
        self._instrument(metric).set(figure, _attributes(metric, labels))

    def observe(self, metric: Metric, figure: float, *labels: str) -> None:
        self._instrument(metric).record(figure, _attributes(metric, labels))

    def _instrument(self, metric: Metric) -> Any:
        with self._lock:
            if metric not in self._instruments:
                self._instruments[metric] = self._make(metric)
            return self._instruments[metric]

    def _make(self, metric: Metric) -> Any:
        names = {"name": metric.otel_name, "unit": metric.unit, "description": metric.help}
        match metric.kind:
            case MetricKind.COUNTER:
                return self._meter.create_counter(**names)
            case MetricKind.GAUGE:
                return self._meter.create_gauge(**names)
            case MetricKind.HISTOGRAM:
                return self._meter.create_histogram(**names, explicit_bucket_boundaries_advisory=metric.buckets)


def _attributes(metric: Metric, labels: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(metric.labels, labels, strict=True))
