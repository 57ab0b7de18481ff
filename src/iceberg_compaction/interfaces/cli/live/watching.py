"""A run of another process under a person's eyes: the bars and lines of its own terminal, drawn from the events in the
store, or each event as a line of JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.interfaces import documents, wiring
from iceberg_compaction.interfaces.cli import commands, exits, output, progress
from iceberg_compaction.interfaces.cli.fleet import result_files
from iceberg_compaction.interfaces.cli.options import Format
from iceberg_compaction.model import events
from iceberg_compaction.record.reports import follow_run

if TYPE_CHECKING:
    from iceberg_compaction.interfaces.cli.options import ConsoleOptions
    from iceberg_compaction.interfaces.cli.progress import Progress
    from iceberg_compaction.interfaces.cli.run_names import NamedRun
    from iceberg_compaction.model.run_record import RunRecord
    from iceberg_compaction.record.reports.follow_run import RunEnd, RunFollower, Step
    from iceberg_compaction.record.store import RunStore

EVERY_S = 0.5
_MOST_TROUBLE_S = 60.0  # without an answer of the store


def watch(store: RunStore, run: NamedRun, console: ConsoleOptions) -> int:
    """Show the run until it ends, and return its exit code."""
    follower = follow_run.RunFollower(store=store, run_id=run.run_id)
    if console.output is Format.JSON:
        end = _follow(follower, progress.Silent(), as_json=True)
    else:
        with progress.progress(console, time.time) as shown:
            shown.show(events.Planning(table=run.table, run_id=run.run_id), run.started_ms / 1000)
            end = _follow(follower, shown, as_json=False)
            if end.record is not None:  # its last event is written after the record, or not at all
                shown.show(_finished(end.record), end.record.finished_ms / 1000)
    return _finish(end, run, console)


def _follow(follower: RunFollower, shown: Progress, *, as_json: bool) -> RunEnd:
    trouble_since: float | None = None
    while True:
        try:
            end = follower.end(wiring.now_ms())  # before the steps, so that the last ones are shown
            for step in follower.steps():
                _show(step, shown, as_json=as_json)
            trouble_since = None
        except errors.StoreError as error:
            end, trouble_since = None, _endure(error, trouble_since)
        if end is not None:
            return end
        time.sleep(EVERY_S)


def _endure(error: errors.StoreError, since: float | None) -> float:
    """A store that does not answer is asked again for a while: its server may be starting again."""
    now = time.monotonic()
    if since is None:
        sys.stderr.write(f"{exits.sentence_of(error)} Trying again.\n")
        return now
    if now - since > _MOST_TROUBLE_S:
        raise error
    return since


def _show(step: Step, shown: Progress, *, as_json: bool) -> None:
    if isinstance(step.event, events.Finished):
        return  # the record has all of it
    if as_json:
        _write_line({"at_ms": step.at_ms, **documents.document(step.event)})
    else:
        shown.show(step.event, step.at_ms / 1000)


def _finish(end: RunEnd, run: NamedRun, console: ConsoleOptions) -> int:
    if end.record is not None:
        outcome, code = end.record.outcome, result_files.exit_code([end.record.outcome], fail_on=())
        if console.output is Format.JSON:
            finished = documents.document(_finished(end.record))
            _write_line({"at_ms": end.record.finished_ms, **finished, "exit_code": code})
        else:
            output.output(console.output).outcomes([outcome], single=True)
        return code
    command = None if end.command is None else commands.complete(end.command)
    if console.output is Format.JSON:
        content = {"kind": "stopped", "table": run.table, "run_id": run.run_id, "sentence": end.sentence}
        _write_line(content | {"command": command, "exit_code": exits.FAILED})
    way_on = "" if command is None else f" To go on: {command}"
    sys.stderr.write(f"error: {run.table}: {end.sentence}{way_on}\n")
    return exits.FAILED


def _finished(record: RunRecord) -> events.Finished:
    return events.Finished(table=record.table, run_id=record.run_id, outcome=record.outcome)


def _write_line(content: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(content, ensure_ascii=False) + "\n")
    sys.stdout.flush()
