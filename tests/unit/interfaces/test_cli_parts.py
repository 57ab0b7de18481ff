"""The parts of the command line that need no table: flags, exit codes, signals, progress, redaction."""

from __future__ import annotations

import io
import logging
import signal
import sys
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

import pytest
import typer
from typer.testing import CliRunner

from iceberg_compaction import errors
from iceberg_compaction.cancel import CancelToken
from iceberg_compaction.interfaces.cli import engine_start, exits, interrupt, logs, options, progress, spread
from iceberg_compaction.model import events, outcome
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.policies import Policy, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator


RUN = {"table": "db.t", "run_id": "r"}
PLANNING = events.Planning(**RUN)
COMMITTING = events.Committing(**RUN, groups=1)


def rewriting(done: int = 0) -> events.Rewriting:
    return events.Rewriting(**RUN, files_done=done, files_total=4, bytes_done=done * 100, bytes_total=400)


def finished(kind: Kind) -> events.Finished:
    more = {"snapshot_id": 1} if kind is Kind.COMPACTED else {}
    return events.Finished(**RUN, outcome=outcome.parse({"kind": kind, "sentence": "Done.", **RUN, **more}))


def test_every_policy_option_has_a_flag() -> None:
    flags = {field.name for field in fields(options.PolicyOptions)} - {"option", "target_file_size"}
    assert flags == set(Policy.model_fields)
    assert options.PolicyOptions().strategy == Strategy.SMALL_FILES.value


def test_a_group_of_options_becomes_flags() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Group:
        size: Annotated[int, typer.Option(help="How large.")] = 3
        names: Annotated[list[str] | None, typer.Option()] = None

    seen: list[object] = []

    def verb(word: Annotated[str, typer.Option()], group: Group) -> None:
        seen.append((word, group))

    verb.__annotations__ = {"word": Annotated[str, typer.Option()], "group": Group, "return": None}
    app = typer.Typer()
    app.command()(spread.spread(verb))
    result = CliRunner().invoke(app, ["--word", "a", "--names", "x", "--names", "y"])
    assert result.exit_code == 0, result.output
    assert seen == [("a", Group(size=3, names=["x", "y"]))]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigError("c"), 2),
        (errors.NoSuchTableError("n"), 1),
        (errors.UnreachableError("u"), 1),
        (errors.StateUnknownError("s"), 1),
        (errors.CancelledError("c"), 130),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("z"), 1),
    ],
)
def test_one_table_of_exit_codes(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    @exits.reported
    def verb() -> None:
        raise error

    with pytest.raises(typer.Exit) as ended:
        verb()
    assert ended.value.exit_code == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1


def test_a_traceback_shows_only_at_debug_level(capsys: pytest.CaptureFixture[str], own_logging: None) -> None:
    for verbose, shown in ((0, False), (1, False), (2, True)):
        logs.configure(options.ConsoleOptions(verbose=verbose))
        exits.complain(ZeroDivisionError("z"))
        assert ("where it happened" in capsys.readouterr().err) is shown


def test_secrets_are_struck_out_of_logs(capsys: pytest.CaptureFixture[str], own_logging: None) -> None:
    logs.configure(options.ConsoleOptions(verbose=2))
    logs.keep_secret({"s3.secret-access-key": "open-sesame", "s3.region": "eu-west-1", "credential": "me:swordfish"})
    logging.getLogger("iceberg_compaction.x").warning("open-sesame in eu-west-1 with swordfish")
    said = capsys.readouterr().err
    assert "open-sesame" not in said
    assert "swordfish" not in said
    assert "eu-west-1" in said


def test_libraries_never_log_below_warnings(own_logging: None) -> None:
    logs.configure(options.ConsoleOptions(verbose=2))
    assert not logging.getLogger("botocore.auth").isEnabledFor(logging.INFO)
    assert logging.getLogger("iceberg_compaction.x").isEnabledFor(logging.DEBUG)


def test_a_signal_cancels_work_that_looks_and_a_second_one_does_not_wait() -> None:
    token, before = CancelToken(), signal.getsignal(signal.SIGINT)
    with interrupt.listening(token), token.looking():
        signal.raise_signal(signal.SIGINT)
        assert token.cancelled
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_commit_is_not_interrupted_but_what_comes_after_it_is_not_begun() -> None:
    token = CancelToken()
    with interrupt.listening(token), token.looking():
        with token.shield():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            assert not token.cancelled
        with pytest.raises(errors.CancelledError, match="what was committed before stays"):
            token.check()


def test_a_signal_to_work_that_does_not_look_stops_at_once() -> None:
    with interrupt.listening(CancelToken()), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_work_begins_ends_what_the_engine_has_begun(number: signal.Signals) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), engine_start.starting("inline", None):
        signal.raise_signal(number)
    assert signal.getsignal(signal.SIGTERM) is before


def test_progress_outside_a_terminal_is_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress(options.ConsoleOptions()) as shown:
        for step in (PLANNING, rewriting(), rewriting(2)):
            shown.on_event(step)
        shown.on_event(rewriting(4))
        shown.on_event(COMMITTING)
        shown.on_event(events.Committed(**RUN, snapshot_id=7, groups=1))
        shown.on_event(rewriting(4))  # says nothing new
        shown.on_event(finished(Kind.COMPACTED))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "db.t: planning"
    assert lines[1].startswith("db.t: rewriting, 0 of 4 files")
    assert lines[2].startswith("db.t: rewriting, 4 of 4 files, 400 B")
    assert lines[3:] == ["db.t: committing", "db.t: committed 1 group in snapshot 7", "db.t: compacted"]


def test_a_commit_in_between_does_not_speed_rewriting_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([100.0, 140.0, 142.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.progress(options.ConsoleOptions()) as shown:
        for step in (rewriting(), rewriting(4), COMMITTING, rewriting(4)):
            shown.on_event(step)
    assert capsys.readouterr().err.splitlines()[-1].endswith("400 B, 10 B/s")


def test_progress_on_a_terminal_is_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")
    with progress.progress(options.ConsoleOptions()) as shown:
        shown.on_event(PLANNING)
        shown.on_event(rewriting(2))
        shown.on_event(rewriting(4))
        shown.on_event(finished(Kind.COMPACTED))
        shown.on_event(events.Planning(table="db.[/odd]", run_id="r"))
    drawn = terminal.getvalue()
    assert "4/4 files" in drawn
    assert "db.[/odd]" in drawn
    assert "400 B of 400 B" in drawn
    assert "compacted" in drawn


@pytest.mark.parametrize("flags", [{"quiet": True}, {"progress": False}])
def test_progress_can_be_turned_off(flags: dict[str, bool], capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress(options.ConsoleOptions(**flags)) as shown:
        shown.on_event(PLANNING)
        shown.on_event(finished(Kind.HEALTHY))
    assert capsys.readouterr().err == ""


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Logging as it was before, whatever a test configures."""
    root, ours = logging.getLogger(), logging.getLogger("iceberg_compaction")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
