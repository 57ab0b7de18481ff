"""The report is one well-formed page without anything from elsewhere, whatever a table is called."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from html.parser import HTMLParser

import pytest
from tests.factories import histories, inventories
from tests.factories.healths import day, sick

from iceberg_compaction.inspect import assess, health_request
from iceberg_compaction.interfaces import words
from iceberg_compaction.interfaces.html import charts, page, tags, trend
from iceberg_compaction.model.policies import Policy, resolve_sizes
from iceberg_compaction.model.table_health import BrokenTable

NOW = datetime(2026, 2, 1, 8, 30, tzinfo=timezone.utc)
EVIL = '<script>alert("x")</script>&\'"'
_VOID = {"meta", "br", "hr", "img", "input", "link", "wbr"}


class Checker(HTMLParser):
    """Every element is closed, in the right order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts = 0
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.scripts += tag == "script"
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


def test_a_page_has_everything_about_every_table() -> None:
    found = [sick(), BrokenTable(table="shop.gone", error="Manifest m.avro is missing.")]
    checker = read(page.page(found, page.Report(catalog="prod", moment=NOW)))
    for said in ("Health of prod", "2026-02-01 08:30 UTC", "shop.events", "shop.gone", "Manifest m.avro is missing."):
        assert said in checker.text
    for said in ("file sizes", "near target", "flink job 5f1c (append)", "write.distribution-mode", "400 snapshots"):
        assert said in checker.text
    assert '{"day": "<1>"}' in checker.text
    assert "2026-01-01: 40 commits, 160 files" in checker.text
    assert checker.links == ["#tables", "#t0"]
    assert {"tables", "t0"} <= set(checker.ids)


def test_nothing_is_loaded_from_elsewhere_and_nothing_runs_but_its_own_script() -> None:
    text = page.page([sick()], page.Report(catalog="prod", moment=NOW))
    checker = read(text)
    assert not checker.seen & {"link", "img", "iframe", "object"}
    assert not re.search(r"https?://|url\(|@import", text)
    assert re.search(r"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-[\w+/=]+'", text)
    assert text.count("<script") == 1
    assert "prefers-color-scheme: dark" in text


def test_names_cannot_break_out() -> None:
    found = [sick(EVIL, app=EVIL), BrokenTable(table=EVIL, error=EVIL)]
    checker = read(page.page(found, page.Report(catalog=EVIL, moment=NOW)))
    assert checker.scripts == 1
    assert EVIL in checker.text


def test_an_empty_lake_and_an_empty_table() -> None:
    stock = inventories.view(inventories.files([]), pin=None, manifests=0, snapshots=0)
    asked = health_request.Checkup(
        policy=Policy(), sizes=resolve_sizes(Policy(), {}), sick=False, history=histories.history()
    )
    empty = assess.assess(stock, asked)
    assert "shop.events" in read(page.page([empty], page.Report(catalog="prod", moment=NOW))).text
    assert "Health of prod" in read(page.page([], page.Report(catalog="prod", moment=NOW))).text


def test_many_tables_are_all_in_the_overview() -> None:
    one = sick()
    found = [one.model_copy(update={"table": f"t{n}", "score": n}) for n in range(5)]
    checker = read(page.page(found, page.Report(catalog="prod", moment=NOW, most_sections=2)))
    assert [name for name in checker.ids if name.startswith("t") and name != "tables"] == ["t0", "t1"]
    assert all(f"t{n}" in checker.text for n in range(5))
    assert "3 healthier tables" in checker.text


def test_growth_is_drawn_over_the_calendar() -> None:
    assert charts.growth([]) == ""
    drawn = charts.growth([day(1, 5), day(2, 9), day(11, 7)])
    assert 'points="0.0,33.3 48.0,4.0 480.0,18.7"' in drawn
    assert "Data files at the end of a day: 5 first, 7 last, 9 at most" in drawn
    assert "Files added in a day: 11 at most" in drawn
    assert "polyline" not in charts.growth([day(1, None), day(2, None)])


def test_growth_of_one_day_is_a_sentence() -> None:
    sentence = "2026-01-03: 1 commit, 3 files (0 B) added; 7 data files at its end."
    assert charts.growth([day(3, 7)]) == f"<p>{sentence}</p>"
    assert "at its end" not in charts.growth([day(3, None)])


def test_growth_far_from_now_is_drawn_too() -> None:
    far = [day(1, 5).model_copy(update={"day": "-0044-03-15"}), day(1, 5).model_copy(update={"day": "12026-01-01"})]
    assert "polyline" in charts.growth(far)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Run: /opt/x y/iceberg-compact run --table 'a b'", "/opt/x y/iceberg-compact run --table 'a b'"),
        ("Look: `iceberg-compact doctor --table a`.", "iceberg-compact doctor --table a"),
    ],
)
def test_a_command_in_a_sentence_has_a_button(text: str, code: str) -> None:
    checker = read(tags.sentence(text))
    assert checker.text.startswith(text.partition(": ")[0])
    assert checker.text.endswith(f"{code}Copy")


def test_other_code_in_a_sentence_has_no_button() -> None:
    assert tags.sentence("Set `a.b` & go.") == "Set <code>a.b</code> &amp; go."


EARLIER = [
    {"table": "a", "score": 90, "data_files": 10, "sick": False, "a field of the future": [1]},
    {"table": "gone", "score": 50, "data_files": 7, "sick": True},
    {"table": "back", "error": "No answer.", "state": "unreachable"},
]


def test_the_trend_since_an_earlier_look() -> None:
    now = [sick("a").model_copy(update={"score": 41}), sick("back"), sick("new"), BrokenTable(table="b", error="no")]
    earlier = trend.parse(json.dumps(EARLIER), "monday.json")
    text = read(page.page(now, page.Report(catalog="prod", moment=NOW, earlier=earlier))).text
    for said in (
        "Compared with monday.json.",
        "Healthy before, sick now (1): a",
        "Unreachable before, sick now (1): back",
        "Not in the earlier report (2): b, new",
        "Only in the earlier report (1): gone",
        "was healthy, score \N{MINUS SIGN}49, +30 files",
        "tables (+1)",
        "sick (+2)",
        "data files (+103)",
    ):
        assert said in text


def test_a_look_without_changes_says_so() -> None:
    earlier = trend.parse(sick("a").model_dump_json(), "monday.json")
    text = read(page.page([sick("a")], page.Report(catalog="prod", moment=NOW, earlier=earlier))).text
    assert "All tables are in the same state as before." in text


@pytest.mark.parametrize("text", ["", "no", "3", "null", '[{"score": 1}]', '{"tables": []}', '["a"]'])
def test_a_file_that_is_no_earlier_look_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the reader of the file says it in its own words
        trend.parse(text, "x")


def test_every_state_has_a_tile_and_states_that_occur_have_a_filter() -> None:
    now = [sick("a"), sick("b").model_copy(update={"sick": False, "unsupported": ("lineage",)})]
    text = page.page(now, page.Report(catalog="prod", moment=NOW))
    assert re.findall(r"<span>(\w+)</span></li>", text)[:6] == [
        "tables", "healthy", "sick", "unsupported", "unreachable", "broken",
    ]  # fmt: skip
    assert re.findall(r'name="state" value="(\w+)"', text) == ["unsupported", "sick"]


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
