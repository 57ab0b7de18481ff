"""Runs every benchmark of this folder and keeps its figures. A benchmark is a module with a `main` whose last printed
line is one JSON object; results go to bench/results/NAME.json, and from there into the README and
docs/explanation/speed.md. Fails when a benchmark fails or misses a bar."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench import figures as show

FOLDER = Path(__file__).resolve().parent


def names() -> list[str]:
    """The benchmarks, by module name."""
    return [
        path.stem
        for path in sorted(FOLDER.glob("*.py"))
        if path.stem != "run" and not path.stem.startswith("_") and '__name__ == "__main__"' in path.read_text()
    ]


def measure(name: str, *, quick: bool) -> dict[str, Any] | None:
    """One benchmark's figures; None when it failed or did not end with a JSON object."""
    command = [sys.executable, "-m", f"bench.{name}", *(["--quick"] if quick else [])]
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=FOLDER.parent) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    if process.returncode:
        return None
    try:
        figures = json.loads(last)
    except json.JSONDecodeError:
        return None
    return figures if isinstance(figures, dict) else None


def missed_bars(figures: dict[str, Any]) -> list[str]:
    """The names of the bars that were missed."""
    return [str(bar["name"]) for bar in figures.get("bars", ()) if not bar["ok"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=names(), help="benchmarks to run (default: all)")
    parser.add_argument("--quick", action="store_true", help="a short look; nothing is kept and no bar is judged")
    arguments = parser.parse_args()
    trouble = []
    for name in arguments.names:
        print(f"== {name}", flush=True)
        started = time.monotonic()
        figures = measure(name, quick=arguments.quick)
        print(f"== {name}: {time.monotonic() - started:.0f} s", flush=True)
        if figures is None:
            trouble.append(f"{name} failed")
        elif not arguments.quick:
            trouble += [f"{name} missed {bar}" for bar in missed_bars(figures)]
            (FOLDER / "results").mkdir(exist_ok=True)
            (FOLDER / "results" / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n")
            show.update()
    for line in trouble:
        print(f"error: {line}", file=sys.stderr)
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
