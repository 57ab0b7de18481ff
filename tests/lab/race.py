"""The race lab: two of our compactors, a streaming appender, a position-deleter, an equality-deleter, an expirer and,
if asked for, Iceberg Java's own compaction work on one table at once. What the table must hold after each snapshot
follows from what the writers say; it is compared with what was read meanwhile and with what is there in the end.
`python -m tests.lab.race FOLDER SECONDS [--java]` prints a verdict as JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.factories import reader
from tests.lab import race_java
from tests.lab import race_writers as writers

from iceberg_compaction import Compactor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.factories.reader import Row
    from tests.lab.race_writers import Place


def roles(place: Place, *, pace: float, rest: float, java: bool, deletes: bool) -> dict[str, Callable[[], None]]:
    """Who takes part. `pace` stretches the pauses of those who write, `rest` of those who compact. `deletes`: these
    merge and convert delete files."""
    first, second = ("delete-files", "delete-files") if deletes else ("small-files", "delete-files")
    actions = (["convert"], ["merge", "cheapest"]) if deletes else (["cheapest"], ["apply", "convert"])
    found: dict[str, Callable[[], None]] = {
        "append": lambda: writers.append(place, 0.4 * pace, 12),
        "position": lambda: writers.delete_positions(place, 2.0 * pace, 4),
        "equality": lambda: writers.delete_equal(place, 1.0 * pace, 6),
        "expire": lambda: writers.expire(place, 2.0 * pace, 2),
        "compact-1": lambda: writers.compact(place, "compact-1", first, 1.5 * rest, actions[0]),
        "compact-2": lambda: writers.compact(place, "compact-2", second, 2.5 * rest, actions[1]),
        "read": lambda: writers.read(place, 0.3, 2),
    }
    if java:
        found["java"] = lambda: race_java.work(place, 5.0 * rest, 2)
    return found


def run(place: Place, **how: Any) -> list[str]:
    """Everybody at work until the time is up; the roles that failed."""
    return _together(roles(place, **how))


def _together(works: dict[str, Callable[[], None]]) -> list[str]:
    """All of them at once, each in a process of its own; which failed."""
    working = {}
    for role, work in works.items():
        pid = os.fork()
        if not pid:
            _live(role, work)
        working[pid] = role
    failed = []
    while working:
        pid, status = os.wait()
        role = working.pop(pid)
        if status:
            failed.append(role)
    return failed


def _live(role: str, work: Callable[[], None]) -> None:
    status = 1
    try:
        work()
        status = 0
    except BaseException:  # noqa: BLE001 - a child's error must not go on in its parent's code
        sys.stderr.write(f"{role} failed:\n")
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def model(events: Iterable[dict[str, Any]], until: int | None = None) -> Counter[Row]:
    """The rows after what the writers did, in the order of sequence numbers."""
    rows: set[Row] = set()
    for event in sorted((one for one in events if "sequence" in one), key=lambda one: one["sequence"]):
        if until is not None and event["sequence"] > until:
            break
        match event["op"]:
            case "append":
                rows |= {tuple(row) for row in event["rows"]}
            case "position":
                rows -= {tuple(row) for row in event["rows"]}
            case "equality":
                ids = set(event["ids"])
                rows = {row for row in rows if row[1] != event["day"] or row[0] not in ids}
    return Counter(rows)


def judge(place: Place, failed: list[str]) -> dict[str, Any]:
    """Figures, and what is wrong with rows."""
    events = [event for event in place.logs() if event["op"] in ("append", "position", "equality")]
    checks = [event for event in place.logs() if event["op"] == "read"]
    lost, revived, wrong = 0, 0, []
    for check in checks:
        found, wanted = Counter(tuple(row) for row in check["rows"]), model(events, check["sequence"])
        lost, revived = lost + (wanted - found).total(), revived + (found - wanted).total()
        if found != wanted:
            wrong.append(_difference(check["by"], check["sequence"], found, wanted))
    runs = [event for event in place.logs() if event["op"] == "compact"]
    groups, landed = (sum(one[name] for one in runs) for name in ("groups", "landed"))
    left = sum(one.get("left", 0) for one in runs)
    return {
        "failed": failed,
        "rows_lost": lost,
        "rows_revived": revived,
        "wrong": wrong[:5],
        "rows": model(events).total(),
        "snapshots_checked": dict(Counter(check["by"] for check in checks)),
        "commits": dict(Counter(event["op"] for event in events)),
        "expired": sum(event["count"] for event in place.logs("expire")),
        "runs": dict(Counter(one["kind"] for one in runs)),
        "exchanges": sum("no data file was rewritten there" in one["sentence"] for one in runs),
        "attempts": sum(one.get("attempts", 0) for one in runs),
        "groups": groups,
        "groups_landed": landed,
        "groups_landed_share": landed / max(1, groups),
        "groups_landed_in_the_end_share": landed / max(1, landed + left),
        "conflicts": dict(Counter(why for one in runs for why in one.get("conflicts", ()))),
        "java": dict(Counter(event["result"] for event in place.logs("java") if event["op"] == "java")),
    }


def _difference(by: str, sequence: int, found: Counter[Row], wanted: Counter[Row]) -> dict[str, Any]:
    return {
        "by": by,
        "sequence": sequence,
        "lost": sorted(wanted - found)[:5],
        "revived": sorted(found - wanted)[:5],
    }


def finish(place: Place) -> None:
    """When all is quiet: read, compact all, read again."""
    for strategy in ("small-files", "delete-files"):
        _read_head(place)
        compactor = Compactor(
            place.catalog, strategy, options={"min-input-files": 2}, engine="inline", state=place.folder / "runs.db"
        )
        place.log("last", op="last", sentence=compactor.compact_table(writers.NAME).sentence)
    _read_head(place)


def _read_head(place: Place) -> None:
    table = place.table()
    head = table.current_snapshot()
    assert head is not None
    rows = sorted(reader.rows(table).elements())
    place.log("end", op="read", by="reader", sequence=head.sequence_number, rows=rows)


def lab(
    folder: Path, seconds: float, *, pace: float, rest: float, retention: float, java: bool, deletes: bool, seed: int
) -> dict[str, Any]:
    """The whole lab in this process and its children; the verdict."""
    place = writers.Place(folder=folder, ends=time.monotonic() + seconds, retention_s=retention, seed=seed)
    writers.make_table(place)
    place.catalog.close()
    place._catalog = None  # no connection is shared with children
    failed = run(place, pace=pace, rest=rest, java=java, deletes=deletes)
    finish(place)
    place.catalog.close()
    place._catalog = None
    if java:
        failed += _together({"java-last": lambda: race_java.read_last(place)})
    return judge(place, failed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--pace", type=float, default=1.0)
    parser.add_argument("--rest", type=float, default=1.0)
    parser.add_argument("--retention", type=float, default=60.0, help="seconds that snapshots are kept")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--java", action="store_true")
    parser.add_argument("--deletes", action="store_true", help="compactors merge and convert delete files")
    given = parser.parse_args()
    chosen = {
        "pace": given.pace,
        "rest": given.rest,
        "retention": given.retention,
        "java": given.java,
        "deletes": given.deletes,
        "seed": given.seed,
    }
    verdict = lab(given.folder, given.seconds, **chosen)
    sys.stdout.write(json.dumps(verdict) + "\n")


if __name__ == "__main__":
    main()
