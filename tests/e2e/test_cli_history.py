"""`history`, `report` and `watch` on a store with past runs, a run at work and a run that died."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.e2e.test_terminal import ESCAPE
from tests.factories import lake as lakes
from tests.factories import terminal
from tests.factories.stores import begin_with_checkpoint, make_record, make_start
from typer.testing import CliRunner

from iceberg_compaction import Compactor
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.model import events
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.record import event_log, health_log, outbox, processes

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from iceberg_compaction.model.run_record import Process
    from iceberg_compaction.record.store import RunStore

HOUR = 3_600_000
OLD, FAILED, NEW = "a" * 32, "b" * 32, "c" * 32
RUNNING, DIED = "d" * 32, "e" * 32
PROGRAM = [sys.executable, "-c", "from iceberg_compaction.interfaces.cli import main; main()"]


@functools.cache
def dead_process() -> Process:
    """The identity of a process that has ended."""
    code = "from iceberg_compaction.record import processes; print(processes.this_process().model_dump_json())"
    text = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return type(processes.this_process()).model_validate_json(text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(path: Path) -> RunStore:
    """Three runs that ended, one at work in this process, and one whose process is gone."""
    store, now = wiring.run_store(path), wiring.now_ms()
    store.save(make_record(OLD, "shop.events", started_ms=now - 48 * HOUR))
    store.save(make_record(FAILED, "shop.orders", started_ms=now - 2 * HOUR, kind=Kind.FAILED))
    store.save(make_record(NEW, "shop.events", started_ms=now - HOUR))
    here = {"process": processes.this_process(), "started_ms": now - 60_000}
    store.begin(make_start(RUNNING, table="shop.events", **here))
    store.heartbeat(RUNNING, now)
    died = make_start(DIED, table="lake.clicks", process=dead_process(), started_ms=now - 30 * 60_000)
    begin_with_checkpoint(store, died)
    return store


def invoke(path: Path, *args: str, code: int = 0, width: int = 200) -> Result:
    result = CliRunner().invoke(app, [*args, "--state", str(path)], env={"COLUMNS": str(width)})
    assert result.exit_code == code, result.output
    return result


def listed(path: Path, *args: str) -> list[str]:
    runs = json.loads(invoke(path, "history", "--output", "json", *args).stdout)
    return [run["run_id"] for run in runs]


@pytest.mark.parametrize(
    ("args", "run_ids"),
    [
        ((), [RUNNING, DIED, NEW, FAILED, OLD]),
        (("--table", "shop.events"), [RUNNING, NEW, OLD]),
        (("--table", "shop.*"), [RUNNING, NEW, FAILED, OLD]),
        (("--table", "*.o*", "--table", "lake.clicks"), [DIED, FAILED]),
        (("--outcome", "failed"), [FAILED]),
        (("--kind", "compacted", "--outcome", "FAILED"), [NEW, FAILED, OLD]),
        (("--table", "shop.*", "--outcome", "compacted"), [NEW, OLD]),
        (("--since", "3h"), [RUNNING, DIED, NEW, FAILED]),
        (("--since", "3d", "--until", "90m"), [FAILED, OLD]),
        (("--table", "shop.*", "--until", "90m"), [FAILED, OLD]),
        (("--until", "2020-01-01"), []),
        (("--running",), [RUNNING, DIED]),
        (("--limit", "1", "--outcome", "compacted"), [NEW]),
        (("--table", "shop.*", "--limit", "1"), [RUNNING, NEW]),
    ],
    ids=" ".join,
)
def test_history_lists_the_runs_that_fit(
    store: RunStore, path: Path, args: tuple[str, ...], run_ids: list[str]
) -> None:
    assert listed(path, *args) == run_ids


def test_runs_without_an_end_are_listed_as_such_with_the_way_to_go_on(store: RunStore, path: Path) -> None:
    running, died, ended, *_ = json.loads(invoke(path, "history", "--output", "json").stdout)
    assert (running["state"], died["state"], ended["state"]) == ("running", "stopped", "ended")
    assert running["outcome"] is None
    assert running["process"] == os.getpid()
    assert "iceberg-compact resume" in died["command"]
    screen = invoke(path, "history", width=80).stdout
    assert "running" in screen
    assert re.search(rf"resume .*{DIED}", screen)


def test_resume_is_recommended_only_if_there_is_something_to_resume(path: Path) -> None:
    table = "my shop.o'rders"
    wiring.run_store(path).begin(make_start(DIED, table=table, branch="a b", process=dead_process()))
    (died,) = json.loads(invoke(path, "history", "--output", "json").stdout)
    assert died["command"] is None
    assert "left nothing to resume" in died["sentence"]
    assert "To go on" not in invoke(path, "watch", DIED, code=1).stderr
    refusal = invoke(path, "resume", DIED, code=2).stderr
    assert re.search(r"Its commits stay; `iceberg-compact run .*` removes", refusal)
    (command,) = re.findall("`(.*)`", refusal)
    assert shlex.split(command)[-4:] == ["--table", table, "--branch", "a b"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--outcome", "fine"), "choose one of compacted"),
        (("--since", "monday"), "is not a moment"),
        (("--since", "1d", "--until", "2d"), "later than --until"),
        (("--running", "--outcome", "failed"), "either --running or --outcome"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(path: Path, args: tuple[str, ...], words: str) -> None:
    assert words in invoke(path, "history", *args, code=2).stderr


def test_a_history_without_a_store_is_empty_and_creates_none(path: Path) -> None:
    assert "No run is recorded." in invoke(path, "history").stdout
    assert "No run fits these options." in invoke(path, "history", "--table", "shop.*").stdout
    assert not path.exists()


def test_an_old_record_has_a_report_that_says_what_is_not_known(store: RunStore, path: Path) -> None:
    report = json.loads(invoke(path, "report", OLD[:6], "--output", "json").stdout)
    assert (report["run_id"], report["state"]) == (OLD, "ended")
    assert any("does not have it" in sentence for sentence in report["unknown"])
    assert [run["run_id"] for run in report["followed_by"]] == [NEW]
    assert "Not known" in invoke(path, "report", OLD, width=80).stdout


def test_a_run_without_an_end_has_a_report_and_a_page(store: RunStore, path: Path, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    assert "stopped" in invoke(path, "report", DIED, "--html", str(page)).stdout
    assert "lake." in page.read_text()


def test_a_page_that_cannot_be_written_is_told_before_anything_is_read(path: Path, tmp_path: Path) -> None:
    wrong = str(tmp_path / "nothing" / "run.html")
    assert "--html" in invoke(path, "report", "latest", "--html", wrong, code=2).stderr


def test_watching_a_run_that_has_ended_shows_its_end(store: RunStore, path: Path) -> None:
    assert "compacted" in invoke(path, "watch", NEW).stdout
    assert invoke(path, "watch", FAILED, code=1)
    (line,) = invoke(path, "watch", FAILED, "--output", "json", code=1).stdout.splitlines()
    assert (json.loads(line)["outcome"]["kind"], json.loads(line)["exit_code"]) == ("failed", 1)


def test_watching_a_run_that_died_says_so(store: RunStore, path: Path) -> None:
    result = invoke(path, "watch", DIED, code=1)
    assert re.search(rf"resume .*{DIED}", result.stderr)
    last = json.loads(invoke(path, "watch", DIED, "--output", "json", code=1).stdout.splitlines()[-1])
    assert (last["kind"], last["exit_code"]) == ("stopped", 1)


def emit(store: RunStore, *steps: events.Event) -> None:
    """These events of the run at work come to the store."""
    box = outbox.Outbox(entries=store.entries)
    writer = event_log.EventWriter(outbox=box, run_id=RUNNING)
    for step in steps:
        writer.put(step, wiring.now_ms())
    box.flush()


def rewriting(done: int) -> list[events.Event]:
    of: dict[str, Any] = {"table": "shop.events", "run_id": RUNNING}
    step = events.Rewriting(**of, files_done=done // 100, files_total=10, bytes_done=done, bytes_total=1000)
    return [events.Planning(**of), step]


def end(store: RunStore) -> None:
    store.save(make_record(RUNNING, "shop.events", started_ms=wiring.now_ms() - 60_000))
    store.finish(RUNNING)


def test_a_terminal_shows_the_bar_of_a_run_in_another_process_until_it_ends(store: RunStore, path: Path) -> None:
    emit(store, *rewriting(500))
    with terminal.opened([*PROGRAM, "watch", RUNNING[:5], "--state", str(path)], columns=100) as screen:
        screen.wait_for("rewriting.*50%, 500 B of 1000 B")
        emit(store, *rewriting(900))
        screen.wait_for("90%, 900 B of 1000 B")
        end(store)
        assert screen.code() == 0
    text = ESCAPE.sub("", screen.text)
    assert "━" in text
    assert re.search(r"shop\.events\s+compacted", text)


def test_without_a_terminal_there_are_lines(store: RunStore, path: Path) -> None:
    emit(store, *rewriting(500))
    timer = threading.Timer(1.0, end, [store])
    timer.start()
    result = invoke(path, "watch", "latest", "--table", "shop.events")
    timer.join()
    assert "shop.events: rewriting, " in result.stderr
    assert "shop.events: compacted, " in result.stderr


def test_programs_get_each_event_as_a_line(store: RunStore, path: Path) -> None:
    emit(store, *rewriting(500))
    end(store)
    lines = [json.loads(line) for line in invoke(path, "watch", RUNNING, "--output", "json").stdout.splitlines()]
    assert [line["kind"] for line in lines] == ["planning", "rewriting", "rewriting", "rewriting", "finished"]
    assert lines[-2]["bytes_done"] == 500
    assert all(line["run_id"] == RUNNING and line["at_ms"] for line in lines)


def test_doctor_writes_the_health_of_tables_only_where_it_is_wanted(path: Path, tmp_path: Path) -> None:
    lake = lakes.file_lake(tmp_path / "lake")
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 6)
    lakes.close(lake)
    doctor = ("doctor", "--catalog-uri", str(lake.settings.uri), "--no-progress")
    invoke(path, *doctor)
    assert not path.exists()
    for _ in range(2):
        invoke(path, *doctor, "--remember")
    health = health_log.HealthLog(entries=wiring.run_store(path).entries)
    (latest,) = health.latest()
    assert (latest.table, latest.run_id, latest.figures.small_files, latest.figures.sick) == ("db.t", None, 6, True)
    assert latest.figures.score is not None
    assert len(health.of_table(latest.catalog, "db.t")) == 2
    compactor = Compactor(lake.settings, engine="inline", state=path)
    run_id = compactor.compact_table("db.t").run_id
    assert [record.run_id for record in compactor.history("db.*", kind="compacted", since="1h")] == [run_id]
    assert [look.run_id for look in compactor.report("latest").health] == [None, None, run_id, run_id]


def test_doctor_says_so_if_it_cannot_remember(tmp_path: Path) -> None:
    lake = lakes.file_lake(tmp_path / "lake")
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 1)
    lakes.close(lake)
    (tmp_path / "file").write_text("")
    result = invoke(tmp_path / "file" / "runs.db", "doctor", "--catalog-uri", str(lake.settings.uri), "--remember")
    assert "not remembered" in result.stderr
