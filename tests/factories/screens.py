"""Screens of the command line as text: a small lake with awkward names, commands at several widths, and stored screens
to compare with. Figures that vary are replaced by others of the same width, so that lines break as they did."""

from __future__ import annotations

import difflib
import io
import itertools
import os
import random
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import metadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from tests.factories import lake as lakes
from typer.testing import CliRunner

from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.interfaces.cli.screens import uncut

if TYPE_CHECKING:
    from collections.abc import Iterator

STORED = Path(__file__).parents[1] / "e2e" / "screens"
WRITE = "ICEBERG_COMPACTION_SCREENS"  # set to `write`, screens are stored and not compared
WIDTHS = (80, 120, 200)
LONG = "db." + "a_table_with_a_name_that_is_very_long_" * 5 + "indeed"
WIDE = "db.顧客テーブル_注文明細"
COMBINED = "db.cafe\u0301_nai\u0308ve"
_CITIES = [
    *(f"city {number:02}" for number in range(20)),
    "横浜市",
    "a city with a name that is longer than others " * 2,
]
_VARYING = (
    (re.compile(r"\b\d{19}\b"), "1234567890123456789"),
    (re.compile(r"\b[0-9a-f]{8}\b(?=  )"), "0badcafe"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "2026-01-31 12:00:00"),
    (re.compile(r"[\d.]+ [MG]iB of memory; [\d.]+ [MG]iB"), "123.4 MiB of memory; 123.4 MiB"),
    (re.compile(r"\d+\.\d\d s\b"), "0.10 s"),
    (re.compile(r"(?<=do\. Estimated cost )\$[\d.]+\d"), "$0.000012"),  # measured
)
_SECONDS = re.compile(r"(?<=  )\d+\.\d(?=$|  )")
_SIZE = re.compile(r"\d+(\.\d)? (?=B\b|[KM]iB)")


def build(folder: Path) -> None:
    """Tables with names that are long, wide or combined, and one with many partitions."""
    lake = lakes.file_lake(folder)
    with _steady():
        for name, files in (("db.events", 6), ("db.orders", 1), (LONG, 6), (WIDE, 6), (COMBINED, 6)):
            lakes.append_small_files(lakes.make_table(lake.catalog, name), files)
        schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "city", StringType()))
        spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))
        parts = lake.catalog.create_table("db.parts", schema, partition_spec=spec)
        for first in range(5):
            ids = pa.array(range(first, first + len(_CITIES)), pa.int64())
            parts.append(pa.table({"id": ids, "city": _CITIES}))
    lakes.close(lake)


POLICY = """\
profile: guide
environments:
  production:
    min_files_to_compact: 5
    tables: {db.events: {owner: data-team, target_file_size_mb: 256}}
tables:
  db.orders: {enabled: false, parquet_row_group_size: 8192}
  db.parts: {quiet_hours: {start: "8:00", end: "18:00", time_zone: Europe/Berlin, days: mon-fri}}
"""
WRONG = """\
target_file_sise: 1GB
min_input_files: -1
tables:
  db.events: {strategy: fastest, quiet_hours: 25:00-26:00}
schedule: "99 * * * *"
"""


def write_policies(folder: Path) -> None:
    """A policy file, another one, and one with mistakes."""
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "other.yaml").write_text(POLICY.replace("256", "512").replace("guide", "iceberg"))
    (folder / "wrong.yaml").write_text(WRONG)


@contextmanager
def _steady() -> Iterator[None]:
    """A commit each minute of one day."""
    times = itertools.count(1_767_225_600, 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.time", lambda: float(next(times)))
        yield


@contextmanager
def wide_ids() -> Iterator[None]:
    """Snapshot ids all have 19 digits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata, "_generate_snapshot_id", lambda: random.randrange(10**18, 9 * 10**18))
        yield


def show(*args: str, width: int) -> str:
    """The command and its screen."""
    result = CliRunner().invoke(app, list(args), env={"COLUMNS": str(width)}, prog_name="iceberg-compact")
    code = f"\n(exit code {result.exit_code})" if result.exit_code else ""
    return f"{result.stdout}{result.stderr}".rstrip() + code


def show_at_all_widths(*args: str) -> dict[int, str]:
    """The screens of a command that changes tables: it runs once, and its results are printed at all widths."""
    printed: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    original = uncut.UncutConsole.print

    def record(self: uncut.UncutConsole, *objects: Any, **how: Any) -> None:
        printed.append((objects, how))
        original(self, *objects, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uncut.UncutConsole, "print", record)
        screens = {WIDTHS[0]: show(*args, width=WIDTHS[0])}
    for width in WIDTHS[1:]:
        console = uncut.UncutConsole(file=io.StringIO(), width=width, highlight=False)
        for objects, how in printed:
            console.print(*objects, **how)
        screens[width] = console.file.getvalue().rstrip()  # type: ignore[attr-defined]
    return screens


def normal(screen: str, *, sizes: bool = False) -> str:
    """The screen without figures that vary; `sizes`: file sizes, too, as those of manifests."""
    for pattern, replacement in _VARYING:
        screen = pattern.sub(replacement, screen)
    if sizes:
        screen = _SIZE.sub(lambda match: re.sub(r"\d", "9", match[0]), screen)
    return "\n".join(_without_seconds(line.rstrip()) for line in screen.splitlines())


def _without_seconds(line: str) -> str:
    """The line of a table of outcomes without its seconds."""
    of_outcomes = "  compacted" in line or "  healthy  " in line
    return _SECONDS.sub(lambda match: "0.1".rjust(len(match[0])), line) if of_outcomes else line


def compare(name: str, command: str, screens: dict[int, str], *, sizes: bool = False) -> None:
    """Compare with the stored screens, or store them. Widths with the same screen share it."""
    widths: dict[str, list[int]] = {}
    for width, screen in screens.items():
        widths.setdefault(normal(screen, sizes=sizes), []).append(width)
    parts = [f"=== {' and '.join(map(str, of))} columns: {command}\n{screen}\n" for screen, of in widths.items()]
    text, file = "\n".join(parts), STORED / f"{name}.txt"
    if os.environ.get(WRITE) == "write":
        file.write_text(text, encoding="utf-8")
    stored = file.read_text(encoding="utf-8") if file.exists() else ""
    changes = "\n".join(difflib.unified_diff(stored.splitlines(), text.splitlines(), "stored", "now", lineterm=""))
    assert not changes, f"The screen {name} has changed. Look at it; if it is better now: make screens\n{changes}"
