"""`doctor` on a real lake: patterns, broken tables, the report, and properties set on request."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli import fixing
from iceberg_compaction.interfaces.cli.app import app

if TYPE_CHECKING:
    from typer.testing import Result

CODEC = "write.parquet.compression-codec"


class Clinic:
    """A lake with a sick, a healthy and a broken table."""

    def __init__(self, lake: lakes.Lake) -> None:
        self.lake = lake
        lakes.append_small_files(lakes.make_table(lake.catalog, "db.sick", properties={CODEC: "gzip"}), 6)
        lakes.append_small_files(lakes.make_table(lake.catalog, "db.fine"), 1)

    def break_one(self) -> None:
        broken = lakes.append_small_files(lakes.make_table(self.lake.catalog, "db.broken"), 1)
        Path(broken.metadata_location.removeprefix("file://")).unlink()

    def call(self, *args: str, typed: str | None = None) -> Result:
        settings = self.lake.settings
        flags = ["--catalog-uri", str(settings.uri), "--warehouse", str(settings.warehouse)]
        return CliRunner().invoke(app, ["doctor", *args, *flags], env={"NO_COLOR": "1"}, input=typed)

    def codec(self) -> str | None:
        return self.lake.catalog.load_table("db.sick").properties.get(CODEC)


@pytest.fixture
def clinic(local_lake: lakes.Lake) -> Clinic:
    return Clinic(local_lake)


def document(result: Result) -> Any:
    return json.loads(result.stdout)


@pytest.mark.parametrize("flags", [[], ["--all"], ["--table", "*"], ["--table", "db.*", "--parallel", "1"]])
def test_a_broken_table_is_a_row_and_does_not_stop_the_rest(clinic: Clinic, flags: list[str]) -> None:
    clinic.break_one()
    result = clinic.call(*flags, "--output", "json")
    assert result.exit_code == 1, result.output
    found = {one["table"]: one for one in document(result)}
    assert set(found) == {"db.sick", "db.fine", "db.broken"}
    assert set(found["db.broken"]) == {"table", "error", "state"}
    assert "missing" in found["db.broken"]["error"]
    assert (found["db.sick"]["sick"], found["db.fine"]["sick"]) == (True, False)
    assert "1 of 3 tables could not be read" in result.stderr
    assert "Traceback" not in result.output


def test_a_broken_table_for_people(clinic: Clinic) -> None:
    clinic.break_one()
    result = clinic.call("--exit-code")
    assert result.exit_code == 1  # broken comes before sick
    assert "broken" in result.stdout
    assert "db.broken: " in result.stdout
    assert "looked at 3 of 3 tables" in result.stderr


def test_the_only_table_named_is_the_error(clinic: Clinic) -> None:
    clinic.break_one()
    result = clinic.call("--table", "db.broken")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "missing" in result.stderr


def test_a_pattern_takes_what_it_matches(clinic: Clinic) -> None:
    clinic.break_one()
    result = clinic.call("--table", "db.[fs]i*", "--exit-code", "--output", "json")
    assert result.exit_code == 3
    assert [one["table"] for one in document(result)] == ["db.fine", "db.sick"]


def test_one_table_shows_score_writers_growth_and_advice(clinic: Clinic) -> None:
    result = clinic.call("--table", "db.sick")
    assert result.exit_code == 0, result.stderr
    for said in ("Score 58 of 100", "50 x (1 - 5 / 6)", "Who wrote it", "unknown engine (append)", "6 of 6", "Growth"):
        assert said in result.stdout
    assert f"Set {CODEC}=zstd (now gzip)" in result.stdout


def test_json_of_one_table_has_all_parts(clinic: Clinic) -> None:
    found = document(clinic.call("--table", "db.sick", "--output", "json"))
    assert sum(part["points"] for part in found["score_parts"]) == pytest.approx(found["score"], abs=1)
    assert found["writers"][0]["live_small_files"] == 6
    assert sum(day["added_files"] for day in found["growth"]) == 6
    assert found["fixes"][0]["new"] == "zstd"
    assert found["deletes"]["fragment_ratio"] == 0


class Text(HTMLParser):
    """The words of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.words = ""

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_report_has_every_table(clinic: Clinic, tmp_path: Path) -> None:
    clinic.break_one()
    path = tmp_path / "health.html"
    assert clinic.call("--all", "--report", str(path), "--quiet").exit_code == 1
    page = Text()
    page.feed(path.read_text())
    for said in ("db.sick", "db.fine", "db.broken", "missing", "Who makes the small files"):
        assert said in page.words


