"""A report of many tables' health as one HTML page that needs nothing else: no asset, no network, and for reading no
script either. Health comes in, text goes out; everything that comes from a table is escaped, and the browser runs no
other script than the page's own."""

from __future__ import annotations

import base64
import hashlib
import shlex
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from iceberg_compaction.interfaces.html import overview, sections, states
from iceberg_compaction.interfaces.html.script import SCRIPT
from iceberg_compaction.interfaces.html.style import STYLE
from iceberg_compaction.model import plurals
from iceberg_compaction.model.table_health import TableHealth

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from iceberg_compaction.interfaces.html.sections import Command
    from iceberg_compaction.interfaces.html.trend import EarlierLook
    from iceberg_compaction.workflow.fleet import Diagnosis

MOST_SECTIONS = 200  # tables shown in full, the sickest ones; the overview has them all
MOST_OPEN = 10  # of them; the others open when they are chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is around the tables of a report."""

    catalog: str
    moment: datetime
    earlier: EarlierLook | None = None
    command: Command = lambda *words: shlex.join(("iceberg-compact", *words))
    most_sections: int = MOST_SECTIONS


def page(diagnoses: Sequence[Diagnosis], report: Report) -> str:
    """The whole document."""
    tables = sorted(diagnoses, key=_worst_first)
    healths = [each for each in tables if isinstance(each, TableHealth)]
    shown = healths[: report.most_sections]
    left_out = len(healths) - len(shown)
    anchors = {each.table: f"t{number}" for number, each in enumerate(shown)}
    title = f"Health of {escape(report.catalog)}"
    origin = f"{report.moment:%Y-%m-%d %H:%M} UTC, from metadata alone; no data file was opened."
    parts = [
        f'<h1>{title}</h1><p class="soft">{origin}</p>',
        overview.tiles(tables, report.earlier),
        overview.changes(tables, report.earlier),
        overview.table(tables, anchors, report.earlier),
        *(
            sections.section(each, anchors[each.table], opened=number < MOST_OPEN, command=report.command)
            for number, each in enumerate(shown)
        ),
        _rest(left_out),
    ]
    return document(title, '<a class="skip" href="#tables">Skip to the tables</a>', parts)


def document(title: str, head: str, parts: Sequence[str], script: str = SCRIPT) -> str:
    """A page of these parts, with the looks of all pages. All of it is HTML already."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_allowed(script)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>\n"
        f"<body>{head}<main>\n{chr(10).join(parts)}\n</main><script>{script}</script></body></html>\n"
    )


def _rest(tables: int) -> str:
    if not tables:
        return ""
    subject = f"{plurals.count(tables, 'healthier table')} {plurals.form(tables, 'is', 'are')}"
    return f'<p class="soft">{subject} in the overview only.</p>'


def _worst_first(diagnosis: Diagnosis) -> tuple[int, int, str]:
    """Tables that could not be read, then all others by their score."""
    if isinstance(diagnosis, TableHealth):
        return len(states.STATES), diagnosis.score, diagnosis.table
    return states.STATES.index(states.state_of(diagnosis)), 0, diagnosis.table


def _allowed(script: str) -> str:
    """No requests, and the one script whose digest this is."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
