"""The command line on a real lake: what is printed where, which code a command ends with, what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import manifests
from typer.testing import CliRunner

from iceberg_compaction import Plan, load_plan
from iceberg_compaction.interfaces import documents, wiring
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.model import rewrite_plan
from iceberg_compaction.model.copy_plan import Way
from iceberg_compaction.model.outcome import parse
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.model.run_record import RunRecord

if TYPE_CHECKING:
    from typer.testing import Result


class Shop:
    """A lake with one sick and one healthy table, and the command line pointed at it."""

    def __init__(self, lake: lakes.Lake, state: Path) -> None:
        self.lake = lake
        self.state = state
        sick = lakes.make_table(lake.catalog, lake.name("events"))
        lakes.append_small_files(sick, 6)
        fine = lakes.make_table(lake.catalog, lake.name("orders"))
        lakes.append_small_files(fine, 1)

    @property
    def catalog_flags(self) -> list[str]:
        settings = self.lake.settings
        return ["--catalog-uri", str(settings.uri), "--warehouse", str(settings.warehouse)]

    def call(self, *args: str) -> Result:
        env = {"NO_COLOR": "1", "ICEBERG_COMPACTION_STATE": str(self.state)}
        return CliRunner().invoke(app, [*args, *self.catalog_flags], env=env)

    def run(self, *args: str) -> Result:
        return self.call("run", "--engine", "inline", "--state", str(self.state), *args)

    def files(self, table: str) -> int:
        return int(self.lake.catalog.load_table(self.lake.name(table)).inspect.data_files().num_rows)


@pytest.fixture
def shop(local_lake: lakes.Lake, tmp_path: Path) -> Shop:
    return Shop(local_lake, tmp_path / "runs.db")


def document(result: Result) -> Any:
    return json.loads(result.stdout)


def test_run_compacts_and_prints_the_outcome_with_its_proof(shop: Shop) -> None:
    result = shop.run("--table", "db.events", "--strategy", "full", "--output", "json")
    assert result.exit_code == 0, result.stderr
    outcome = document(result)
    assert outcome["kind"] == "compacted"
    assert (outcome["files_removed"], outcome["files_added"]) == (6, 1)
    assert outcome["proof"]["source"] == outcome["proof"]["sink"]
    assert shop.files("events") == 1
    assert "rewriting" in result.stderr


def test_run_gets_rid_of_deletes_by_strategy(shop: Shop) -> None:
    table = shop.lake.catalog.load_table("db.orders")
    (path,) = table.inspect.data_files()["file_path"].to_pylist()
    manifests.add_position_delete(table, {path: [0, 1, 2]})
    flags = ("--table", "db.orders", "--strategy", "delete-files", "--output", "json")
    (group,) = document(shop.call("plan", *flags))["groups"]
    assert (group["reason"], group["delete_files"], group["deleted_rows"]) == ("deletes", 1, 3)
    assert document(shop.call("plan", *flags, "--delete-ratio-threshold", "0.5"))["groups"] == []
    found = document(shop.call("doctor", "--table", "db.orders", "--output", "json"))
    assert found["sick"]
    assert any("--strategy delete-files" in advice for advice in found["advice"])
    result = shop.run(*flags, "--delete-file-threshold", "1", "--keep-spec")
    assert result.exit_code == 0, result.stderr
    outcome = document(result)
    assert (outcome["kind"], outcome["deleted_rows"], outcome["delete_files_removed"]) == ("compacted", 3, 1)
    assert outcome["records"] == 7
    assert document(shop.run(*flags))["kind"] == "healthy"
    wrong = shop.run("--table", "db.orders", "--delete-ratio-threshold", "2")
    assert wrong.exit_code == 2
    assert "delete-ratio-threshold" in wrong.stderr


def test_nothing_to_do_is_a_success(shop: Shop) -> None:
    result = shop.run("--table", "db.orders", "--output", "json")
    assert result.exit_code == 0
    assert document(result)["kind"] == "healthy"


def test_flags_without_a_verb_run(shop: Shop) -> None:
    result = shop.call(
        "--table=db.events", "--strategy=small-files", "--engine=inline", f"--state={shop.state}", "--output=json"
    )
    assert result.exit_code == 0, result.stderr
    assert document(result)["strategy"] == "small-files"
    assert shop.files("events") == 1


def test_tables_for_people_name_the_rows_and_the_checksum(shop: Shop) -> None:
    result = shop.run("--table", "db.events")
    assert result.exit_code == 0, result.stderr
    assert "6 -> 1" in result.stdout
    assert "60 rows in, 60 rows out" in result.stdout
    assert "checksum" in result.stdout


def test_a_pattern_runs_every_table_and_prints_a_list(shop: Shop) -> None:
    result = shop.run("--table", "db.*", "--output", "json")
    assert result.exit_code == 0, result.stderr
    assert {one["table"]: one["kind"] for one in document(result)} == {"db.events": "compacted", "db.orders": "healthy"}


def test_one_broken_table_does_not_stop_the_rest(shop: Shop) -> None:
    result = shop.run("--table", "db.nothing", "--table", "db.events", "--output", "json")
    assert result.exit_code == 1
    assert [one["kind"] for one in document(result)] == ["failed", "compacted"]
    assert shop.files("events") == 1


def test_a_run_of_which_a_group_failed_says_so_wherever_one_looks(shop: Shop) -> None:
    paths = shop.lake.catalog.load_table("db.events").inspect.data_files()["file_path"].to_pylist()
    Path(paths[0].removeprefix("file://")).write_bytes(b"")
    options = ("--option", "max-file-group-input-files=2", "--option", "min-input-files=2")
    result = shop.run("--table", "db.events", *options)
    assert result.exit_code == 1
    assert "compacted, 1 failed" in result.stdout
    assert "2 of 3" in result.stdout
    assert paths[0] in "".join(result.stdout.split())
    assert paths[0] in "".join(result.stderr.split())
    assert shop.files("events") == 4  # two of the group that failed
    history = ["history", "--state", str(shop.state)]
    (record,) = document(CliRunner().invoke(app, [*history, "--output", "json"]))
    (failed,) = [group for group in record["outcome"]["group_outcomes"] if group["outcome"] == "failed"]
    assert failed["file_path"] == paths[0]
    assert "compacted, 1 failed" in CliRunner().invoke(app, history).stdout


def test_an_unsupported_table_is_refused_and_untouched(shop: Shop) -> None:
    table = shop.lake.catalog.load_table("db.events")
    with table.transaction() as transaction:
        transaction.set_properties({"encryption.key-id": "k1"})
    result = shop.run("--table", "db.events", "--output", "json")
    assert result.exit_code == 0
    assert document(result)["kind"] == "unsupported"
    assert shop.files("events") == 6
    assert shop.run("--table", "db.events", "--fail-on", "unsupported").exit_code == 1


def test_a_run_that_reaches_its_deadline_is_cancelled_and_changes_nothing(shop: Shop) -> None:
    result = shop.run("--table", "db.events", "--deadline", "0.000001s")
    assert result.exit_code == 130
    assert "at its deadline" in result.stderr
    assert shop.files("events") == 6
    assert shop.run("--table", "db.events", "--deadline", "2h").exit_code == 0


def test_a_typo_is_answered_with_the_nearest_names(shop: Shop) -> None:
    result = shop.run("--table", "db.event", "--output", "json")
    assert result.exit_code == 1
    assert (document(result)["kind"], document(result)["error"]) == ("error", "NoSuchTableError")
    assert result.stderr == f"error: {document(result)['sentence']}\n"
    assert "db.events" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--option", "min-input-file=3"], "did you mean min-input-files?"),
        (["--option", "min-input-files"], "key=value"),
        (["--strategy", "quick"], "strategy"),
        (["--target-file-size", "huge"], "512MB"),
        (["--engine", "abacus"], "spark, inline"),
        (["--deadline", "soon"], "write it as 90s, 15m, 2h or 1d"),
        (["--log-level", "loud"], "warning"),
        (["--no-such-flag"], "No such option"),
    ],
)
def test_wrong_usage_ends_with_2(shop: Shop, flags: list[str], told: str) -> None:
    result = shop.run("--table", "db.events", *flags)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stdout == ""
    assert shop.files("events") == 6


def test_options_go_by_their_spark_names(shop: Shop) -> None:
    result = shop.call(
        "plan", "--table", "db.events", "--option", "min-input-files=7", "--target-file-size=1MB", "-o", "json"
    )
    assert result.exit_code == 0, result.stderr
    assert document(result)["policy"]["min-input-files"] == 7
    plan = rewrite_plan.parse(documents.restore(document(result)))
    assert plan.policy.min_input_files == 7
    assert plan.policy.target_file_size_bytes == 1_000_000
    assert plan.empty


def test_plan_explains_itself_and_goes_to_a_file(shop: Shop, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    result = shop.call("plan", "--table", "db.events", "--out", str(out))
    assert result.exit_code == 0, result.stderr
    plan = load_plan(out)
    assert (plan.table, plan.input_files, plan.output_files) == ("db.events", 6, 1)
    assert plan.groups[0].sentence in result.stdout
    assert shop.files("events") == 6


def test_a_plan_of_several_tables_has_no_file(shop: Shop, tmp_path: Path) -> None:
    result = shop.call("plan", "--table", "db.*", "--out", str(tmp_path / "plan.json"))
    assert result.exit_code == 2
    assert "one table" in result.stderr


def test_doctor_shows_all_tables(shop: Shop) -> None:
    result = shop.call("doctor", "--output", "json")
    assert result.exit_code == 0, result.stderr
    assert {one["table"]: one["sick"] for one in document(result)} == {"db.events": True, "db.orders": False}


def test_doctor_of_one_table_draws_its_histogram_and_advice(shop: Shop) -> None:
    result = shop.call("doctor", "--table", "db.events")
    assert result.exit_code == 0, result.stderr
    assert "sick" in result.stdout
    assert "How large the files are" in result.stdout
    assert "█" in result.stdout


def test_doctor_tells_sickness_by_its_exit_code(shop: Shop) -> None:
    assert shop.call("doctor", "--exit-code").exit_code == 3
    assert shop.run("--table", "db.events").exit_code == 0
    assert shop.call("doctor", "--exit-code").exit_code == 0


def test_what_is_copied_is_planned_told_and_remembered(shop: Shop) -> None:
    told = document(shop.call("plan", "--table", "db.events", "--copy", "always", "-o", "json"))
    plan = Plan.model_validate(documents.restore(told))
    (group,) = plan.groups
    assert (group.copying, group.row_groups, group.copied_bytes) == (Way.ASKED, 6, group.bytes)
    assert (plan.copying.least, plan.copying.copied_bytes) == (1, group.bytes)
    shown = shop.call("plan", "--table", "db.events", "--copy", "always").stdout
    assert group.copy_sentence in shown
    assert plan.copying.sentence in shown
    effort = document(shop.run("--table", "db.events", "--copy", "always", "-o", "json"))["effort"]
    assert (effort["copied_groups"], effort["encoded_groups"]) == (6, 0)
    head = shop.lake.catalog.load_table(shop.lake.name("events")).current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert head.summary["compaction.copied-bytes"] == str(effort["copied_bytes"])
    assert head.summary["compaction.copied-row-groups"] == "6"
    told = shop.run("--table", "db.events", "--rewrite-all", "--copy", "never").stdout
    assert "was copied, 6 row groups encoded." in told
    listed = CliRunner().invoke(app, ["history", "--state", str(shop.state)], env={"COLUMNS": "160"}).stdout
    assert [f" {share} " in listed for share in ("100%", "0%")] == [True, True]


def test_small_row_groups_are_encoded_unless_the_minimum_says_otherwise(shop: Shop) -> None:
    outcome = document(shop.run("--table", "db.events", "--min-row-group-size", "1KB", "-o", "json"))
    assert (outcome["effort"]["copied_groups"], outcome["effort"]["encoded_groups"]) == (0, 6)  # break-even is higher
    result = shop.call("plan", "--table", "db.events", "--min-row-group-size", "100MB", "--rewrite-all", "-o", "json")
    assert document(result)["copying"]["least"] == 100_000_000
    for flags in (["--copy", "sometimes"], ["--min-row-group-size", "0"], ["--min-row-group-size", "small"]):
        result = shop.call("plan", "--table", "db.events", *flags)
        assert result.exit_code == 2
        assert result.stderr.startswith("error: Wrong value for ")


def test_a_plan_is_made_with_what_earlier_runs_took(shop: Shop) -> None:
    outcome = parse(documents.restore(document(shop.run("--table", "db.events", "-o", "json"))))
    effort = Effort(encoded_bytes=10**9, encode_seconds=10, copied_bytes=10**9, copy_seconds=1)
    wiring.run_store(shop.state).save(
        RunRecord(
            run_id="r",
            table="db.events",
            version="1",
            started_ms=9 * 10**12,
            finished_ms=9 * 10**12 + 1,
            outcome=outcome.model_copy(update={"effort": effort}),
        )
    )
    told = document(shop.call("plan", "--table", "db.events", "--rewrite-all", "-o", "json"))["copying"]
    assert told["rates"]["encoding"] == {"bytes_per_second": 100_000_000.0, "origin": "table", "runs": 1}
    assert told["least"] == told["break_even"] > 8 * 2**20
    assert "100 MB/s encoding (measured in 1 run on this table)" in told["sentence"]


def test_history_remembers_runs(shop: Shop) -> None:
    run_id = document(shop.run("--table", "db.events", "--output", "json"))["run_id"]
    shop.run("--table", "db.orders")
    result = CliRunner().invoke(app, ["history", "--state", str(shop.state), "--output", "json"])
    assert [(one["table"], one["outcome"]["kind"]) for one in document(result)] == [
        ("db.orders", "healthy"),
        ("db.events", "compacted"),
    ]
    told = CliRunner().invoke(
        app, ["history", "--state", str(shop.state), "--table", "db.events"], env={"COLUMNS": "160"}
    )
    assert run_id[:8] in told.stdout
    assert "db.orders" not in told.stdout


@pytest.mark.parametrize("verb", ["history", "plan", "run", "manifests"])
def test_a_file_that_is_no_run_store_is_left_as_it_is(shop: Shop, tmp_path: Path, verb: str) -> None:
    (tmp_path / "runs.txt").write_text("no database" * 1000)
    for file, reason in (
        (tmp_path / "runs.txt", "it is no SQLite database"),
        (Path(str(shop.lake.settings.uri).removeprefix("sqlite:///")), "it is another program's database, with tables"),
    ):
        before = file.read_bytes()
        flags = [] if verb == "history" else ["--table", "db.events", *shop.catalog_flags]
        result = CliRunner().invoke(app, [verb, "--state", str(file), *flags])
        assert result.exit_code == 2
        assert result.stderr.startswith(f"error: The file {file} is not a run store: {reason}")
        assert result.stderr.count("\n") == 1
        assert file.read_bytes() == before
    assert shop.files("events") == 6


def test_history_creates_neither_file_nor_folder(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["history", "--state", str(tmp_path / "new" / "runs.db")])
    assert (result.exit_code, result.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_quiet_says_nothing_but_the_result(shop: Shop) -> None:
    result = shop.run("--table", "db.events", "--quiet", "--output", "json")
    assert result.exit_code == 0
    assert document(result)["kind"] == "compacted"
    assert result.stderr == ""


def test_no_catalog_at_all_is_wrong_usage() -> None:
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 2
    assert "--catalog-uri" in result.stderr


def test_secrets_never_show(shop: Shop) -> None:
    secrets = ["hunter2hunter2", "sesame-open-0123", "AKIAEXAMPLEEXAMPLE01"]
    flags = [
        *("--catalog-property", f"s3.secret-access-key={secrets[0]}"),
        *("--catalog-property", f"token={secrets[1]}"),
        *("--catalog-property", f"s3.access-key-id={secrets[2]}"),
        "-vv",
    ]
    for result in (
        shop.run("--table", "db.events", "--output", "json", *flags),
        shop.run("--table", "db.event", *flags),
        shop.call("plan", "--table", "db.events", "--output", "json", *flags),
        shop.call("doctor", "--table", "db.events", *flags),
        CliRunner().invoke(app, ["doctor", "--catalog-uri", f"postgresql://me:{secrets[0]}@127.0.0.1:1/x", "-vv"]),
    ):
        assert not [secret for secret in secrets if secret in result.output]
    assert result.exit_code in (1, 2)


def test_the_cache_is_shown_and_cleared(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEBERG_COMPACTION_CACHE", str(tmp_path / "cache"))
    assert shop.call("doctor", "--table", "db.events").exit_code == 0
    shown = CliRunner().invoke(app, ["cache", "--output", "json"])
    assert document(shown)["path"] == str(tmp_path / "cache")
    assert document(shown)["entries"] > 0
    cleared = CliRunner().invoke(app, ["cache", "clear"])
    assert cleared.stdout.startswith(f"Removed {document(shown)['entries']} entr")
    assert document(CliRunner().invoke(app, ["cache", "show", "--output", "json"]))["entries"] == 0
    monkeypatch.setenv("ICEBERG_COMPACTION_CACHE", "off")
    assert "Nothing is cached" in CliRunner().invoke(app, ["cache"]).stdout
