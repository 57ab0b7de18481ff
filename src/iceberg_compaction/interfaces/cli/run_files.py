"""The report of a run as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.interfaces.cli import commands
from iceberg_compaction.interfaces.cli.fleet import result_files

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.model.run_report import RunReport


def check(path: Path | None) -> None:
    """ConfigError: the page could not be written."""
    result_files.check_target(path, option="--html")


def write(path: Path, report: RunReport) -> None:
    """Write the page."""
    from iceberg_compaction.interfaces.html import run_page

    try:
        path.write_text(run_page.render(report, commands.line), encoding="utf-8")
    except OSError as error:
        raise errors.ConfigError(f"The report cannot be written to {path}: {error.strerror}.") from error
