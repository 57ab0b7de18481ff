"""Operations of housekeeping, beside those of Iceberg Java in one run: how long they take on large tables.

`python -m bench.housekeeping [--quick] [--part NAME]` prints figures, and as its last line one JSON object with the
bars.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import traceback
from typing import Any

from bench import bar_lines

PARTS = ("expire", "orphans", "deletes")  # modules bench.housekeeping_NAME, in the order in which they are measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller tables")
    parser.add_argument("--part", choices=PARTS, action="append", help="this part only; repeatable")
    given = parser.parse_args()
    bars: list[dict[str, Any]] = []
    for part in given.part or PARTS:
        print(f"{part}:", flush=True)
        try:
            bars += importlib.import_module(f"bench.housekeeping_{part}").bars(given.quick)
        except Exception:  # noqa: BLE001 - a part that cannot be measured is a missed bar, and others go on
            traceback.print_exc()
            bars.append({"name": f"{part}, measured", "value": None, "reach": "all of it", "ok": False})
    bar_lines.show(bars)
    print(json.dumps({"bench": "housekeeping", "quick": given.quick, "bars": bars}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
