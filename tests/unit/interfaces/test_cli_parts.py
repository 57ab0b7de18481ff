"""The parts of the command line that need no table: flags, exit codes, signals, redaction."""

from __future__ import annotations

import logging
import signal
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

import pytest
import typer
from typer.testing import CliRunner

from iceberg_compaction import errors
from iceberg_compaction.cancel import CancelToken
from iceberg_compaction.interfaces.cli import engine_start, exits, interrupt, logs, options, spread
from iceberg_compaction.model.policies import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_every_policy_option_has_a_flag() -> None:
    shorter = {"target_file_size", "copy", "min_row_group_size"}
    sources = {"option", "trigger", "policy_file", "environment"}
    flags = {field.name for field in fields(options.PolicyOptions)} - sources - shorter
    assert flags == set(Policy.model_fields)
    assert options.PolicyOptions().given() == {}  # what is not given is left to the policy


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


@pytest.fixture
def own_logging() -> Iterator[None]:
    """Logging as it was before, whatever a test configures."""
    root, ours = logging.getLogger(), logging.getLogger("iceberg_compaction")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
