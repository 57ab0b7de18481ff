"""A report of many tables' health as one HTML page that needs nothing else: no script, no asset, no network. Health
comes in, text goes out; everything that comes from a table is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from iceberg_compaction.interfaces import words
from iceberg_compaction.interfaces.html import sections
from iceberg_compaction.interfaces.html.style import STYLE
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.table_health import BrokenTable, TableHealth

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from iceberg_compaction.workflow.fleet import Diagnosis

MOST_SECTIONS = 200  # tables shown in full, the sickest ones; the overview has them all


def page(found: Sequence[Diagnosis], *, catalog: str, now: datetime, most_sections: int = MOST_SECTIONS) -> str:
    """The whole document."""
    broken = sorted((one for one in found if isinstance(one, BrokenTable)), key=lambda one: one.table)
    known = sorted((one for one in found if isinstance(one, TableHealth)), key=lambda one: (one.score, one.table))
    shown = known[:most_sections]
    left_out = len(known) - len(shown)
    parts = [
        f"<h1>Health of {escape(catalog)}</h1>",
        f'<p class="soft">{now:%Y-%m-%d %H:%M} UTC, from metadata alone; no data file was opened.</p>',
        _tiles(known, broken),
        _overview(known, broken, {one.table: number for number, one in enumerate(shown)}),
        *(sections.section(one, f"t{number}") for number, one in enumerate(shown)),
        f'<p class="soft">{left_out:,} healthier tables are in the overview only.</p>' if left_out else "",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Health of {escape(catalog)}</title><style>{STYLE}</style></head>\n"
        f"<body><main>\n{chr(10).join(parts)}\n</main></body></html>\n"
    )


def _tiles(known: Sequence[TableHealth], broken: Sequence[BrokenTable]) -> str:
    files = sum(one.data_files for one in known)
    small = sum(one.small_files for one in known)
    tiles = [
        (f"{len(known) + len(broken):,}", "tables"),
        (f"{sum(one.sick for one in known):,}", "sick"),
        (f"{len(broken):,}", "broken"),
        (f"{files:,}", "data files"),
        (f"{small / max(1, files):.0%}", "of them small"),
        (f"{sum(one.delete_files for one in known):,}", "delete files"),
        (format_size(sum(one.bytes for one in known)), "of data"),
    ]
    return f'<div class="tiles">{"".join(f"<div class=tile><b>{v}</b><span>{n}</span></div>" for v, n in tiles)}</div>'


def _overview(known: Sequence[TableHealth], broken: Sequence[BrokenTable], sections_of: dict[str, int]) -> str:
    head = sections.header("Table", "State", ">Score", ">Files", ">Size", ">Mean file", ">Small", ">Deletes")
    rows = [
        f'<tr><td>{escape(one.table)}</td><td><span class="badge broken">{one.state}</span></td>'
        f'<td colspan="6">{escape(one.error)}</td></tr>'
        for one in broken
    ]
    for one in known:
        name, state = escape(one.table), words.state_of(one)
        if one.table in sections_of:
            name = f'<a href="#t{sections_of[one.table]}">{name}</a>'
        cells = (
            f"{one.score}",
            f"{one.data_files:,}",
            format_size(one.bytes),
            format_size(one.mean_file_bytes),
            f"{one.small_files:,} ({one.small_ratio:.0%})",
            f"{one.delete_files:,}",
        )
        figures = "".join(f'<td class="n">{cell}</td>' for cell in cells)
        rows.append(f'<tr><td>{name}</td><td><span class="badge {state}">{state}</span></td>{figures}</tr>')
    return f'<section><h2>Tables</h2><div class="scroll"><table>{head}{"".join(rows)}</table></div></section>'