def test_a_report_that_cannot_be_written(clinic: Clinic, tmp_path: Path) -> None:
    result = clinic.call("--report", str(tmp_path / "no" / "health.html"))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def test_the_report_shows_the_trend_since_an_earlier_result(clinic: Clinic, tmp_path: Path) -> None:
    earlier, path = tmp_path / "monday.json", tmp_path / "health.html"
    earlier.write_text(clinic.call("--all", "--output", "json").stdout)
    lakes.append_small_files(clinic.lake.catalog.load_table("db.fine"), 6)
    result = clinic.call("--report", str(path), "--compare", str(earlier))
    assert result.exit_code == 0, result.output
    page = Text()
    page.feed(path.read_text())
    assert "Compared with monday.json, a file of " in page.words
    assert "Healthy before, sick now (1): db.fine" in page.words
    assert "+6 files" in page.words


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "The earlier report {path} cannot be read: No such file or directory."),
        ("<html>", "{path} is not an earlier result of `doctor --output json`."),
        ('{"version": 1}', "{path} is not an earlier result of `doctor --output json`."),
    ],
)
def test_an_earlier_result_that_is_none_is_refused_before_the_work(
    clinic: Clinic, tmp_path: Path, text: str | None, sentence: str
) -> None:
    path, report = tmp_path / "old.json", tmp_path / "health.html"
    if text is not None:
        path.write_text(text)
    result = clinic.call("--report", str(report), "--compare", str(path))
    assert result.exit_code == 2
    assert sentence.format(path=path) in result.stderr
    assert not report.exists()


def test_a_comparison_needs_a_report(clinic: Clinic) -> None:
    result = clinic.call("--compare", "old.json")
    assert result.exit_code == 2
    assert "give --report FILE as well" in result.stderr


def test_properties_are_shown_and_set_with_yes(clinic: Clinic) -> None:
    result = clinic.call("--all", "--fix-properties", "--yes", "--output", "json")
    assert result.exit_code == 0, result.output
    assert f"db.sick: {CODEC}: gzip -> zstd" in result.stderr
    assert "db.sick: 1 property set." in result.stderr
    assert clinic.codec() == "zstd"
    assert len(document(result)) == 2
    again = clinic.call("--all", "--fix-properties", "--yes")
    assert again.exit_code == 0
    assert "No table property would help" in again.stderr


def test_nothing_is_set_where_nobody_can_be_asked(clinic: Clinic) -> None:
    result = clinic.call("--table", "db.sick", "--fix-properties")
    assert result.exit_code == 2
    assert "gzip -> zstd" in result.stderr
    assert "--yes" in result.stderr
    assert clinic.codec() == "gzip"


@pytest.mark.parametrize(("answer", "codec"), [("y\n", "zstd"), ("n\n", "gzip"), ("\n", "gzip")])
def test_on_a_terminal_it_asks(clinic: Clinic, monkeypatch: pytest.MonkeyPatch, answer: str, codec: str) -> None:
    monkeypatch.setattr(fixing, "_somebody_is_there", lambda: True)
    result = clinic.call("--table", "db.sick", "--fix-properties", typed=answer)
    assert result.exit_code == 0, result.output
    assert "Set these properties?" in result.stderr
    assert clinic.codec() == codec


def test_a_property_changed_meanwhile_is_left_alone(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask() -> bool:
        with clinic.lake.catalog.load_table("db.sick").transaction() as transaction:
            transaction.set_properties({CODEC: "snappy"})
        return True

    monkeypatch.setattr(fixing, "_somebody_is_there", ask)
    result = clinic.call("--table", "db.sick", "--fix-properties", typed="y\n")
    assert result.exit_code == 1
    assert "Somebody else changed" in result.stderr
    assert clinic.codec() == "snappy"


def test_yes_alone_is_a_mistake(clinic: Clinic) -> None:
    result = clinic.call("--yes")
    assert result.exit_code == 2
    assert "--fix-properties" in result.stderr


def test_as_many_partitions_as_asked_for(clinic: Clinic) -> None:
    found = document(clinic.call("--table", "db.sick", "--partitions", "0", "--output", "json"))
    assert found["worst_partitions"] == []
    assert clinic.call("--table", "db.sick", "--partitions", "9" * 40).exit_code == 0  # as many as there are
