"""Metrics of runs, from the first event to the last scrape: the feed, its sinks and the outputs in one value. Its
functions never raise, because a listener that raises stops a run."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING

from iceberg_compaction import errors, version
from iceberg_compaction.observe.metrics import metric_feed, metric_settings, metric_values
from iceberg_compaction.observe.tracing import otel_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Self

    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.table_health import TableHealth
    from iceberg_compaction.observe.metrics.metric_outputs import MetricOutputs
    from iceberg_compaction.observe.metrics.metric_settings import MetricsSettings
    from iceberg_compaction.observe.metrics.metric_values import Snapshot

_log = logging.getLogger(__name__)


class RunMetrics:
    """Metrics of runs, for Prometheus and for OpenTelemetry:

        with RunMetrics(port="9464") as metrics, Compactor("prod", on_event=metrics.on_event) as compactor:
            compactor.compact_table("db.sales")

    `port` (or address:port) is scraped by Prometheus, `file` is written for node_exporter's textfile collector, `push`
    is the URL of a push gateway. OpenTelemetry gets the same if the process has set up a meter provider. `tables` is
    how many tables have series of their own.
    """

    def __init__(
        self,
        *,
        port: str | None = None,
        file: str | None = None,
        push: str | None = None,
        tables: int = metric_settings.TABLES,
        settings: MetricsSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        flags = metric_settings.MetricsFlags(port=port, file=file, push=push)
        if settings is None:
            settings = metric_settings.load_metrics_settings(flags, {}).model_copy(update={"tables": tables})
        self._values = metric_values.MetricValues()
        sinks: list[metric_feed.MetricSink] = [self._values]
        if otel_state.has_meter():
            from iceberg_compaction.observe.metrics import otel_instruments

            sinks.append(otel_instruments.OtelInstruments())
        self._feed = metric_feed.MetricFeed(sinks=sinks, prices=settings.prices, tables=settings.tables, clock=clock)
        self._outputs = _outputs(settings, self._values.snapshot)
        self._troubled = False

    @property
    def port(self) -> int | None:
        """The port that can be scraped now; None: there is none."""
        return None if self._outputs is None else self._outputs.port

    def __enter__(self) -> Self:
        self._feed.begin(version.__version__)
        if self._outputs is not None:
            self._outputs.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        with self._unraised():
            self._feed.end(failed=isinstance(raised[1], Exception))
        if self._outputs is not None:
            self._outputs.__exit__(*raised)

    def snapshot(self) -> Snapshot:
        """The values of this process as they are now."""
        return self._values.snapshot()

    def expect(self, tables: Sequence[str]) -> None:
        """Runs on these tables will begin."""
        with self._unraised():
            self.begin(tables)
            self._feed.expect(len(tables))

    def begin(self, tables: Sequence[str]) -> None:
        """These are the tables that a command is about."""
        if self._outputs is not None:
            self._outputs.begin(tables)

    def on_event(self, event: Event) -> None:
        """The listener of runs."""
        with self._unraised():
            self._feed.enter(event)

    def on_health(self, health: TableHealth) -> None:
        """Take the health of a table, as `Compactor.inspect_table` gives it."""
        with self._unraised():
            self._feed.enter_health(health)

    @contextlib.contextmanager
    def _unraised(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - metrics inform, and never fail a run
            _log.log(
                logging.DEBUG if self._troubled else logging.WARNING,
                "Metrics are not complete: %s",
                type(error).__name__,
                exc_info=error if _log.isEnabledFor(logging.DEBUG) else None,
            )
            self._troubled = True


def _outputs(settings: MetricsSettings, snapshot: Callable[[], Snapshot]) -> MetricOutputs | None:
    if not settings.wanted:
        return None
    try:
        from iceberg_compaction.observe.metrics import metric_outputs
    except ModuleNotFoundError as error:
        raise errors.SetupError(
            f"Metrics need {error.name}, which this Python does not have: pip install 'iceberg-compaction[metrics]'."
        ) from error
    return metric_outputs.MetricOutputs(settings, snapshot)
