"""Log lines as JSON: each is an object with the run and table that it belongs to, and without secrets."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from iceberg_compaction.interfaces.cli import exits, logs, options
from iceberg_compaction.observe import log_lines, run_scope


def line_of(message: str, *args: object) -> dict[str, str]:
    record = logging.LogRecord("iceberg_compaction.x", logging.WARNING, "", 0, message, args, None)
    line: dict[str, str] = json.loads(log_lines.JsonLines(logs.clean).format(record))
    return line


def test_a_line_has_time_level_logger_and_message() -> None:
    line = line_of('%d files, "quoted"\nand a second line', 3)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "iceberg_compaction.x",
        "message": '3 files, "quoted"\nand a second line',
    }


def test_a_line_of_a_run_names_it_and_its_table() -> None:
    with run_scope.working("db.t", "r"):
        assert (line_of("x")["run_id"], line_of("x")["table"]) == ("r", "db.t")
    assert "run_id" not in line_of("x")


def test_a_line_of_a_helping_thread_belongs_to_the_one_run_and_to_none_of_two() -> None:
    lines: list[dict[str, str]] = []

    def help_out() -> None:
        thread = threading.Thread(target=lambda: lines.append(line_of("x")))
        thread.start()
        thread.join()

    with run_scope.working("db.t", "r"):
        help_out()
        with run_scope.working("db.u", "s"):
            help_out()
            assert line_of("x")["table"] == "db.u"
    assert [line.get("run_id") for line in lines] == ["r", None]


def test_secrets_are_struck_out_before_they_are_quoted() -> None:
    logs.keep_secret({"s3.secret-access-key": 'pass"word\\'})
    assert line_of("key %s", 'pass"word\\')["message"] == "key ***"


@pytest.fixture
def json_logs() -> object:
    logs.configure(options.ConsoleOptions(log_format=options.LogFormat.JSON))
    yield
    logs.configure(options.ConsoleOptions())


def test_sentences_for_people_are_lines_of_the_log(json_logs: object, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(options.ConsoleOptions(log_format=options.LogFormat.JSON, quiet=True))
    exits.complain(ValueError("no"))
    logs.write("half done", source="progress")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["level"], line["logger"]) for line in lines] == [
        ("error", "iceberg_compaction.cli"),
        ("info", "iceberg_compaction.progress"),
    ]


def test_arguments_that_do_not_fit_their_message_fail_nothing(
    json_logs: object, capsys: pytest.CaptureFixture[str]
) -> None:
    (handler,) = [each for each in logging.getLogger().handlers if type(each).__module__ == logs.__name__]
    handler.handle(logging.LogRecord("library", logging.WARNING, "", 0, "%d files", ("three",), None))
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "%d files (TypeError: its arguments do not fit)"
