"""Groups that repeat each other are shown as one, with a count; the work is predicted in seconds of one core."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import inventories

from iceberg_compaction.interfaces.cli.screens import plan_story
from iceberg_compaction.interfaces.cli.screens.uncut import UncutConsole
from iceberg_compaction.model.copy_plan import Rate, Rates
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.rewrite_plan import Plan
from iceberg_compaction.plan import build

if TYPE_CHECKING:
    import pyarrow as pa

MIB = 2**20


def planned(rows: pa.Table, **more: Any) -> Plan:
    plan = build.build(inventories.view(rows), Policy(), plan_id="p1", now_ms=5, **more)
    assert isinstance(plan, Plan)
    return plan


def days(count: int, files: int) -> list[str]:
    return [f'{{"day": "2026-01-{day + 1:02}"}}' for day in range(count) for _ in range(files)]


def screen(plan: Plan) -> str:
    console = UncutConsole(file=io.StringIO(), width=80, highlight=False)
    for thing in (*plan_story.plan_story(plan), *plan_story.totals([plan], command="run it")):
        console.print(thing)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_groups_with_one_reason_are_one_kind() -> None:
    plan = planned(inventories.files([MIB] * 120, partitions=days(20, 6)))
    (kind,) = plan.groups.kinds()
    assert (kind.groups, kind.files, kind.bytes, kind.outputs) == (20, 120, 120 * MIB, 20)
    assert kind.sentence == "120 files of 1.0 MiB on average, all below 384.0 MiB, fit into 20"
    assert "120 of 120 files" in kind.copy_sentence


def test_groups_of_another_reason_are_another_kind_and_one_alone_names_its_partition() -> None:
    sizes = [MIB] * 12 + [2048 * MIB]
    plan = planned(inventories.files(sizes, partitions=[*days(2, 6), '{"day": "2026-02-01"}']))
    large, small = plan.groups.kinds()
    assert large.sentence == "day=2026-02-01: 1 file of 2.0 GiB, above 921.6 MiB, becomes 4"
    assert (small.groups, small.files) == (2, 12)


def test_twenty_groups_take_no_more_lines_than_four() -> None:
    few, many = (screen(planned(inventories.files([MIB] * 6 * n, partitions=days(n, 6)))) for n in (4, 20))
    assert len(many.splitlines()) <= len(few.splitlines()) + 1
    assert "20 partitions: day=2026-01-01, day=2026-01-02, day=2026-01-03 and 17 more" in many


def test_the_end_has_totals_and_the_command() -> None:
    rates = Rates(encoding=Rate(bytes_per_second=MIB))
    plan = planned(inventories.files([MIB] * 90), rates=rates)
    assert plan.copying.core_seconds == pytest.approx(90)
    last = screen(plan).splitlines()[-3:]
    assert " ".join(last) == (
        "Total: 90 files, 90.0 MiB, become about 1; about 90 seconds on one core, at an assumed speed; estimated "
        "cost $0.0018, saving $0.064 in 30 days. apply with: run it"
    )
