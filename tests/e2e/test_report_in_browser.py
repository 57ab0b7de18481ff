"""The report as people see it: in a real browser, narrow and wide, light and dark, with and without its script. Skipped
only where there is no Chromium (apt-get install chromium, or CHROMIUM=program)."""

from __future__ import annotations

import itertools
import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
from tests.factories import browser, healths, reports

from iceberg_compaction.interfaces.html import page, run_page, trend
from iceberg_compaction.model.table_health import BrokenTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.factories.browser import Page

WIDTHS = (320, 400, 700, 1001, 1200)
TABLES = 120
LONG = "north.warehouse." + "a_very_long_name_" * 12
COMMAND = "/opt/bin/iceberg-compact run --catalog-uri 'sqlite:///my lake.db' --table shop.t7"
SHOWN = """[...document.querySelectorAll('#overview tbody tr')].filter(row => row.offsetParent)
  .map(row => row.cells[0].innerText)"""
# The lowest contrast of any text to its ground, as WCAG defines it, and the text.
CONTRAST = """(() => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = text => { const [r, g, b] = parts(text).map(v => linear(v / 255));
    return .2126 * r + .7152 * g + .0722 * b; };
  const ground = element => { for (let e = element; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(c)) return c; }
    return 'rgb(255, 255, 255)'; };
  let worst = [99, ''];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) { const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !e.checkVisibility() || ['SCRIPT', 'OPTION'].includes(e.tagName)) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < worst[0]) worst = [ratio, walker.currentNode.data]; }
  return worst; })()"""
