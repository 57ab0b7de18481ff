"""Progress on standard error: stages, figures that were measured, lines in logs, bars on terminals of any width."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import pytest

from iceberg_compaction.interfaces.cli import options, progress
from iceberg_compaction.interfaces.cli.live import bars, lines, table_progress
from iceberg_compaction.model import events, outcome
from iceberg_compaction.model.outcome import Kind

if TYPE_CHECKING:
    from iceberg_compaction.model.events import Event

RUN = {"table": "db.t", "run_id": "r"}
PLANNING = events.Planning(**RUN)
STARTING = events.Starting(**RUN, engine="Spark")
COMMITTING = events.Committing(**RUN, groups=1)
COMMITTED = events.Committed(**RUN, snapshot_id=7, groups=1)


def rewriting(done: int = 0, **more: Any) -> events.Rewriting:
    given = {"files_done": done, "files_total": 4, "bytes_done": done * 100, "bytes_total": 400}
    return events.Rewriting(**{**RUN, **given, **more})


def finished(kind: Kind) -> events.Finished:
    more = {"snapshot_id": 1} if kind is Kind.COMPACTED else {}
    return events.Finished(**RUN, outcome=outcome.parse({"kind": kind, "sentence": "Done.", **RUN, **more}))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def shown(steps: list[tuple[float, Event]], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of events that come after so many seconds each."""
    clock = Clock()
    display = lines.Lines(clock)
    for seconds, event in steps:
        clock.now += seconds
        display.on_event(event)
    return capsys.readouterr().err.splitlines()


def test_stages_have_a_line_when_they_begin(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [(0, PLANNING), (1, STARTING), (2, rewriting()), (0.5, rewriting(4)), (0, finished(Kind.COMPACTED))]
    assert shown(steps, capsys) == [
        "db.t: starting Spark, 1 s elapsed",
        "db.t: rewriting, 0 B of 400 B, 0 of 4 files, 3 s elapsed",
        "db.t: compacted, 400 B of 400 B, 4 of 4 files, 4 s elapsed",
    ]


def test_counts_have_separators_and_the_form_of_their_noun(capsys: pytest.CaptureFixture[str]) -> None:
    many = rewriting(1, files_done=1200, files_total=2400, groups_committed=1, groups_total=1)
    assert shown([(0, PLANNING), (1, many)], capsys) == [
        "db.t: rewriting, 100 B of 400 B, 1,200 of 2,400 files, 1 of 1 group committed, 1 s elapsed"
    ]


def test_batches_do_not_flood_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    batches = [step for done in range(100) for step in ((0.1, rewriting(1)), (0, COMMITTING), (0, COMMITTED))]
    told = shown([(0, PLANNING), *batches, (0, finished(Kind.COMPACTED))], capsys)
    assert len(told) == 3  # in ten seconds
    assert told[1] == "db.t: rewriting, 100 B of 400 B, 1 of 4 files, 20 B/s, about 15 s left, 5 s elapsed"


def test_the_rate_is_measured_from_the_beginning_of_the_rewrite(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [(0, PLANNING), (60, rewriting()), (40, rewriting(2)), (0, COMMITTING), (40, rewriting(3))]
    assert shown(steps, capsys)[1:] == [
        "db.t: rewriting, 200 B of 400 B, 2 of 4 files, 5 B/s, about 40 s left, 1 min 40 s elapsed",
        "db.t: rewriting, 300 B of 400 B, 3 of 4 files, 4 B/s, about 27 s left, 2 min 20 s elapsed",
    ]


def test_a_log_says_so_when_bytes_count_by_whole_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [(0, rewriting(by_task=True)), (3, rewriting(by_task=True)), (9, rewriting(by_task=True))]
    assert shown(steps, capsys) == [
        "db.t: rewriting, 0 B of 400 B, 0 of 4 files, 0 s elapsed",
        "db.t: rewriting, 0 B of 400 B, 0 of 4 files, counted by whole tasks, 12 s elapsed",
    ]


def test_a_log_goes_on_while_nothing_happens(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "EVERY_SECONDS", 0.02)
    seen = ""
    with progress.progress(options.ConsoleOptions()) as display:
        assert display.on_event is not None
        display.on_event(PLANNING)
        while seen.count("db.t: planning, 0 s elapsed\n") < 2:
            seen += capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.4, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (-1, "0 s")]
)
def test_durations_are_for_people(seconds: float, told: str) -> None:
    assert table_progress.format_seconds(seconds) == told


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    return terminal


def test_a_terminal_has_bars_and_a_line_for_each_table_that_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with progress.progress(options.ConsoleOptions()) as display:
        assert display.on_event is not None
        for event in (PLANNING, STARTING, rewriting(2), rewriting(4), finished(Kind.COMPACTED)):
            display.on_event(event)
    assert "db.t\x1b[0m: compacted, 400 B of 400 B, 4 of 4 files, 0 s elapsed" in terminal.getvalue()


@pytest.mark.parametrize(
    ("steps", "drawn"),
    [
        ([PLANNING], "db.t: planning 3 s elapsed"),
        ([PLANNING, STARTING], "db.t: starting Spark 3 s elapsed"),
        (
            [PLANNING, STARTING, rewriting(), rewriting(3, bytes_done=398)],
            "db.t: rewriting ━━━━━━━━━━━━━━━━━━━─ 99%, 398 B of 400 B\n"
            "  3 of 4 files, 133 B/s, about 0 s left, 3 s elapsed",
        ),
        (
            [rewriting(), rewriting(4, groups_committed=1, groups_total=2), COMMITTING],
            "db.t: committing ━━━━━━━━━━━━━━━━━━━━ 100%, 400 B of 400 B\n"
            "  4 of 4 files, 1 of 2 groups committed, 133 B/s, 3 s elapsed",
        ),
    ],
)
def test_a_terminal_shows_the_stage_and_what_was_measured(
    steps: list[Event], drawn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_terminal(monkeypatch)
    clock = Clock()
    display = bars.Bars(clock)
    for event in steps:
        display.on_event(event)
    clock.now += 3
    assert display._draw().plain == drawn


def test_a_long_name_is_shown_whole_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    name = "db.[/odd]" + "x" * 200
    with progress.progress(options.ConsoleOptions()) as display:
        assert display.on_event is not None
        display.on_event(events.Planning(table=name, run_id="r"))
    drawn = "".join(line for line in terminal.getvalue().replace("\x1b[0m", "").replace("\x1b[1m", "").splitlines())
    assert name in drawn


@pytest.mark.parametrize("flags", [{"quiet": True}, {"progress": False}])
def test_progress_can_be_turned_off(flags: dict[str, bool], capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress(options.ConsoleOptions(**flags)) as display:
        assert display.on_event is None
    assert capsys.readouterr().err == ""
