"""Runs over many tables: which of them, side by side, until when, and what programs read of the results."""

from __future__ import annotations

import json
import os
import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.cities import rows as city_rows
from typer.testing import CliRunner

from iceberg_compaction import errors
from iceberg_compaction.execute import perform_task
from iceberg_compaction.execute.engines.inline_engine import InlineEngine
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli import interrupt, options, progress
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.interfaces.cli.fleet import catalog_request, table_loop
from iceberg_compaction.model import events
from iceberg_compaction.model.policies import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result

    from iceberg_compaction.execute.engine_door import Job

NAMES = ("db.a", "db.b", "db.c", "db.locked", "tmp.x")


class Fleet:
    """Tables that need work; one of them must not be rewritten."""

    def __init__(self, lake: lakes.Lake, folder: Path) -> None:
        self.lake, self.folder = lake, folder

    def call(self, *args: str) -> Result:
        env = {"NO_COLOR": "1", "ICEBERG_COMPACTION_STATE": str(self.folder / "runs.db")}
        flags = ["--catalog-uri", str(self.lake.settings.uri)]
        return CliRunner().invoke(app, [*args, *flags], env=env)

    def run(self, *args: str) -> Result:
        return self.call("run", "--engine", "inline", *args)

    def files(self, name: str) -> int:
        return int(self.lake.catalog.load_table(name).inspect.data_files().num_rows)


def build(lake: lakes.Lake) -> None:
    lake.catalog.create_namespace("tmp")
    for name in NAMES:
        lakes.append_small_files(lakes.make_table(lake.catalog, name), 5)
    with lake.catalog.load_table("db.locked").transaction() as transaction:
        transaction.set_properties({"encryption.key-id": "k1"})


@pytest.fixture(scope="module")
def mould(tmp_path_factory: pytest.TempPathFactory) -> lakes.Mould:
    return lakes.Mould.of(tmp_path_factory.mktemp("fleet"), build)


@pytest.fixture
def fleet(mould: lakes.Mould, tmp_path: Path) -> Iterator[Fleet]:
    with mould.cast() as lake:
        yield Fleet(lake, tmp_path)


def kinds(result: Result) -> dict[str, str]:
    return {each["table"]: each["kind"] for each in json.loads(result.stdout)}


def test_all_tables_but_those_excluded_are_compacted(fleet: Fleet) -> None:
    result = fleet.run("--all", "--exclude", "tmp.*", "--exclude", "b", "--output", "json")
    assert result.exit_code == 0, result.stderr
    assert kinds(result) == {"db.a": "compacted", "db.c": "compacted", "db.locked": "unsupported"}
    assert "1 of 3 tables cannot be rewritten yet" in result.stderr
    assert [fleet.files(name) for name in NAMES] == [1, 5, 1, 5, 5]


def test_a_table_that_was_compacted_in_part_is_not_called_one_that_could_not_be(fleet: Fleet) -> None:
    tables = [fleet.lake.catalog.load_table(name) for name in ("db.a", "db.b")]
    lakes.append_small_files(tables[0], 2)  # enough files without the one that is lost
    os.remove(tables[0].inspect.data_files()["file_path"][0].as_py().removeprefix("file://"))
    os.remove(tables[1].metadata_location.removeprefix("file://"))
    result = fleet.run("--table", "db.*")
    assert result.exit_code == 1
    assert "\n1 of 4 tables could not be compacted; the result says why.\n" in result.stderr
    assert "\n1 of 4 tables was compacted only in part; the result says why.\n" in result.stderr


def test_a_plan_says_once_why_a_table_could_not_be_planned(fleet: Fleet) -> None:
    os.remove(fleet.lake.catalog.load_table("db.b").metadata_location.removeprefix("file://"))
    result = fleet.call("plan", "--table", "db.*")
    assert result.exit_code == 1
    assert result.stderr == "error: 1 of 4 tables could not be planned; the result says why.\n"
    assert " ".join(result.stdout.split()).count("is missing") == 1  # wherever the line ends