# Elements that reach beyond the right edge of the window.
BEYOND = """[...document.querySelectorAll('body *')].filter(e => e.checkVisibility())
  .filter(e => !e.closest('.unseen, .skip, thead'))
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    program = browser.find()
    if program is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium, or set CHROMIUM")
    with browser.opened(program) as tab:
        yield tab


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred and more tables in all states, with an earlier look."""
    sick = healths.sick()
    growth = tuple(healths.day(number, 10 * number) for number in (1, 2, 9, 30))
    tables = []
    for number in range(TABLES):
        state = {"unsupported": ("It has row lineage.",)} if number % 10 == 3 else {"sick": number % 2 == 1}
        name = LONG if number == 1 else f"shop.t{number}"
        days = growth if number % 2 else growth[:1]
        figures = {"table": name, "score": number * 7 % 100, "data_files": 10**6 * number, "growth": days}
        tables.append(sick.model_copy(update={**figures, **state, "advice": (f"Run: {COMMAND}", *sick.advice)}))
    earlier = [{"table": f"shop.t{number}", "score": 50, "data_files": 3, "sick": True} for number in range(TABLES)]
    broken = BrokenTable(table="shop.gone", error=f"The manifest s3://bucket/{'x' * 300}.avro is missing.")
    about = page.Report(
        catalog=f"prod_{LONG}",
        moment=datetime(2026, 2, 1, tzinfo=timezone.utc),
        earlier=trend.parse(json.dumps(earlier), "monday.json"),
    )
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page.page([*tables, broken], about), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def run_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a table with a long name."""
    file = tmp_path_factory.mktemp("run") / "run.html"
    made = reports.report(table=LONG, sentence=f"The file s3://bucket/{'x' * 300}.parquet was left alone.")
    file.write_text(run_page.render(made, lambda *words: COMMAND), encoding="utf-8")
    return file


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("of", ["report", "run_report"])
def test_nothing_overflows_and_every_text_has_contrast(
    tab: Page, of: str, width: int, dark: bool, request: pytest.FixtureRequest
) -> None:
    tab.look_at(request.getfixturevalue(of), width=width, dark=dark)
    tab.run("document.querySelectorAll('details').forEach((each, number) => { each.open = number < 12; })")
    assert tab.run("document.documentElement.scrollWidth") == width
    assert tab.run(BEYOND) == []
    ratio, text = tab.run(CONTRAST)
    assert ratio >= 4.5, text
    grounds = tab.run("getComputedStyle(document.body).backgroundColor")
    assert grounds == ("rgb(18, 22, 29)" if dark else "rgb(246, 247, 249)")


@pytest.mark.parametrize("of", ["report", "run_report"])
def test_no_request_is_made_and_no_error_is_logged(tab: Page, of: str, request: pytest.FixtureRequest) -> None:
    file: Path = request.getfixturevalue(of)
    tab.requests.clear()
    tab.look_at(file, width=1200)
    assert set(tab.requests) == {file.as_uri()}
    assert tab.troubles == []


def test_the_page_of_a_run_has_its_commands_to_copy(tab: Page, run_report: Path) -> None:
    tab.look_at(run_report, width=1200)
    assert tab.run("[...document.querySelectorAll('button.copy')].filter(each => each.checkVisibility()).length") > 1


def test_search_leaves_the_rows_and_sections_with_all_words(tab: Page, report: Path) -> None:
    tab.look_at(report, width=1200)
    tab.run("document.getElementById('search').focus()")
    tab.type("T11 sick")
    assert set(tab.run(SHOWN)) == {"shop.t11", "shop.t111", "shop.t115", "shop.t117", "shop.t119"}
    assert tab.run("document.getElementById('count').innerText") == f"5 of {TABLES + 1} tables"
    assert tab.run("[...document.querySelectorAll('details')].filter(each => !each.hidden).length") == 5
    tab.press("Escape")
    assert len(tab.run(SHOWN)) == TABLES + 1


def test_states_are_filtered_by_keyboard(tab: Page, report: Path) -> None:
    tab.look_at(report, width=400)
    tab.run("document.querySelector('input[value=unsupported]').focus()")
    tab.press(" ")
    assert len(tab.run(SHOWN)) == TABLES // 10
    tab.run("document.querySelector('input[value=broken]').click()")
    assert tab.run(SHOWN)[0] == "shop.gone"
    assert len(tab.run(SHOWN)) == TABLES // 10 + 1


def test_columns_sort_up_and_down_and_tables_without_figures_come_last(tab: Page, report: Path) -> None:
    tab.look_at(report, width=1200)
    files = "[...document.querySelectorAll('#overview th button')].find(button => button.innerText === 'Files')"
    tab.run(f"{files}.focus()")
    tab.press("Enter")
    assert tab.run(SHOWN)[:3] == ["shop.t0", LONG, "shop.t2"]
    assert tab.run(f"{files}.parentElement.getAttribute('aria-sort')") == "ascending"
    tab.press("Enter")
    assert tab.run(SHOWN)[:2] == [f"shop.t{TABLES - 1}", f"shop.t{TABLES - 2}"]
    assert tab.run(SHOWN)[-1] == "shop.gone"


def test_narrow_screens_sort_by_a_list(tab: Page, report: Path) -> None:
    tab.look_at(report, width=400)
    first = tab.run(SHOWN)
    choose = (
        "(list => {{ list.value = '{}'; list.dispatchEvent(new Event('change')); }})(document.getElementById('sort'))"
    )
    tab.run(choose.format("0-"))
    assert tab.run(SHOWN)[:2] == ["shop.t119", "shop.t118"]
    tab.run(choose.format(""))
    assert tab.run(SHOWN) == first
    assert tab.run("document.getElementById('sort').checkVisibility()")


def test_a_command_is_copied_as_it_is(tab: Page, report: Path) -> None:
    tab.look_at(report, width=400)
    tab.call("Page.bringToFront")
    tab.run("document.querySelector('details .copy').focus()")
    tab.press("Enter")
    assert tab.run("navigator.clipboard.readText()") == COMMAND
    assert tab.run("document.activeElement.innerText") == "Copied"


def test_a_link_opens_the_section_of_its_table(tab: Page, report: Path) -> None:
    tab.look_at(report, width=1200)
    closed = "[...document.querySelectorAll('details')].find(each => !each.open && each.id === 't100')"
    assert tab.run(f"{closed} !== undefined")
    tab.run("document.querySelector('a[href=\"#t100\"]').click()")
    tab.run("new Promise(done => setTimeout(done))")
    assert tab.run("document.getElementById('t100').open")


def test_everything_can_be_read_without_the_script(tab: Page, report: Path) -> None:
    tab.look_at(report, width=400, script=False)
    assert len(tab.run(SHOWN)) == TABLES + 1
    assert not tab.run("document.querySelector('form.tools').checkVisibility()")
    assert not tab.run("document.querySelector('.copy').checkVisibility()")
    assert tab.run("document.querySelector('details[open] code').checkVisibility()")
    tab.look_at(report, width=400)


def test_controls_have_names_and_ids_are_unique(tab: Page, report: Path) -> None:
    tab.look_at(report, width=1200)
    named = "e.labels?.length || e.getAttribute('aria-label') || e.innerText.trim()"
    assert tab.run(f"[...document.querySelectorAll('button, input, select')].filter(e => !({named})).length") == 0
    assert (
        tab.run("(all => all.length - new Set(all.map(e => e.id)).size)([...document.querySelectorAll('[id]')])") == 0
    )
    levels = tab.run("[...document.querySelectorAll('h1, h2, h3')].map(e => +e.tagName[1])")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
