"""The demo keeps its promises: two sick tables and a healthy one, compacted, proved, and left alone by a second run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from iceberg_compaction import Compactor
from iceberg_compaction.catalog import connect
from iceberg_compaction.interfaces.cli import tour
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.interfaces.cli.options import ConsoleOptions
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path


def test_the_demo_from_build_to_second_run(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    result = CliRunner().invoke(app, ["demo", "--keep", str(lake), "--engine", "inline", "--output", "json"])
    assert result.exit_code == 0, result.output
    outcomes = json.loads(result.stdout)
    assert [(one["table"], one["kind"]) for one in outcomes] == [
        ("shop.events", "compacted"),
        ("shop.customers", "compacted"),
        ("shop.orders", "healthy"),
        ("shop.events", "healthy"),
        ("shop.customers", "healthy"),
        ("shop.orders", "healthy"),
    ]
    assert outcomes[0]["files_removed"] >= 600
    assert outcomes[1]["files_removed"] == 200
    assert all(one["proof"]["source"]["row_checksum"] == one["proof"]["sink"]["row_checksum"] for one in outcomes[:2])

    catalog = connect.connect(CatalogSettings(uri=f"sqlite:///{lake}/catalog.db"))
    events = catalog.load_table("shop.events")
    assert len(events.metadata.snapshots) >= 61
    assert events.scan().count() == 640_000
    assert not any(Compactor(catalog).inspect_table(name).sick for name in ("shop.events", "shop.customers"))
    catalog.close()

    again = CliRunner().invoke(app, ["demo", "--keep", str(lake), "--engine", "inline"])
    assert again.exit_code == 2
    assert "not empty" in again.stderr


@pytest.mark.parametrize(("engine", "flag"), [("spark", ""), ("inline", " --engine inline")])
def test_the_next_steps_use_the_engine_of_the_demo(
    engine: str, flag: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tour.what_next(tmp_path, engine, ConsoleOptions())
    assert f"iceberg-compact run --table 'shop.*'{flag} --catalog-uri" in "".join(capfd.readouterr())
