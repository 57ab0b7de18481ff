"""Tables on a terminal: nothing is cut, whatever the width and the names."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.markup import escape

from iceberg_compaction import errors
from iceberg_compaction.interfaces.cli import exits
from iceberg_compaction.interfaces.cli.screens import paragraphs, result_tables
from iceberg_compaction.interfaces.cli.screens.grid import Grid, figures, grid, sentences
from iceberg_compaction.interfaces.cli.screens.uncut import UncutConsole
from iceberg_compaction.model.outcome import Failed, GroupEnd, GroupOutcome

LONG = "db." + "a" * 197


def shown(thing: object, width: int) -> list[str]:
    console = UncutConsole(file=io.StringIO(), width=width, highlight=False)
    console.print(thing)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def tables(*names: str) -> Grid:
    table = grid("Table", "State", figures("Files"), figures("Mean", drop=1), figures("Target", drop=2))
    for name in names:
        table.add_row(name, "healthy", "1,234,567", "123.4 MiB", "512.0 MiB")
    return table


def test_columns_drop_out_in_their_order_and_are_named() -> None:
    assert "Target" in shown(tables("db.a"), 80)[0]
    lines = shown(tables("db.a"), 40)
    assert lines[0].split() == ["Table", "State", "Files", "Mean"]
    assert "Column left out for lack of width: Target" in " ".join(lines)
    assert "--output json" in " ".join(lines)
    assert "Columns left out for lack of width: Mean, Target" in " ".join(shown(tables("db.a"), 30))


@pytest.mark.parametrize("name", [LONG, "db." + "表" * 60, "db." + "e\u0301" * 120])
def test_a_long_name_is_whole_on_its_own_line_and_its_figures_stay_in_their_columns(name: str) -> None:
    lines = shown(tables("db.short", name), 80)
    assert name in lines
    figures_line = lines[lines.index(name) + 1]
    short = next(line for line in lines if line.startswith("db.short"))
    assert figures_line.strip() == short.removeprefix("db.short").strip()
    assert figures_line.index("healthy") == short.index("healthy")


def test_wide_characters_take_two_cells_and_combining_ones_none() -> None:
    lines = shown(tables("db.表表", "db.e\u0301", "db.abcd"), 80)
    starts = {cell_len(line[: line.index("healthy")]) for line in lines[2:5]}
    assert len(starts) == 1


def test_a_column_without_text_is_not_shown_and_not_mentioned() -> None:
    table = grid("Table", figures("Rows", drop=1), figures("Seconds"))
    table.add_row("db.a", "", "0.1")
    assert shown(table, 80)[0].split() == ["Table", "Seconds"]
    assert "left out" not in " ".join(shown(table, 10))


def test_sentences_wrap_in_their_column() -> None:
    table = grid("Left alone", sentences("Why"))
    table.add_row("well-sized", "one two three four five six seven eight nine ten")
    lines = shown(table, 40)
    assert all(cell_len(line) <= 40 for line in lines)
    assert " ".join(" ".join(lines[2:]).split()).endswith("eight nine ten")


def test_lines_instead_of_a_column_appear_only_where_it_dropped_out() -> None:
    table = grid("Run", sentences("What happened", least=40, drop=1))
    table.add_row("1", "the catalog did not answer in time, so that nothing was done at all")
    table.instead["What happened"] = [paragraphs.Named(name="1", sentence="the catalog did not answer")]
    assert "1: the catalog did not answer" in shown(table, 30)
    assert "1: the catalog did not answer" not in shown(table, 120)


@pytest.mark.parametrize("width", [1, 7, 20, 60])
def test_a_narrow_screen_shows_the_names(width: int) -> None:
    assert any(line.startswith("db.a") for line in shown(tables("db.a", LONG), width))
    assert LONG in shown(tables("db.a", LONG), width)


def test_further_lines_of_a_paragraph_are_indented() -> None:
    assert shown(paragraphs.bullet("one two three four"), 12) == ["- one two", "  three four"]


def test_commands_are_never_broken() -> None:
    command = "iceberg-compact run --table db.events --strategy full"
    assert command in shown(paragraphs.Command(label="apply with:", command=command), 30)
    assert f"- Run: {command}" in shown(paragraphs.bullet(f"Run: {command}"), 30)
    assert f"  {command}" in shown(paragraphs.Named(name="db.events", sentence=command), 30)


def test_groups_that_ended_for_one_reason_are_one_line() -> None:
    ends = [GroupOutcome(id=number, partition="{}", outcome=GroupEnd.NOT_REACHED) for number in range(9)]
    broken = GroupOutcome(
        id=9, partition='{"day": "2026-01-01"}', outcome=GroupEnd.FAILED, sentence="The file a.parquet is damaged."
    )
    failed = Failed(table="db.a", sentence="It failed.", run_id="r", group_outcomes=(broken, *ends))
    lines = [line for thing in result_tables.outcome_sentences([failed]) for line in shown(thing, 80)]
    assert any(line.split()[:3] == ["9", "groups", "not-reached"] for line in lines)
    assert any(line.startswith("day=2026-01-01  failed") and "a.parquet" in line for line in lines)
    assert len(lines) < 8


def test_a_sentence_of_an_error_has_one_full_stop(capsys: pytest.CaptureFixture[str]) -> None:
    exits.complain(errors.MetadataError("The manifest a.avro cannot be read: no such file.."))
    assert capsys.readouterr().err == "error: The manifest a.avro cannot be read: no such file.\n"


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("esc\x1b[31mred", "esc\\x1b[31mred"),
        ("new\nline", "new\\nline"),
        ("tab\tname", "tab\\tname"),
        ("turn\u202eed", "turn\\u202eed"),
        ("a[red]b", "a[red]b"),
        ("e\u0301 表\u3000 \U0001f469\u200d\U0001f467", "e\u0301 表\u3000 \U0001f469\u200d\U0001f467"),
    ],
)
def test_a_name_cannot_move_the_cursor_or_colour_the_screen(name: str, spelled: str) -> None:
    assert shown(tables(escape(name)), 80)[2].startswith(spelled)
    assert shown(paragraphs.Named(name=name, sentence="It is well."), 80) == [f"{spelled}: It is well."]


def test_a_path_in_a_sentence_stays_in_one_piece() -> None:
    path = "file:///lake/" + "folder/" * 20 + "00000.parquet"
    lines = shown(paragraphs.Named(name="db.a", sentence=f"The file {path} is missing."), 60)
    assert path in lines
    assert lines[0] == "db.a: The file"
    assert f"  {path}" in shown(paragraphs.detail(f"It lacks {path} now."), 60)
