"""Results of the library in a notebook: HTML that stays in its cell, and one line everywhere else."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from tests.factories import healths, reports
from tests.unit.interfaces.test_html_report import EVIL, read

from iceberg_compaction import CheckVerdict, Compactor, Outcome, UndoPlan, UndoWay, Verification
from iceberg_compaction.interfaces.html import fragment, style
from iceberg_compaction.model import outcome
from iceberg_compaction.model.maintenance import MaintenanceStep, StepOutcome, TableMaintenance
from iceberg_compaction.model.upkeep_plan import UpkeepPlan, UpkeepStep

assert Compactor  # loading it gives results their HTML


def upkeep(table: str) -> UpkeepPlan:
    step = UpkeepStep(name="snapshots", count=3, bytes=2048, sentence=f"{table} is old")
    return UpkeepPlan(
        operation="expire",
        id="p",
        table=table,
        table_uuid="u",
        created_ms=0,
        sentence="3 go.",
        steps=(step,),
        kept=(step,),
        notes=(table,),
    )


def end(kind: outcome.Kind, table: str) -> Any:
    more: dict[str, Any] = {"snapshot_id": 1} if kind is outcome.Kind.COMPACTED else {}
    if kind is outcome.Kind.UNDONE:
        more = {"undone_run_id": "r", "way": "rollback", "head_snapshot_id": 1}
    if kind is outcome.Kind.MAINTAINED:
        more = {"operation": "expire", "notes": (table,)}
    return outcome.parse({"kind": kind, "table": table, "sentence": f"{table}.", "run_id": "r", **more})


def values(table: str) -> list[Any]:
    report = reports.report(table=table, sentence=table)
    assert report.record is not None
    steps = (StepOutcome(step=MaintenanceStep.EXPIRE, outcome=end(outcome.Kind.HEALTHY, table)),)
    return [
        healths.sick(table),
        upkeep(table),
        report,
        report.record.outcome,
        *(end(kind, table) for kind in outcome.Kind),
        TableMaintenance(table=table, steps=steps),
        UndoPlan(table=table, branch="main", undone_run_id="r", way=UndoWay.REFUSED, sentence=table),
        Verification(run_id="r", table=table, verdict=CheckVerdict.PROVED, sentence=table),
    ]


@pytest.mark.parametrize("number", range(len(values("t"))))
def test_values_are_html_without_script_links_or_unescaped_names(number: int) -> None:
    checker = read(values(EVIL)[number]._repr_html_())
    assert checker.scripts == 0
    assert checker.links == []
    assert not checker.seen & {"link", "img", "iframe", "object", "html", "body", "title", "meta"}
    assert EVIL in checker.text.replace("\u200b", "")


def test_every_outcome_is_shown() -> None:
    assert all(hasattr(kind, "_repr_html_") for kind in get_args(get_args(Outcome)[0]))


def test_a_report_has_its_charts_and_health_its_own() -> None:
    report, health = reports.report()._repr_html_(), healths.sick()._repr_html_()  # type: ignore[attr-defined]
    assert {"svg", "dl", "table"} <= read(report).seen
    assert "Before and after" in report
    assert "near target" in health


def test_the_looks_reach_nothing_around_the_value() -> None:
    rules = re.sub(r"@media[^{]*", "", fragment.scoped(style.STYLE))
    selectors = [each for prelude in re.findall(r"([^{}]+)\{", rules) for each in prelude.split(",")]
    assert len(selectors) > 100
    assert [each for each in selectors if not re.match(r"\.iceberg-compaction( |$)", each.strip())] == []
    assert fragment.looks().count("{") == fragment.looks().count("}")
    assert '[data-jp-theme-light="false"] .iceberg-compaction' in fragment.looks()


def test_a_repr_is_one_readable_line() -> None:
    for value in values("shop.events"):
        assert repr(value) == str(value)
        assert re.fullmatch(r"<\w+ of (run \w+ on )?shop\.events: .+>", repr(value)), repr(value)
        assert len(repr(value)) < 200
    assert repr(healths.sick()).startswith("<TableHealth of shop.events: sick, score ")
    assert ", 40 of them small; 40.0 MiB.>" in repr(healths.sick())
