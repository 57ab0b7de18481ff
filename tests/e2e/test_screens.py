"""Every verb as people see it, at 80, 120 and 200 columns, with long, wide and combined names. The stored screens in
tests/e2e/screens were looked at; `make screens` stores them anew, and the diff is to be looked at again."""

from __future__ import annotations

import io
import os
import re
import shlex
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from tests.factories import reports, screens
from tests.factories.screens import COMBINED, LONG, STORED, WIDE, WIDTHS
from tests.factories.stores import begin_with_checkpoint, make_start

from iceberg_compaction.catalog import sample_lake
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli.screens import report_story, uncut, undo_story
from iceberg_compaction.interfaces.cli.screens.paragraphs import Paragraph
from iceberg_compaction.model import verification
from iceberg_compaction.model.run_record import Process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CATALOG = "--catalog-uri sqlite:///catalog.db"
QUIET = f"--no-progress {CATALOG}"
VERBS = (
    "doctor",
    "plan",
    "explain",
    "policy",
    "apply",
    "run",
    "resume",
    "manifests",
    "orphans",
    "expire",
    "tags",
    "statistics",
    "repair",
    "from-procedure",
    "deletes",
    "history",
    "report",
    "watch",
    "cancel",
    "verify",
    "undo",
    "cache",
    "serve",
    "demo",
    "maintain",
    "ttl",
    "token",
    "usage",
    "version",
)
# Commands that only read, by the name of their screen; with file sizes that vary or without.
READING = {
    "doctor": (f"doctor {QUIET}", False),
    "doctor-one": (f"doctor --table db.parts {QUIET}", True),
    "doctor-long": (f"doctor --table {LONG} {QUIET}", True),
    "plan": (f"plan --table 'db.*' {CATALOG}", False),
    "plan-one": (f"plan --table db.parts --strategy full --where \"city < 'city 05'\" {CATALOG}", False),
    "plan-healthy": (f"plan --table db.orders {CATALOG}", False),
    "plan-file": (f"plan --table db.events --rewrite-all --out plan.json {CATALOG}", False),
    "plan-triggers": (
        f"plan --table db.parts --triggers guide --trigger max_file_count_per_partition=4 {CATALOG}",
        False,
    ),
    "plan-no-trigger": (f"plan --table db.parts --trigger minor_trigger_file_count=12 {CATALOG}", False),
    "plan-readers": (f"plan --table db.events --read-parallelism 8 {CATALOG}", False),
    "explain": (f"explain db.events --policy policy.yaml --environment production {CATALOG}", True),
    "explain-declined": (f"explain db.orders --policy policy.yaml {CATALOG}", True),
    "policy-show": (f"policy show db.parts --policy policy.yaml {CATALOG}", False),
    "from-procedure": (
        "from-procedure \"CALL lake.system.rewrite_data_files('db.parts', options => map('rewrite-all', 'true', "
        "'max-concurrent-file-group-rewrites', '9'))\"",
        False,
    ),
    "plan-codec": (
        f"plan --table db.parts --rewrite-all --write-option write.parquet.compression-codec=gzip {CATALOG}",
        False,
    ),
    "policy-check": ("policy check policy.yaml", False),
    "policy-check-wrong": ("policy check wrong.yaml", False),
    "policy-diff": ("policy diff policy.yaml other.yaml", False),
    "policy-init": (f"policy init {CATALOG}", True),
    "manifests-dry-run-one": (f"manifests --table db.parts --dry-run {CATALOG}", True),
    "deletes-dry-run": (f"deletes --table db.parts --dry-run {CATALOG}", True),
    "manifests-dry-run": (f"manifests --table 'db.*' --dry-run {CATALOG}", True),
}
CHANGING = {
    "run": (f"run --table 'db.*' --engine inline {QUIET}", False),
    "apply": (f"apply stored.json --engine inline {QUIET}", False),
    "manifests": (f"manifests --table db.parts --table db.orders {QUIET}", True),
}
ERRORS = (
    "run",
    "docter",
    "run --tabel x",
    "doctor --output xml",
    "history --limit 0",
    f"run --table db.nothing --engine inline {QUIET}",
    f"plan --table db.events --target-file-size huge {CATALOG}",
    f"plan --table db.events --where 'name ===' {CATALOG}",
    f"apply nothing.json {CATALOG}",
    "plan --table db.events --catalog-uri ftp://nowhere",
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One lake for all screens, in the present folder, so that no path of the machine is in them."""
    folder = tmp_path_factory.mktemp("screens")
    with pytest.MonkeyPatch.context() as patch, screens.wide_ids():
        patch.chdir(folder)
        patch.setenv("ICEBERG_COMPACTION_STATE", "runs.db")
        patch.setenv("ICEBERG_COMPACTION_CACHE", "cache")
        screens.build(folder)
        screens.write_policies(folder)
        STORED.mkdir(exist_ok=True)
        yield folder


@pytest.mark.parametrize("name", READING)
def test_a_command_that_reads(name: str, lake: Path) -> None:
    command, sizes = READING[name]
    shown = {width: screens.show(*shlex.split(command), width=width) for width in WIDTHS}
    for screen in shown.values():
        assert_nothing_is_cut(screen)
    screens.compare(name, command, shown, sizes=sizes)


def test_the_difference_of_two_plans(lake: Path) -> None:
    screens.show("plan", "--table", "db.parts", "--out", "old.json", *CATALOG.split(), width=80)
    command = f"plan --table db.parts --diff old.json --rewrite-all --where \"city < 'city 05'\" {CATALOG}"
    shown = {width: screens.show(*shlex.split(command), width=width) for width in WIDTHS}
    for screen in shown.values():
        assert_nothing_is_cut(screen)
    screens.compare("plan-diff", command, shown)


def test_commands_that_change_tables_and_the_history_of_them(lake: Path) -> None:
    screens.show("plan", "--table", "db.events", "--out", "stored.json", *CATALOG.split(), width=80)
    for name in ("apply", "manifests", "run"):
        command, sizes = CHANGING[name]
        shown = screens.show_at_all_widths(*shlex.split(command))
        for screen in shown.values():
            assert_nothing_is_cut(screen)
        screens.compare(name, command, shown, sizes=sizes)
    shown = {width: screens.show("history", width=width) for width in WIDTHS}
    assert LONG in shown[80]
    screens.compare("history", "history", shown)


def test_runs_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store, noon = wiring.run_store("runs.db"), reports.NOON
    process = Process(host="worker-7/boot/pid", pid=4711, started="1")
    facts = {"started_ms": noon, "process": process}
    begin_with_checkpoint(store, make_start("1badcafe" * 4, table="db.events", **facts))
    begin_with_checkpoint(store, make_start("2badcafe" * 4, table=LONG, **facts))
    store.begin(make_start("3badcafe" * 4, table="db.orders", **facts))
    shown = {width: screens.show("history", "--store", "sqlite:runs.db", width=width) for width in WIDTHS}
    screens.compare("history-unfinished", "history --store sqlite:runs.db", shown)


def test_the_report_of_a_run() -> None:
    shown = {}
    for width in WIDTHS:
        console = uncut.UncutConsole(file=io.StringIO(), width=width, highlight=False)
        for part in report_story.story(reports.report(table=LONG)):
            console.print(Paragraph(text=part) if isinstance(part, str) else part)
        shown[width] = console.file.getvalue().rstrip()  # type: ignore[attr-defined]
        assert_nothing_is_cut(shown[width])
    screens.compare("report", "report latest", shown)


def test_the_check_of_a_run() -> None:
    proved = "64,000 rows in the written files are those of the replaced ones."
    differs = "The replaced files hold 64,000 rows, and the written ones 63,999."
    checks = [
        verification.PartitionCheck(
            partition=partition, verdict=verdict, sentence=sentence, files_read=64, files_written=1, rows_written=rows
        )
        for partition, verdict, sentence, rows in (
            ('{"day":"2026-01-01"}', "proved", proved, 64000),
            ('{"day":"2026-01-02"}', "differs", differs, 63999),
            (f'{{"city":"{LONG}"}}', "unchecked", "A replaced file cannot be read: it is missing.", None),
        )
    ]
    words = "Snapshot 7000000000000000001: 1 of 3 partitions differs. The replaced files hold 64,000 rows."
    commit = verification.CommitCheck(
        snapshot_id=7 * 10**18 + 1, verdict="differs", sentence=words, partitions=tuple(checks)
    )
    result = verification.Verification(
        run_id="1badcafe" * 4, table=LONG, verdict="differs", sentence=words, commits=(commit,)
    )
    shown = {}
    for width in WIDTHS:
        console = uncut.UncutConsole(file=io.StringIO(), width=width, highlight=False)
        for part in undo_story.verification(result):
            console.print(Paragraph(text=part) if isinstance(part, str) else part)
        shown[width] = console.file.getvalue().rstrip()  # type: ignore[attr-defined]
        assert_nothing_is_cut(shown[width])
    screens.compare("verify", "verify latest", shown)


@pytest.mark.parametrize("action", ["show", "clear"])
def test_the_cache(action: str, lake: Path) -> None:
    shown = {width: screens.show("cache", action, width=width) for width in WIDTHS}
    figures = re.compile(
        r"\d+ entr(y|ies) \([^)]*\)"
    )  # of all commands before, or of those before the cache was cleared
    same = {width: figures.sub("12 entries (345.6 KiB)", screen) for width, screen in shown.items()}
    screens.compare(f"cache-{action}", f"cache {action}", same)


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help(verb: str) -> None:
    command = f"{verb} --help".strip()
    shown = {width: screens.show(*command.split(), width=width) for width in WIDTHS}
    screens.compare(f"help-{verb or 'all'}", command, shown)


def test_errors(lake: Path) -> None:
    shown = "\n\n".join(f"$ {line}\n{screens.show(*shlex.split(line), width=80)}" for line in ERRORS)
    screens.compare("errors", "wrong usage", dict.fromkeys(WIDTHS, shown))


def test_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"EVENT_APPENDS": 6, "EVENT_DAYS": 2, "CUSTOMER_APPENDS": 2, "VISIT_APPENDS": 6, "VISIT_DAYS": 1}
    for name, number in sizes.items():
        monkeypatch.setattr(sample_lake, name, number)
    monkeypatch.chdir(tmp_path)
    with screens.wide_ids():
        shown = screens.show_at_all_widths("demo", "--engine", "inline", "--no-progress", "--keep", "lake")
    screens.compare("demo", "demo --engine inline --no-progress --keep lake", shown)


@pytest.mark.parametrize("width", [20, 60])
def test_a_narrow_terminal_shows_all_names(width: int, lake: Path) -> None:
    for name, (command, _) in READING.items():
        screen = screens.show(*shlex.split(command), width=width)
        assert "error" not in screen, screen
        assert "…" not in screen
        if name in ("doctor", "plan"):
            assert all(table in screen for table in (LONG, WIDE, COMBINED))


@pytest.mark.parametrize("width", WIDTHS)
def test_no_stored_line_is_too_wide_unless_it_is_a_name_or_a_command(width: int) -> None:
    for file in STORED.glob("*.txt"):
        for part in re.split(r"^=== ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            head, _, screen = part.partition("\n")
            if str(width) not in head.partition(" columns")[0].split():
                continue
            wide = [line for line in screen.splitlines() if cell_len(line) > width]
            allowed = ("iceberg-compact", "error: ", "note: ", "- Run: iceberg-compact", LONG, "city=", "$ ")
            assert [line for line in wide if not line.strip().startswith(allowed)] == [], file.name


def assert_nothing_is_cut(screen: str) -> None:
    assert "…" not in screen
    assert not re.search(r"\b1 (files|groups|tables|manifests|rows|snapshots|entries|partitions)\b", screen)
    assert not re.search(r"[^.]\.\.(?!\.)", screen)
    assert "Value error" not in screen


def test_every_screen_that_is_stored_is_of_a_test() -> None:
    helps = [f"help-{verb}" for verb in ("all", *VERBS)]
    names = {
        *READING,
        *CHANGING,
        *helps,
        "history",
        "history-unfinished",
        "report",
        "verify",
        "cache-show",
        "cache-clear",
        "plan-diff",
        "errors",
        "demo",
    }
    assert {file.stem for file in STORED.glob("*.txt")} == names
    assert os.environ.get(screens.WRITE) in (None, "write")
