"""The page of a run is one well-formed page without anything from elsewhere, whatever a table is called."""

from __future__ import annotations

import shlex

from tests.factories import reports
from tests.unit.interfaces.test_html_report import EVIL, read

from iceberg_compaction.interfaces import run_words
from iceberg_compaction.interfaces.html import run_charts, run_page
from iceberg_compaction.model.run_listing import RunState


def command(*words: str) -> str:
    return shlex.join(("iceberg-compact", *words))


def test_a_page_has_all_parts_of_the_report() -> None:
    page = read(run_page.render(reports.report(), command))
    for words in ("Before and after", "Predicted and actual", "Time by stage", "Groups", "Commits", "Events"):
        assert words in page.text
    for figure in ("5,000", "9.3 GiB", "12 x", "It is damaged.", "day=2026-01-31", "2026-01-31 12:01:10 UTC"):
        assert figure in page.text, figure
    assert page.links == []
    assert page.scripts == 1


def test_names_and_sentences_are_escaped() -> None:
    made = reports.report(table=EVIL, sentence=EVIL, unknown=(EVIL,))
    page = read(run_page.render(made, command))
    assert page.scripts == 1
    assert EVIL in page.text


def test_a_run_without_an_end_and_an_old_record_have_a_page() -> None:
    empty = {"record": None, "finished_ms": None, "actual": None, "before": None, "after": None, "stages": ()}
    running = reports.report(state=RunState.RUNNING, commits=(), events=(), health=(), followed_by=(), **empty)
    page = read(run_page.render(running, command))
    assert "running" in page.text
    assert "Commits of other programs" in page.text
    old = reports.report(stages=(), forecast=None, before=None, after=None, events=(), health=(), tasks=None)
    assert "committed" in read(run_page.render(old, command)).text


def test_one_look_at_a_table_draws_no_line() -> None:
    assert run_charts.over_time(reports.report().health[:1], []) == ""


def test_a_run_without_an_end_shows_no_sizes_after_it() -> None:
    unfinished = reports.report().model_copy(update={"record": None, "after": None})
    assert run_words.sizes(unfinished) == []
    assert "Sizes" not in run_page.render(unfinished, command)
    assert "Sizes" in run_page.render(reports.report(), command)
