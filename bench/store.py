"""What the run store costs and how fast it answers: the history of many runs, the overhead on a run, what a resumed run
reads again, and how long a lease takes to change hands.

`python -m bench.store [--quick] [--part NAME]` prints a line for each bar, and as its last line one JSON object with
the bars. Each part is a module with a function `bars(quick)`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import Any

from bench import bar_lines

PARTS = ("history", "leases", "resume")  # modules bench.store_NAME, in the order in which they are measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs, and fewer rounds")
    parser.add_argument("--part", choices=PARTS, action="append", help="this part only; repeatable")
    given = parser.parse_args()
    bars: list[dict[str, Any]] = []
    for part in given.part or PARTS:
        bars += importlib.import_module(f"bench.store_{part}").bars(given.quick)
    bar_lines.show(bars)
    print(json.dumps({"bench": "store", "quick": given.quick, "bars": bars}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
