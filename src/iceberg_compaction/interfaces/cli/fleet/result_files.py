"""The results of a run: printed, and on request as files. The report is the health of the tables afterwards, and
`run_results.json` beside it has a row for each table, as dbt writes it, for schedulers and dashboards."""

from __future__ import annotations

import logging
import os
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors, version
from iceberg_compaction.interfaces import documents
from iceberg_compaction.interfaces.cli import exits, logs, output
from iceberg_compaction.interfaces.cli.options import Format
from iceberg_compaction.model import plurals
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.table_health import BrokenTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from iceberg_compaction.interfaces.cli.fleet.catalog_request import Targets
    from iceberg_compaction.interfaces.cli.options import ConsoleOptions, FailOn
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.workflow.fleet import Diagnosis
    from iceberg_compaction.workflow.fleet_budget import FleetBudget

RUN_RESULTS = "run_results.json"


def check_target(path: Path | None, *, option: str) -> None:
    """Raises ConfigError before any work if the file could not be written after it."""
    if path is None:
        return
    if path.is_dir():
        raise errors.ConfigError(f"{option} {path} is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise errors.ConfigError(f"{option} {path} cannot be written: there is no folder {path.parent}.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise errors.ConfigError(f"{option} {path} cannot be written: no permission.")


def check_report(path: Path | None) -> None:
    """The same for a report and the results beside it."""
    check_target(path, option="--report")
    if path is None:
        return
    beside = path.parent / RUN_RESULTS
    if path.name == RUN_RESULTS:
        raise errors.ConfigError(f"--report {path} is the name of the results beside the report; choose another one.")
    if beside.is_dir() or (beside.exists() and not os.access(beside, os.W_OK)):
        reason = "is a folder" if beside.is_dir() else "cannot be written: no permission"
        raise errors.ConfigError(f"--report also writes {RUN_RESULTS} beside the report, but {beside} {reason}.")


class Results:
    """The outcomes of a command, collected as they come and shown in the order of the tables."""

    def __init__(self, *, catalog: Any, targets: Targets, console: ConsoleOptions, report: Path | None) -> None:
        self._catalog = catalog
        self._targets = targets
        self._console = console
        self._report = report
        self._started = datetime.now(timezone.utc)
        self._outcomes: dict[str, Outcome] = {}

    def add(self, outcome: Outcome) -> None:
        self._outcomes[outcome.table] = outcome

    def finish(self, stopped: BaseException | None, *, fail_on: Sequence[FailOn], branch: str) -> int:
        """Print and write everything, and return the exit code. `stopped`: what ended the command early."""
        outcomes = [self._outcomes[name] for name in self._targets.names if name in self._outcomes]
        code = exit_code(outcomes, fail_on=fail_on) if stopped is None else exits.code_of(stopped)
        if stopped is not None:
            exits.complain(stopped)
        elif not self._targets.single:
            _tell_apart(outcomes)
        told = stopped is not None and self._targets.single and not any(each.snapshot_ids for each in outcomes)
        if not told or self._console.output is Format.JSON:
            output.output(self._console.output).outcomes(outcomes, single=self._targets.single)
        if self._report is None:
            return code
        try:
            self._write_files(self._report, outcomes, code, branch)
        except Exception as error:  # noqa: BLE001 the tables are compacted and their outcomes printed
            exits.complain(error)
            return code or exits.FAILED
        return code

    def sum_up(self, budget: FleetBudget, horizon_days: float) -> None:
        """One line about all tables, on standard error where standard output is for programs."""
        summary = budget.summary(list(self._outcomes.values()), horizon_days)
        if self._console.output is Format.JSON:
            logs.write(summary, source="cli", level=logging.INFO)
        else:
            output.output(self._console.output).summary(summary)

    def _write_files(self, report: Path, outcomes: Sequence[Outcome], code: int, branch: str) -> None:
        from iceberg_compaction.interfaces.cli import examination

        rows = [_row(outcome) for outcome in outcomes]
        write_run_results(report.parent, rows, started=self._started, exit_code=code)
        examination.write_page(report, self._diagnose(branch), catalog=self._catalog.name)

    def _diagnose(self, branch: str) -> list[Diagnosis]:
        from iceberg_compaction.interfaces import wiring
        from iceberg_compaction.model.policies import Policy
        from iceberg_compaction.workflow import diagnose, fleet

        how = diagnose.HealthLook(branch=branch, cache=wiring.manifest_cache())
        return fleet.diagnose_all(
            self._catalog,
            self._targets.names,
            lambda name: diagnose.diagnose(self._catalog, name, Policy(), how),
        )


def exit_code(outcomes: Sequence[Outcome], *, fail_on: Sequence[FailOn]) -> int:
    """The code that a command with these outcomes ends with. A table that cannot be rewritten yet is no failure, unless
    the user wants it to be one."""
    also = {Kind(each.value) for each in fail_on}
    failed = any(
        outcome.kind in also if outcome.kind is Kind.UNSUPPORTED else not outcome.ok or outcome.kind in also
        for outcome in outcomes
    )
    return exits.FAILED if failed else exits.DONE


def write_run_results(
    folder: Path, rows: Sequence[dict[str, Any]], *, started: datetime | None = None, exit_code: int | None = None
) -> None:
    """Write run_results.json: facts of the command, and a row for each table."""
    now = datetime.now(timezone.utc)
    content: dict[str, Any] = {
        "metadata": {
            "generated_at": now.isoformat(),
            "invocation_id": str(uuid.uuid4()),
            "iceberg_compaction_version": version.__version__,
        },
        "elapsed_time": None if started is None else round((now - started).total_seconds(), 3),
        "exit_code": exit_code,
        "results": list(rows),
    }
    path = folder / RUN_RESULTS
    try:
        path.write_text(documents.text(content), encoding="utf-8")
    except OSError as error:
        raise errors.ConfigError(f"{path} cannot be written: {error.strerror}.") from error


def health_row(diagnosis: Diagnosis) -> dict[str, Any]:
    """dbt's names, and the whole health of a table that was only looked at."""
    if isinstance(diagnosis, BrokenTable):
        status, message = "error", diagnosis.error
    else:
        status, message = "warn" if diagnosis.sick else "success", " ".join(diagnosis.advice)
        status = "skipped" if diagnosis.unsupported else status
    content = documents.document(diagnosis)
    return {"unique_id": diagnosis.table, "status": status, "message": message, "health": content}


def _row(outcome: Outcome) -> dict[str, Any]:
    """dbt's names, and the whole outcome."""
    return {
        "unique_id": outcome.table,
        "status": _status(outcome),
        "execution_time": outcome.seconds,
        "message": outcome.sentence,
        "failures": outcome.groups_failed,
        "outcome": documents.document(outcome),
    }


def _status(outcome: Outcome) -> str:
    """dbt's word for an outcome."""
    if outcome.kind in (Kind.SKIPPED, Kind.UNSUPPORTED):
        return "skipped"
    return "success" if outcome.ok else "error"


def _tell_apart(outcomes: Sequence[Outcome]) -> None:
    """One line for each kind of trouble, where a list of tables is long."""
    troubled = [outcome for outcome in outcomes if not outcome.ok and outcome.kind is not Kind.UNSUPPORTED]
    in_part = sum(outcome.kind is Kind.COMPACTED for outcome in troubled)
    unsupported = sum(outcome.kind is Kind.UNSUPPORTED for outcome in outcomes)
    lines = {
        "could not be compacted": len(troubled) - in_part,
        f"{plurals.form(in_part, 'was', 'were')} compacted only in part": in_part,
        "cannot be rewritten yet": unsupported,
    }
    for what, count in lines.items():
        if count:
            sentence = f"{count:,} of {plurals.count(len(outcomes), 'table')} {what}; the result says why."
            logs.write(sentence, source="cli", level=logging.WARNING)
