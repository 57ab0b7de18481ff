"""How much the service can do, and how little it costs while nothing happens.

`python -m bench.service [--quick] [--part NAME]` prints a line for each bar, and as its last line one JSON object with
the bars. Each part is a module `bench.service_NAME` with a function `bars(quick)`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import Any

from bench import bar_lines

PARTS = ("reads", "tick", "rest", "idle", "queue")  # in the order in which they are measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tables and of the work")
    parser.add_argument("--part", choices=PARTS, action="append", help="this part only; repeatable")
    given = parser.parse_args()
    bars: list[dict[str, Any]] = []
    for part in given.part or PARTS:
        bars += importlib.import_module(f"bench.service_{part}").bars(given.quick)
    bar_lines.show(bars)
    print(json.dumps({"bench": "service", "quick": given.quick, "bars": bars}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
