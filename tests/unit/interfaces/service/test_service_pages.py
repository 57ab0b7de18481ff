"""The pages on the service say what its code says."""

from __future__ import annotations

from pathlib import Path

from iceberg_compaction.interfaces.service.api import service_metrics

DOCS = Path(__file__).parents[4] / "docs"


def test_the_page_on_metrics_has_those_of_the_service() -> None:
    page = (DOCS / "reference" / "metrics.md").read_text()
    for metric in service_metrics.METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        row = f"| `{metric.full_name}` | {metric.kind.value} | {metric.unit.strip('{}')} | {labels} | {metric.help} |"
        assert row in page
