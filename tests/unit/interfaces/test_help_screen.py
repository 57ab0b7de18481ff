"""Help is complete at any width, and wrong usage is one sentence."""

from __future__ import annotations

import re
import shlex

import pytest
import typer
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli import exits
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.interfaces.cli.screens import help_screen

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def help_of(verb: str, width: int) -> str:
    result = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": str(width)})
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("verb", COMMANDS)
def test_every_option_name_is_whole_and_no_line_too_wide(verb: str, width: int) -> None:
    text = help_of(verb, width)
    visible = [one for one in COMMANDS[verb].params if not getattr(one, "hidden", False)]
    names = [name for one in visible for name in one.opts if name.startswith("-")]
    assert [name for name in names if not re.search(rf"^ .*{re.escape(name)}\b", text, re.MULTILINE)] == []
    longest = max(len(name) for line in text.splitlines() for name in line.split())
    assert all(len(line) <= max(width, longest + 30) for line in text.splitlines())
    if width >= 80:
        assert all(len(line) <= width for line in text.splitlines())


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_has_no_technical_type_names_and_no_ellipsis(verb: str) -> None:
    assert re.findall(r"<\w+>|…|\[x>", help_of(verb, 80)) == []


def test_a_flag_has_no_value_and_an_option_has_a_name_for_it() -> None:
    text = help_of("doctor", 80)
    assert re.search(r"^  --all  +Every table", text, re.MULTILINE)
    assert re.search(r"^  -t, --table NAME  +A table", text, re.MULTILINE)
    assert re.search(r"^  --partitions N  +How many", text, re.MULTILINE)
    assert re.search(r"^  -o, --output table\|json  +", text, re.MULTILINE)


def test_a_long_example_is_broken_where_the_shell_goes_on_reading() -> None:
    command = "iceberg-compact run --table shop.events --where \"at >= '2026-01-01'\" --verify deep --output json"
    lines = list(help_screen.example_lines(command, 50))
    assert all(len(line) <= 50 for line in lines)
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(command)


def test_the_application_lists_its_verbs_with_and_without_help() -> None:
    asked, bare = CliRunner().invoke(app, ["--help"]), CliRunner().invoke(app, [])
    assert (asked.exit_code, bare.exit_code) == (0, 2)
    assert asked.stdout == bare.stdout
    assert all(re.search(rf"^  {verb} ", asked.stdout, re.MULTILINE) for verb in COMMANDS)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("doctor --output xml", "error: Invalid value for '--output' / '-o': 'xml' is not one of 'table', 'json'."),
        ("cache foo", "error: Invalid value for 'action': 'foo' is not one of 'show', 'clear'."),
        ("history --limit x", "error: Invalid value for '--limit': it must be a whole number."),
        ("history --limit 0", "error: Invalid value for '--limit': it must be at least 1."),
        ("apply", "error: Missing argument 'FILE'."),
        ("docter", "error: No such command 'docter'. Did you mean 'doctor'?"),
        ("history --table", "error: Option '--table' requires an argument."),
        ("plan -t a --min-input-files x", "error: Wrong value for min-input-files: it must be a whole number."),
        ("plan -t a --strategy x", "error: 'x' is not a strategy; choose one of small-files, full, delete-files,"),
        ("plan -t a --strategy 'x y'", "error: Wrong value for strategy: "),
        ("plan -t a --target-file-size-bytes x", "error: Wrong value for target-file-size-bytes: 'x' is not a size;"),
    ],
)
def test_wrong_usage_is_one_sentence(line: str, sentence: str) -> None:
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[0].startswith(sentence)
    assert "Value error" not in result.stderr
    assert ".." not in result.stderr


def test_no_answer_to_a_question_is_a_cancel_and_no_defect(capsys: pytest.CaptureFixture[str]) -> None:
    def verb() -> None:
        raise typer.Abort

    with pytest.raises(typer.Exit) as end:
        exits.reported(verb)()
    assert end.value.exit_code == exits.CANCELLED
    assert capsys.readouterr().err.startswith("error: Cancelled")