def test_an_unsupported_table_fails_a_run_only_on_request(fleet: Fleet) -> None:
    for verb in (("run", "--engine", "inline"), ("plan",), ("run", "--dry-run")):
        assert fleet.call(*verb, "--table", "db.locked").exit_code == 0
        assert fleet.call(*verb, "--table", "db.locked", "--fail-on", "unsupported").exit_code == 1


def test_a_dry_run_shows_the_plans_and_does_nothing(fleet: Fleet) -> None:
    result = fleet.call("run", "--dry-run", "--table", "db.*", "--output", "json")
    assert result.exit_code == 0, result.stderr
    assert kinds(result) == {"db.a": "planned", "db.b": "planned", "db.c": "planned", "db.locked": "unsupported"}
    assert [fleet.files(name) for name in NAMES] == [5] * 5
    shown = " ".join(fleet.call("run", "--dry-run", "--table", "db.*").stdout.split())
    assert "db.locked: unsupported: " in shown
    assert "--dry-run" not in shown


def test_a_dry_run_of_manifests_lists_every_table(fleet: Fleet) -> None:
    result = fleet.call("manifests", "--dry-run", "--table", "db.[al]*", "--output", "json")
    assert (result.exit_code, kinds(result)) == (0, {"db.a": "planned", "db.locked": "unsupported"})
    assert "db.locked: unsupported: " in " ".join(
        fleet.call("manifests", "--dry-run", "--table", "db.*").stdout.split()
    )
    single = fleet.call("manifests", "--dry-run", "--table", "db.locked", "--output", "json")
    assert (single.exit_code, json.loads(single.stdout)["kind"]) == (0, "unsupported")
    missing = fleet.call("manifests", "--dry-run", "--table", "db.a", "--table", "db.no", "--output", "json")
    assert (missing.exit_code, kinds(missing)) == (1, {"db.a": "planned", "db.no": "failed"})


