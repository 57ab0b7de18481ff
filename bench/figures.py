"""Shows what the benchmarks of shapes and of reads measured: tables in the README and in docs/explanation/speed.md,
between marks. `python -m bench.run` renews them after it has measured; a test holds that they show bench/results."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import shape_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
PAGES = ("README.md", "docs/explanation/speed.md")
COLUMNS = (("spark", "local"), ("spark", "s3"), ("duckdb", "local"), ("duckdb", "s3"))
HEADS = {"spark": "Spark", "duckdb": "DuckDB", "local": "local files", "s3": "S3"}
MARK = re.compile(r"(<!-- figures: (.*?) -->).*?(<!-- end -->)", re.DOTALL)
Row = dict[str, Any]


def update() -> None:
    """Write the tables of today's results into the pages."""
    for page in PAGES:
        path = ROOT / page
        path.write_text(shown(path.read_text()))


def shown(page: str) -> str:
    """A page with every marked table as bench/results has it; a benchmark without results has no table."""
    return MARK.sub(lambda match: "\n".join([match[1], *_lines(match[2]), match[3]]), page)


def _lines(mark: str) -> list[str]:
    bench, _, form = mark.partition(" ")
    if not (RESULTS / f"{bench}.json").exists():
        return []
    return ["", *TABLES[bench, form](), ""]


def shapes_summary() -> list[str]:
    """The slowest, the median and the fastest shape."""
    rows = sorted(_results("shapes")["shapes"], key=lambda row: float(row["times"]))
    median = statistics.median(row["times"] for row in rows)
    lines = [
        [f"slowest of {len(rows)}: {_words(rows[0])}", _number(rows[0]["times"])],
        ["median", _number(median)],
        [f"fastest: {_words(rows[-1])}", _number(rows[-1]["times"])],
    ]
    words = "Tables of small files as Spark writes them, both sides warm ([all shapes](docs/explanation/speed.md)):"
    return [words, "", *_table(["Inputs", "Times as fast"], lines)]


def shapes() -> list[str]:
    """All shapes."""
    heads = [
        "Table",
        "Files",
        "MB",
        "Target",
        "Seconds",
        "Iceberg Java",
        "Times",
        "CPU times",
        "Size",
        "Scan",
        "Task MB",
    ]
    return _table(heads, [_shape_cells(row) for row in _results("shapes")["shapes"]])


def _shape_cells(row: Row) -> list[str]:
    target = f"{row['target'] // 2**20} MB" if row["target"] else "default"
    cells = [_words(row), row["files"], f"{row['MB']:.0f}", target, f"{row['ours_s']:.1f}", f"{row['java_s']:.1f}"]
    cells += [_number(row["times"]), _number(row["cpu_times"]), f"{row['size']:.2f}"]
    scan = f"{row['scan_spark']:.2f}, {row['scan_duckdb']:.2f}"
    return [str(cell) for cell in (*cells, scan, row["memory_mb"])]


def cold() -> list[str]:
    """From the command on."""
    rows = _results("shapes")["cold"]
    cells = [[_words(row), f"{row['ours_s']:.1f}", f"{row['java_s']:.1f}", _number(row["times"])] for row in rows]
    return _table(["Table", "Seconds", "Iceberg Java", "Times"], cells)


def reads_summary() -> list[str]:
    """Times as fast as before."""
    before, after = _results("reads")["files"]
    words = f"What readers gain when {before} small files become {after}, as times the speed before:"
    return [words, "", *_reads(lambda row: _number(row["times"]))]


def reads() -> list[str]:
    """Seconds before and after."""
    return _reads(lambda row: f"{row['before_s']:.2f} → {row['after_s']:.2f} s")


def _reads(cell: Any) -> list[str]:
    rows = _results("reads")["queries"]
    lines: dict[str, list[str]] = {}
    for engine, store in COLUMNS:
        for row in rows:
            if (row["engine"], row["store"]) == (engine, store):
                lines.setdefault(row["query"], [row["query"]]).append(cell(row))
    return _table(["Query", *(f"{HEADS[engine]}, {HEADS[store]}" for engine, store in COLUMNS)], list(lines.values()))


def _words(row: Row) -> str:
    return shape_tables.find(row["shape"]).words


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    return [lines[0], f"|{'---|' * len(heads)}", *lines[1:]]


def _results(bench: str) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((RESULTS / f"{bench}.json").read_text())
    return figures


TABLES = {
    ("shapes", "summary"): shapes_summary,
    ("shapes", "all"): shapes,
    ("shapes", "cold"): cold,
    ("reads", "summary"): reads_summary,
    ("reads", "all"): reads,
}
