"""The report is one well-formed page without anything from elsewhere, whatever a table is called."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from html.parser import HTMLParser

import pytest
from tests.factories import histories, inventories

from iceberg_compaction.inspect import assess, health_request
from iceberg_compaction.interfaces import words
from iceberg_compaction.interfaces.html import charts, page
from iceberg_compaction.model.policies import Policy, resolve_sizes
from iceberg_compaction.model.table_health import BrokenTable, GrowthDay, TableHealth

MIB = 2**20
NOW = datetime(2026, 2, 1, 8, 30, tzinfo=timezone.utc)
EVIL = '<script>alert("x")</script>&\'"'
_VOID = {"meta", "br", "hr", "img", "input", "link"}


class Checker(HTMLParser):
    """Every element is closed, in the right order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name, value in attrs if name in ("href", "src") and value]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> Checker:
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    return checker


def sick(name: str = "shop.events", app: str = "5f1c") -> TableHealth:
    rows = inventories.files([MIB] * 40, partitions=[f'{{"day": "<{n % 4}>"}}' for n in range(40)])
    past = histories.history(
        histories.commits(
            40, engine="flink", app=app, added_files=4, added_bytes=4, changed_partitions=1, total_files=5
        ),
        metadata_files=100,
        partitioned=True,
    )
    stock = inventories.view(rows, table=name, snapshots=400)
    asked = health_request.Checkup(policy=Policy(), sizes=resolve_sizes(Policy(), {}), sick=True, history=past)
    return assess.assess(stock, asked)


def test_a_page_has_everything_about_every_table() -> None:
    found = [sick(), BrokenTable(table="shop.gone", error="Manifest m.avro is missing.")]
    checker = read(page.page(found, catalog="prod", now=NOW))
    for said in ("Health of prod", "2026-02-01 08:30 UTC", "shop.events", "shop.gone", "Manifest m.avro is missing."):
        assert said in checker.text
    for said in ("file sizes", "near target", "flink job 5f1c (append)", "write.distribution-mode", "400 snapshots"):
        assert said in checker.text
    assert '{"day": "<1>"}' in checker.text
    assert "svg" in checker.seen
    assert checker.links == [f"#{anchor}" for anchor in checker.ids]


def test_nothing_is_loaded_from_elsewhere_and_nothing_runs() -> None:
    text = page.page([sick()], catalog="prod", now=NOW)
    checker = read(text)
    assert not checker.seen & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"https?://|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text


def test_names_cannot_break_out() -> None:
    found = [sick(EVIL, app=EVIL), BrokenTable(table=EVIL, error=EVIL)]
    checker = read(page.page(found, catalog=EVIL, now=NOW))
    assert "script" not in checker.seen
    assert EVIL in checker.text


def test_an_empty_lake_and_an_empty_table() -> None:
    stock = inventories.view(inventories.files([]), pin=None, manifests=0, snapshots=0)
    asked = health_request.Checkup(
        policy=Policy(), sizes=resolve_sizes(Policy(), {}), sick=False, history=histories.history()
    )
    empty = assess.assess(stock, asked)
    assert "shop.events" in read(page.page([empty], catalog="prod", now=NOW)).text
    assert "Health of prod" in read(page.page([], catalog="prod", now=NOW)).text


def test_many_tables_are_all_in_the_overview() -> None:
    one = sick()
    found = [one.model_copy(update={"table": f"t{n}", "score": n}) for n in range(5)]
    checker = read(page.page(found, catalog="prod", now=NOW, most_sections=2))
    assert checker.ids == ["t0", "t1"]
    assert all(f"t{n}" in checker.text for n in range(5))
    assert "3 healthier tables" in checker.text


def day(number: int, total: int | None) -> GrowthDay:
    return GrowthDay(
        day=f"2026-01-{number:02d}",
        commits=1,
        added_files=number,
        removed_files=0,
        added_bytes=0,
        removed_bytes=0,
        added_records=0,
        removed_records=0,
        total_files=total,
        total_bytes=None,
        total_records=None,
        added_files_by_writer={},
    )


def test_growth_can_be_drawn_with_whatever_is_known() -> None:
    assert charts.growth([]) == ""
    assert "polyline" in charts.growth([day(1, 5), day(2, 9)])
    assert "polyline" not in charts.growth([day(1, None)])


@pytest.mark.parametrize(
    ("values", "drawn"), [([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"), ([0], "▁"), ([5, 5], "▇▇"), ([10**9], "█")]
)
def test_sparklines(values: list[int], drawn: str) -> None:
    assert words.sparkline(values) == drawn


def test_growth_in_a_line() -> None:
    assert words.growth_line([day(1, 5), day(2, 40)]) == (
        "▁█  5 -> 40 data files on 2 days with commits; 3 files added in 2 commits"
    )
    assert words.growth_line([day(3, 7)]) == "7 data files at the end of 2026-01-03; 3 files added in 1 commit"
    assert words.growth_line([day(3, None)]) == "3 files added in 1 commit"