def test_plan_says_by_its_exit_code_whether_there_is_something_to_do(fleet: Fleet) -> None:
    assert fleet.call("plan", "--table", "db.a").exit_code == 0
    assert fleet.call("plan", "--table", "db.a", "--exit-code").exit_code == 3
    assert fleet.run("--table", "db.a").exit_code == 0
    assert fleet.call("plan", "--table", "db.a", "--table", "db.locked", "--exit-code").exit_code == 0
    missing = fleet.call("plan", "--table", "db.a", "--table", "db.nothing", "--exit-code", "--output", "json")
    assert (missing.exit_code, kinds(missing)) == (1, {"db.a": "healthy", "db.nothing": "failed"})


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--all", "--table", "db.a"), "either --all or --table"),
        ((), "Name tables with --table"),
        (("--table", "db.a", "--report", "nowhere/health.html"), "there is no folder nowhere"),
        (("--table", "db.a", "--report", "."), "is a folder"),
        (("--table", "db.a", "--where", "no column = 1"), "The filter"),
    ],
)
def test_wrong_usage_is_a_document_too(fleet: Fleet, flags: tuple[str, ...], sentence: str) -> None:
    result = fleet.run(*flags, "--output", "json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["kind"], found["exit_code"], found["retryable"]) == (2, "error", 2, False)
    assert sentence in found["sentence"]
    assert fleet.files("db.a") == 5


def test_a_catalog_without_tables_is_no_error(local_lake: lakes.Lake, tmp_path: Path) -> None:
    for verb in (("run", "--engine", "inline"), ("plan",)):
        env = {"ICEBERG_COMPACTION_STATE": str(tmp_path / "runs.db")}
        flags = ["--all", "--catalog-uri", str(local_lake.settings.uri)]
        result = CliRunner().invoke(app, [*verb, *flags], env=env)
        assert (result.exit_code, result.stdout.strip()) == (0, "There are no tables.")
        assert json.loads(CliRunner().invoke(app, [*verb, *flags, "-o", "json"], env=env).stdout) == []


def test_ids_are_there_as_text_and_partitions_are_objects(fleet: Fleet) -> None:
    table = lakes.make_table(fleet.lake.catalog, "db.cities", SCHEMA, spec=BY_CITY)
    for number in range(5):
        table.append(city_rows(number * 10, ("Bern",), 3))
    plan = json.loads(fleet.call("plan", "--table", "db.cities", "-o", "json").stdout)
    assert [group["partition"] for group in plan["groups"]] == [{"city": "Bern"}]
    assert plan["pin"]["snapshot_id_str"] == str(plan["pin"]["snapshot_id"])
    assert plan["policy"]["min-input-files"] == 5
    outcome = json.loads(fleet.run("--table", "db.cities", "-o", "json").stdout)
    assert outcome["snapshot_ids_str"] == [str(outcome["snapshot_id"])] == [outcome["snapshot_id_str"]]
    (group,) = outcome["group_outcomes"]
    assert (group["partition"], group["snapshot_id_str"]) == ({"city": "Bern"}, outcome["snapshot_id_str"])


def test_results_lie_beside_the_report(fleet: Fleet, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    result = fleet.run("--all", "--table", "db.nothing", "--report", str(folder / "health.html"))
    assert result.exit_code == 2
    assert list(folder.iterdir()) == []
    result = fleet.run("--table", "db.*", "--table", "db.nothing", "--report", str(folder / "health.html"))
    assert result.exit_code == 1
    assert "db.locked" in (folder / "health.html").read_text()
    written = json.loads((folder / "run_results.json").read_text())
    assert written["exit_code"] == 1
    assert written["metadata"].keys() >= {"generated_at", "invocation_id", "iceberg_compaction_version"}
    rows = {row["unique_id"]: row["status"] for row in written["results"]}
    assert rows == {"db.a": "success", "db.b": "success", "db.c": "success", "db.locked": "skipped"} | {
        "db.nothing": "error"
    }
    first = written["results"][0]
    assert (first["message"], first["execution_time"]) == (first["outcome"]["sentence"], first["outcome"]["seconds"])


def test_a_report_whose_results_could_not_lie_beside_it_is_refused_before_any_work(
    fleet: Fleet, tmp_path: Path
) -> None:
    (tmp_path / "run_results.json").mkdir()
    for verb in (("run", "--engine", "inline"), ("doctor",)):
        result = fleet.call(*verb, "--table", "db.a", "--report", str(tmp_path / "health.html"), "--output", "json")
        document = json.loads(result.stdout)
        assert (result.exit_code, document["kind"]) == (2, "error")
        assert "run_results.json is a folder" in document["sentence"]
    assert fleet.files("db.a") == 5


def test_a_report_that_cannot_be_written_after_the_work_does_not_hide_the_outcome(fleet: Fleet, tmp_path: Path) -> None:
    report = tmp_path / "health.html"
    report.symlink_to("/dev/full")
    result = fleet.run("--table", "db.a", "--report", str(report), "--output", "json")
    assert (result.exit_code, json.loads(result.stdout)["kind"]) == (1, "compacted")
    assert "cannot be written" in result.stderr
    assert json.loads((tmp_path / "run_results.json").read_text())["exit_code"] == 0


def test_results_of_a_look_lie_beside_its_report(fleet: Fleet, tmp_path: Path) -> None:
    assert fleet.run("--table", "db.a").exit_code == 0
    result = fleet.call("doctor", "--report", str(tmp_path / "health.html"))
    assert result.exit_code == 0, result.stderr
    rows = json.loads((tmp_path / "run_results.json").read_text())["results"]
    statuses = {row["unique_id"]: row["status"] for row in rows}
    assert statuses == dict.fromkeys(("db.b", "db.c", "tmp.x"), "warn") | {"db.a": "success", "db.locked": "skipped"}
    assert rows[0]["health"]["table"] == rows[0]["unique_id"]


def test_several_tables_are_compacted_side_by_side(fleet: Fleet) -> None:
    result = fleet.run("--table", "db.?", "--parallel", "3", "--output", "json")
    assert result.exit_code == 0, result.stderr
    assert kinds(result) == {"db.a": "compacted", "db.b": "compacted", "db.c": "compacted"}
    assert [fleet.files(name) for name in NAMES] == [1, 1, 1, 5, 5]


class Meeting:
    """An engine of which jobs begin together: each waits until so many have begun."""

    def __init__(self, parties: int) -> None:
        self._engine = InlineEngine()
        self._all_here = threading.Barrier(parties, timeout=60)
        self.started = 0

    def cores(self) -> int:
        return 1

    def start(self, job: Job, *, cancel: Any) -> Any:
        self.started += 1
        self._all_here.wait()
        return self._engine.start(job, cancel=cancel)


def session(fleet: Fleet, engine: Any, **more: Any) -> table_loop.Session:
    console = options.ConsoleOptions(quiet=True)
    store = wiring.run_store(str(fleet.folder / "runs.db"))
    return table_loop.Session(lambda: nullcontext(engine), store, console, **more)


def test_tables_side_by_side_share_one_engine(fleet: Fleet) -> None:
    """Three jobs are under way at the same time, or the test would not come to its end."""
    engine = Meeting(parties=3)
    targets = catalog_request.Targets(names=("db.a", "db.b", "db.c"), single=False)
    with session(fleet, engine, parallel=3) as entered:
        outcomes = list(entered.compact(fleet.lake.catalog, targets, Policy()))
    assert {outcome.kind.value for outcome in outcomes} == {"compacted"}
    assert engine.started == 3


class Interrupting(Meeting):
    """An engine during whose first jobs somebody presses Ctrl-C."""

    def start(self, job: Job, *, cancel: Any) -> Any:
        self.started += 1
        if self._all_here.wait() == 0:
            cancel.cancel("Cancelled.")
        self._all_here.wait()
        return self._engine.start(job, cancel=cancel)


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_cancel_ends_all_tables_and_each_has_an_outcome(fleet: Fleet, parallel: int) -> None:
    targets = catalog_request.Targets(names=("db.a", "db.b", "db.c", "tmp.x"), single=False)
    with session(fleet, Interrupting(parties=parallel), parallel=parallel) as entered:
        outcomes = {each.table: each for each in entered.compact(fleet.lake.catalog, targets, Policy())}
    assert isinstance(entered.stopped, errors.CancelledError)
    found = sorted(outcome.kind.value for outcome in outcomes.values())
    assert found == ["failed"] * parallel + ["skipped"] * (4 - parallel)
    assert [fleet.files(name) for name in NAMES] == [5] * 5


def test_a_deadline_counts_for_all_tables(fleet: Fleet) -> None:
    result = fleet.run("--table", "db.?", "--parallel", "2", "--deadline", "0.000001s", "--output", "json")
    assert result.exit_code == 130
    assert kinds(result) == dict.fromkeys(("db.a", "db.b", "db.c"), "skipped")
    assert "deadline" in result.stderr


def test_a_signal_while_tables_run_side_by_side_is_not_lost(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread waits for the others; there the signal arrives."""
    import signal

    begun = threading.Event()

    class Slow(Meeting):
        def start(self, job: Job, *, cancel: Any) -> Any:
            if self._all_here.wait() == 0:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            begun.wait(30)
            return self._engine.start(job, cancel=cancel)

    listening = interrupt.listening

    def heard(token: Any) -> Any:
        cancel = token.cancel
        token.cancel = lambda reason: (cancel(reason), begun.set())
        return listening(token)

    monkeypatch.setattr(interrupt, "listening", heard)
    targets = catalog_request.Targets(names=("db.a", "db.b", "db.c"), single=False)
    with session(fleet, Slow(parties=2), parallel=2) as entered:
        outcomes: Iterator[Any] = entered.compact(fleet.lake.catalog, targets, Policy())
        assert sorted(each.kind.value for each in outcomes) == ["failed", "failed", "skipped"]
    assert [fleet.files(name) for name in NAMES] == [5] * 5


def test_a_signal_between_two_results_leaves_an_outcome_for_every_table(fleet: Fleet) -> None:
    """Tables run in threads, so that the main thread may be anywhere when the signal arrives. None of these is
    rewritten, so no table itself waits for signals."""
    import signal

    names = ("db.locked", "db.nothing", "db.no", "tmp.no")
    targets = catalog_request.Targets(names=names, single=False)
    outcomes = []
    with session(fleet, InlineEngine(), parallel=2) as entered:
        for outcome in entered.compact(fleet.lake.catalog, targets, Policy()):
            if not outcomes:
                signal.raise_signal(signal.SIGINT)
            outcomes.append(outcome)
    assert sorted(outcome.table for outcome in outcomes) == sorted(names)


class HalfDone(Meeting):
    """An engine during whose second task somebody presses Ctrl-C."""

    def start(self, job: Job, *, cancel: Any) -> Any:
        rewrite, performed = perform_task.worker(), []

        def perform(task: Any, context: Any, attempt: str) -> Any:
            performed.append(task)
            if len(performed) == 2:
                cancel.cancel("Enough.")
            return rewrite(task, context, attempt)

        return InlineEngine(rewrite=perform).start(job, cancel=cancel)


def test_a_cancel_of_several_tables_is_told_once_and_its_sentence_is_not_that_of_one_table(fleet: Fleet) -> None:
    table = lakes.make_table(fleet.lake.catalog, "db.cities", SCHEMA, spec=BY_CITY)
    for number in range(5):
        table.append(city_rows(number * 10, ("Bern", "Oslo", "Rome"), 9))
    targets = catalog_request.Targets(names=("db.cities", "db.a"), single=False)
    seen: list[Any] = []
    with session(fleet, HalfDone(parties=1)) as entered, pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "progress", lambda console: nullcontext(SimpleNamespace(on_event=seen.append)))
        outcomes = list(entered.compact(fleet.lake.catalog, targets, Policy()))
    assert [outcome.kind.value for outcome in outcomes] == ["failed", "skipped"]
    assert "landed and stay" in outcomes[0].sentence
    assert [event.outcome for event in seen if isinstance(event, events.Finished)] == outcomes[:1]
    assert str(entered.stopped) == "Enough."


@pytest.mark.spark
def test_tables_side_by_side_on_spark(fleet: Fleet, spark: Any) -> None:
    steps = []
    targets = catalog_request.Targets(names=("db.a", "db.b", "db.c"), single=False)
    engines = wiring.engine_factory("spark", session=spark)
    store = wiring.run_store(str(fleet.folder / "runs.db"))
    with table_loop.Session(engines, store, options.ConsoleOptions(quiet=True), parallel=3) as entered:
        for outcome in entered.compact(fleet.lake.catalog, targets, Policy()):
            steps.append((outcome.table, outcome.kind.value))
    assert sorted(steps) == [("db.a", "compacted"), ("db.b", "compacted"), ("db.c", "compacted")]
    assert [fleet.files(name) for name in NAMES] == [1, 1, 1, 5, 5]


def test_many_tables_share_one_budget_and_are_summed_up(fleet: Fleet) -> None:
    result = fleet.run("--table", "db.*", "--exclude", "locked", "--max-cost", "0.5", "--no-progress")
    assert result.exit_code == 0, result.output
    assert "3 tables: 3 compacted, 0 with nothing to do. Estimated cost " in result.stdout
    assert " of $0.5, expected to save about $0.0" in result.stdout
    again = fleet.run("--table", "db.*", "--exclude", "locked", "--output", "json", "--no-progress")
    assert set(kinds(again).values()) == {"healthy"}
    assert "3 tables: 0 compacted, 3 with nothing to do. Estimated cost $0.00." in again.stderr
