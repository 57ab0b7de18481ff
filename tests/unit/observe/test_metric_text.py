"""Values of metrics as text of Prometheus, and back; and values of several processes in one text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_compaction import errors
from iceberg_compaction.observe.metrics import (
    metric_list,
    metric_settings,
    metric_values,
    prometheus_text,
    textfile,
)
from iceberg_compaction.observe.metrics.metric_list import MetricKind

if TYPE_CHECKING:
    from pathlib import Path

UNITS = {"By": "_bytes", "s": "_seconds", "USD": "_dollars"}


@pytest.mark.parametrize("metric", metric_list.METRICS, ids=lambda metric: metric.name)
def test_names_and_units_follow_the_conventions(metric: metric_list.Metric) -> None:
    assert re.fullmatch(r"iceberg_compaction_[a-z]+(_[a-z]+)*", metric.full_name)
    assert metric.full_name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    assert metric.name.endswith(UNITS.get(metric.unit, metric.name))
    assert metric.help.endswith(".")
    assert bool(metric.buckets) == (metric.kind is MetricKind.HISTOGRAM)


def test_names_are_used_once() -> None:
    assert len(metric_list.BY_NAME) == len(metric_list.METRICS)
    assert len({metric.otel_name for metric in metric_list.METRICS}) == len(metric_list.METRICS)


@given(table=st.text(min_size=1).filter(lambda text: text.isprintable() or "\n" in text), size=st.floats(0, 1e12))
def test_a_text_is_read_again_as_it_was_written(table: str, size: float) -> None:
    values = metric_values.MetricValues()
    values.add(metric_list.FILES_ADDED, 3, table)
    values.set(metric_list.LAST_RUN, 1.5, table)
    values.observe(metric_list.FILE_SIZE, size)
    text = prometheus_text.text(values.snapshot()).decode()
    assert prometheus_text.parse(text) == values.snapshot()


def test_a_text_of_something_else_has_no_values() -> None:
    assert prometheus_text.parse('node_load1{x="1"} 2\niceberg_compaction_runs_total{color="red"} 1\n') == {}


def test_values_of_two_processes_add_up_and_none_is_counted_twice() -> None:
    first, second = metric_values.MetricValues(), metric_values.MetricValues()
    for values in (first, second):
        values.add(metric_list.FILES_ADDED, 2, "t")
        values.observe(metric_list.FILE_SIZE, 10)
        values.set(metric_list.ACTIVE, 1)
    file = metric_values.merge({}, first.snapshot(), {})
    file = metric_values.merge(file, second.snapshot(), {})
    entered = second.snapshot()
    second.add(metric_list.FILES_ADDED, 5, "t")
    second.set(metric_list.ACTIVE, 0)
    file = metric_values.merge(file, second.snapshot(), entered)
    assert file[metric_list.FILES_ADDED, ("t",)] == 9
    assert file[metric_list.FILE_SIZE, ()].counts[0] == 2  # type: ignore[union-attr]
    assert file[metric_list.ACTIVE, ()] == 0


def test_commands_on_many_tables_share_one_file_with_as_many_series_as_the_limit_allows(tmp_path: Path) -> None:
    for number in range(40):
        values, file = metric_values.MetricValues(), textfile.Textfile(tmp_path / "c.prom", tables=3)
        for _ in range(2):
            values.add(metric_list.FILES_ADDED, 1, f"t{number}")
            values.set(metric_list.LAST_RUN, number, f"t{number}")
            file.write(values.snapshot())
    written = prometheus_text.parse((tmp_path / "c.prom").read_text())
    assert written[metric_list.FILES_ADDED, ("t0",)] == 2
    assert written[metric_list.FILES_ADDED, (metric_list.OTHER,)] == 37 * 2
    assert len(written) == 4 + 3


@pytest.mark.parametrize("port", ["high", "-1", "65536", "host:", "1.5"])
def test_a_port_that_cannot_be_meant_is_refused(port: str) -> None:
    with pytest.raises(errors.ConfigError, match=r"--metrics-port .* is not a port"):
        metric_settings.load_metrics_settings(metric_settings.MetricsFlags(port=port), {})


@pytest.mark.parametrize("url", ["me:pw@h:1", "ftp://me:pw@h", "http://:1", "http://me:pw@h:port"])
def test_a_gateway_that_cannot_be_meant_is_refused_and_not_echoed(url: str) -> None:
    with pytest.raises(errors.ConfigError, match="not the URL of a push gateway") as refused:
        metric_settings.load_metrics_settings(metric_settings.MetricsFlags(push=url), {})
    assert "pw" not in str(refused.value).replace("--metrics-push", "")


def test_flags_go_before_the_environment() -> None:
    environ = {"ICEBERG_COMPACTION_METRICS_PORT": "1", "ICEBERG_COMPACTION_METRICS_TABLES": "7"}
    chosen = metric_settings.load_metrics_settings(metric_settings.MetricsFlags(port="127.0.0.1:9464"), environ)
    assert (chosen.address, chosen.port, chosen.tables) == ("127.0.0.1", 9464, 7)
