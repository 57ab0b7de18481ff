"""deploy/monitoring against the real thing: promtool checks rules and their unit tests, and a Prometheus scrapes real
runs, after which each query of the dashboard and each rule gives data."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import prometheus as prometheuses
from tests.factories.prometheus import MONITORING

from iceberg_compaction import Compactor
from iceberg_compaction.execute.engines.fake_engine import FakeEngine
from iceberg_compaction.interfaces.service.api import service_metrics
from iceberg_compaction.observe.metrics import metric_list
from iceberg_compaction.observe.metrics.run_metrics import RunMetrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.factories.prometheus import Prometheus

RULES = MONITORING / "rules.yml"
# Of Grafana, which fills them in.
VARIABLES = {"$__rate_interval": "1m", "$__range": "1h", "$table": ".*"}
# Alerts whose expression is more than a figure and a threshold.
COMPOUND = {"IcebergCompactionStuck", "IcebergCompactionSmallFilesGrow"}


def dashboard_queries() -> list[str]:
    dashboard = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def test_rules_pass_promtool() -> None:
    promtool = prometheuses.program("promtool")
    subprocess.run([promtool, "check", "rules", str(RULES)], check=True, capture_output=True)


@pytest.mark.lab  # nine days of figures, every five minutes
def test_each_alert_fires_when_it_should_and_rests_when_it_should_not() -> None:
    promtool = prometheuses.program("promtool")
    done = subprocess.run(
        [promtool, "test", "rules", "rules_test.yml"], cwd=MONITORING, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    alerts = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    assert set(re.findall(r"alertname: (\w+)", (MONITORING / "rules_test.yml").read_text())) == alerts


def test_dashboard_and_rules_use_metrics_that_exist() -> None:
    texts = [*dashboard_queries(), RULES.read_text(), (MONITORING / "rules_test.yml").read_text()]
    names = {name for text in texts for name in re.findall(r"(?<![\w:])iceberg_compaction_[a-z_]+(?![\w:])", text)}
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
    groups = {"iceberg_compaction_recording", "iceberg_compaction_alerts", "iceberg_compaction_service_alerts"}
    of_service = {metric.full_name for metric in service_metrics.METRICS}
    assert names - groups <= metric_list.BY_NAME.keys() | of_service
    recorded = set(re.findall(r"record: (\S+)", RULES.read_text()))
    used = {name for text in texts for name in re.findall(r"(?:table:)?iceberg_compaction\w*:[\w:]+", text)}
    assert used <= recorded


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that has scraped real runs, of which one has failed."""
    folder = tmp_path_factory.mktemp("monitoring")
    prometheuses.program("prometheus")
    lake = lakes.file_lake(folder / "lake")
    for name in ("a", "b", "c"):
        lakes.append_small_files(lakes.make_table(lake.catalog, lake.name(name)), 6)
    with (
        RunMetrics(port="127.0.0.1:0") as metrics,
        prometheuses.scraping(metrics.port or 0, folder) as server,
    ):
        with Compactor(lake.catalog, engine="inline", on_event=metrics.on_event) as compactor:
            metrics.on_health(compactor.inspect_table(lake.name("a")))
            compactor.compact_table(lake.name("a"))
            broken = FakeEngine(failures={0: ValueError("broken")})
            Compactor(lake.catalog, engine=broken, on_event=metrics.on_event).compact_table(lake.name("b"))
            server.wait_for('count(iceberg_compaction_runs_total{outcome="compacted"})', lambda values: values == [2])
            for name in ("b", "c"):
                compactor.compact_table(lake.name(name))
            metrics.on_health(compactor.inspect_table(lake.name("b")))
        server.wait_for("sum(increase(iceberg_compaction_files_compacted_total[1m]))", lambda values: values[:1] > [0])
        server.wait_for("iceberg_compaction:estimated_cost_dollars:increase1d", bool)
        yield server
    lakes.close(lake)


@pytest.mark.server
@pytest.mark.parametrize("query", dashboard_queries())
def test_each_query_of_the_dashboard_gives_data(prometheus: Prometheus, query: str) -> None:
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    assert prometheus.wait_for(query, bool)


@pytest.mark.server
def test_each_rule_is_evaluated_and_gives_data(prometheus: Prometheus) -> None:
    groups = prometheus.get("rules")["groups"]
    rules: list[dict[str, Any]] = [rule for group in groups for rule in group["rules"]]
    assert [rule["name"] for rule in rules if rule["health"] != "ok"] == []
    # Their unit tests have data; no service runs here, and no commit is unknown.
    of_service = {rule["name"] for group in groups if "service" in group["name"] for rule in group["rules"]}
    assert len(of_service) >= 5
    for rule in (each for each in rules if each["name"] not in of_service):
        figure = rule["query"].rpartition(" > ")[0] if rule["type"] == "alerting" else rule["query"]
        if rule["name"] not in COMPOUND:
            assert prometheus.wait_for(figure, bool), rule["name"]


@pytest.mark.server
def test_failure_rate_and_p99_are_recorded(prometheus: Prometheus) -> None:
    (ratio,) = prometheus.wait_for("iceberg_compaction:run_failures:ratio1d", bool)
    (p99,) = prometheus.wait_for("iceberg_compaction:run_duration_seconds:p99_1d", bool)
    assert 0 <= ratio <= 1
    assert p99 > 0
