"""How good and how fast decisions are: policies and triggers of many tables, and strategies replayed over synthetic
workloads.

`python -m bench.decisions [--quick] [--part NAME]` prints a line for each bar, and as its last line one JSON object
with the bars. Each part is a module `bench.decisions_NAME` with a function `bars(quick)`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
from typing import Any

from bench import bar_lines

PARTS = ("triggers", "replay")  # in the order in which they are measured


def main() -> int:
    there = [part for part in PARTS if importlib.util.find_spec(f"bench.decisions_{part}") is not None]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer tables, and fewer days")
    parser.add_argument("--part", choices=there, action="append", help="this part only; repeatable")
    given = parser.parse_args()
    bars: list[dict[str, Any]] = []
    for part in given.part or there:
        bars += importlib.import_module(f"bench.decisions_{part}").bars(given.quick)
    bar_lines.show(bars)
    print(json.dumps({"bench": "decisions", "quick": given.quick, "bars": bars}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
