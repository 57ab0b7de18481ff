"""Looking at tables under a person's eyes: one bar for all of them on standard error, and the report as a file."""

from __future__ import annotations

import logging
import sys
import time
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli import commands, exits, logs
from iceberg_compaction.interfaces.cli.options import LogFormat
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.table_health import BrokenTable
from iceberg_compaction.storage.s3 import bucket_rules
from iceberg_compaction.workflow import diagnose, fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from iceberg_compaction.interfaces.cli.fleet.catalog_request import Targets
    from iceberg_compaction.interfaces.cli.options import ConsoleOptions
    from iceberg_compaction.interfaces.cli.verbs.doctor import DoctorOptions
    from iceberg_compaction.interfaces.html.trend import EarlierLook
    from iceberg_compaction.model.run_figures import HealthEntry
    from iceberg_compaction.model.table_health import TableHealth
    from iceberg_compaction.workflow.fleet import Diagnosis

_LINE_EVERY_SECONDS = 5.0
_log = logging.getLogger(__name__)
_NOT_HEALTH = "{path} is not an earlier result of `doctor --output json`."


def examine(catalog: Any, targets: Targets, asked: DoctorOptions, console: ConsoleOptions) -> list[Diagnosis]:
    """The health of all targets. What is wrong with the only one named is the command's error."""
    cache = wiring.manifest_cache()
    looks: list[HealthEntry] = []
    rules = bucket_rules.BucketRules()

    def check(name: str) -> TableHealth:
        now_ms = wiring.now_ms()
        how = diagnose.HealthLook(branch=asked.branch, worst=asked.partitions, cache=cache, now_ms=now_ms, rules=rules)
        table = diagnose.diagnose_table(catalog, name, Policy(), how)
        looks.append(table.entry(now_ms))
        return table.health

    if targets.single:
        found: list[Diagnosis] = [check(targets.names[0])]
    else:
        with _progress(console, len(targets.names)) as on_done:
            found = fleet.diagnose_all(catalog, targets.names, check, parallel=asked.parallel, on_done=on_done)
    if asked.remember:
        _remember(looks, asked)
    cleaned = [_for_people(one) for one in found]
    if broken := sum(isinstance(one, BrokenTable) for one in cleaned):
        exits.complain_in_words(f"{broken} of {len(found)} tables could not be read; the result says why.")
    return cleaned


def _remember(looks: Sequence[HealthEntry], asked: DoctorOptions) -> None:
    """Write the looks to the run store. Trouble with it does not hide the health."""
    store = wiring.store_to_write(asked.state)
    if store is None:
        return
    from iceberg_compaction.record import health_log

    try:
        health_log.HealthLog(entries=store.entries).save(looks)
    except errors.StoreError as error:
        _log.warning("The health of these tables is not remembered: %s", error)


def read_earlier(path: Path) -> EarlierLook:
    """The tables as they were when `doctor --output json` wrote this file."""
    from iceberg_compaction.interfaces.html import trend

    try:
        written = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise errors.ConfigError(f"The earlier report {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise errors.ConfigError(_NOT_HEALTH.format(path=path)) from error
    try:
        return trend.parse(text, f"{path.name}, a file of {written:%Y-%m-%d %H:%M} UTC")
    except (ValueError, RecursionError) as error:
        raise errors.ConfigError(_NOT_HEALTH.format(path=path)) from error


def write_report(
    path: Path, diagnoses: Sequence[Diagnosis], *, catalog: str, earlier: EarlierLook | None = None
) -> None:
    """The report, and run_results.json beside it."""
    from iceberg_compaction.interfaces.cli.fleet import result_files

    write_page(path, diagnoses, catalog=catalog, earlier=earlier)
    result_files.write_run_results(path.parent, [result_files.health_row(each) for each in diagnoses])


def write_page(path: Path, diagnoses: Sequence[Diagnosis], *, catalog: str, earlier: EarlierLook | None = None) -> None:
    """The report as one HTML file."""
    from iceberg_compaction.interfaces.html import page

    report = page.Report(catalog=catalog, moment=datetime.now(timezone.utc), earlier=earlier, command=commands.line)
    try:
        path.write_text(page.page(diagnoses, report), encoding="utf-8")
    except OSError as error:
        raise errors.ConfigError(f"The report cannot be written to {path}: {error.strerror}.") from error


def _for_people(one: Diagnosis) -> Diagnosis:
    """Errors without secrets, advice with commands that can be pasted."""
    if isinstance(one, BrokenTable):
        return one.model_copy(update={"error": logs.clean(one.error)})
    return one.model_copy(update={"advice": tuple(commands.complete(sentence) for sentence in one.advice)})


@contextmanager
def _progress(console: ConsoleOptions, total: int) -> Iterator[Callable[[Diagnosis], None]]:
    if console.quiet or not console.progress:
        yield lambda one: None
    elif sys.stderr.isatty() and console.log_format is LogFormat.TEXT:
        with _bar(total) as on_done:
            yield on_done
    else:
        yield _lines(total)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[Diagnosis], None]]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("looking at tables"), BarColumn(bar_width=40), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda one: bar.update(task, advance=1, description=escape(one.table))


def _lines(total: int) -> Callable[[Diagnosis], None]:
    """A line now and then, for the logs of a scheduler."""
    done, said = 0, time.monotonic()

    def on_done(one: Diagnosis) -> None:
        nonlocal done, said
        done += 1
        if time.monotonic() - said >= _LINE_EVERY_SECONDS or (done == total and total > 1):
            said = time.monotonic()
            logs.write(f"looked at {done} of {total} tables", source="progress")

    return on_done
