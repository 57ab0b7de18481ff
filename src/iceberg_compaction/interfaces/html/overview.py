"""The tables of the report at a glance: tiles with sums, the trend since an earlier look, and one row for each table
that can be searched, sorted and filtered by state."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from iceberg_compaction.interfaces.html import states, tags, trend
from iceberg_compaction.model import plurals
from iceberg_compaction.model.byte_size import format_size
from iceberg_compaction.model.table_health import BrokenTable, TableHealth

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iceberg_compaction.interfaces.html.trend import EarlierLook
    from iceberg_compaction.workflow.fleet import Diagnosis

_NAMES = ("Table", "State", ">Score", ">Files", ">Size", ">Mean file", ">Small", ">Deletes")
_CHANGE = "Change"
_MOST_NAMED = 12


def tiles(diagnoses: Sequence[Diagnosis], earlier: EarlierLook | None) -> str:
    """Sums over all tables, each with its difference."""
    now = [trend.figures(each) for each in diagnoses]
    before = list(earlier.tables.values()) if earlier else None
    shown = [_tile(f"{len(now):,}", "tables", _step(len(now), None if before is None else len(before)))]
    for state in states.STATES[::-1]:
        count = sum(each.state == state for each in now)
        step = _step(count, None if before is None else sum(each.state == state for each in before))
        shown.append(_tile(f"{count:,}", state, step, state if count else ""))
    files = _sum(now, "data_files")
    shown += [
        _tile(f"{files:,}", "data files", _step_of("data_files", now, before)),
        _tile(f"{_sum(now, 'small_files') / max(1, files):.0%}", "of them small", ""),
        _tile(f"{_sum(now, 'delete_files'):,}", "delete files", _step_of("delete_files", now, before)),
        _tile(format_size(_sum(now, "bytes")), "of data", ""),
    ]
    return f'<ul class="tiles">{"".join(shown)}</ul>'


def changes(diagnoses: Sequence[Diagnosis], earlier: EarlierLook | None) -> str:
    """The tables that are in another state than before, that are new, and that are gone."""
    if earlier is None:
        return ""
    by_move: dict[tuple[str, str], list[str]] = {}
    for table, before, now in trend.moved(earlier, diagnoses):
        by_move.setdefault((now, before), []).append(table)
    lines = [
        (f"{before.capitalize()} before, {now} now", tables)
        for (now, before), tables in sorted(by_move.items(), key=lambda move: states.STATES.index(move[0][0]))
    ]
    new = sorted(each.table for each in diagnoses if each.table not in earlier.tables)
    gone = trend.gone(earlier, diagnoses)
    lines += [("Not in the earlier report", new)] if new else []
    lines += [("Only in the earlier report", gone)] if gone else []
    items = "".join(f"<li>{words} ({len(tables):,}): {_names(tables)}</li>" for words, tables in lines)
    said = f"<ul>{items}</ul>" if items else "<p>All tables are in the same state as before.</p>"
    return (
        f'<section class="card"><h2>Since the earlier report</h2><p class="soft">Compared with {escape(earlier.label)}.'
        f"</p>{said}</section>"
    )


def table(diagnoses: Sequence[Diagnosis], anchors: Mapping[str, str], earlier: EarlierLook | None) -> str:
    """All tables, with the controls that the script brings to life."""
    names = (*_NAMES, _CHANGE) if earlier else _NAMES
    rows = "".join(_row(each, anchors.get(each.table), earlier) for each in diagnoses)
    return (
        f'<section class="card" id="tables"><h2>Tables</h2>{_controls(diagnoses)}'
        '<table role="table" class="cards" id="overview"><caption class="unseen">All tables, the worst first</caption>'
        f'{tags.head(names)}<tbody role="rowgroup">{rows}</tbody></table></section>'
    )


def _row(each: Diagnosis, anchor: str | None, earlier: EarlierLook | None) -> str:
    state = states.state_of(each)
    name = tags.name(each.table)
    name = f'<a href="#{anchor}">{name}</a>' if anchor else name
    cells = [
        tags.cell("Table", name, order=each.table),
        tags.cell("State", tags.badge(state), order=states.STATES.index(state)),
    ]
    if isinstance(each, BrokenTable):
        span = len(_NAMES) - len(cells) + bool(earlier)
        cells.append(f'<td role="cell" class="error" colspan="{span}">{tags.sentence(each.error)}</td>')
    else:
        cells += _figures(each)
        if earlier:
            cells.append(_change(each, earlier))
    return tags.row(cells, f' data-state="{state}"' + (f' data-section="{anchor}"' if anchor else ""))


def _figures(health: TableHealth) -> list[str]:
    small = f"{health.small_files:,} ({health.small_ratio:.0%})"
    texts = {
        ">Score": (f"{health.score}", health.score),
        ">Files": (f"{health.data_files:,}", health.data_files),
        ">Size": (format_size(health.bytes), health.bytes),
        ">Mean file": (format_size(health.mean_file_bytes), health.mean_file_bytes),
        ">Small": (small, health.small_files),
        ">Deletes": (f"{health.delete_files:,}", health.delete_files),
    }
    return [tags.cell(name, text, order=order) for name, (text, order) in texts.items()]


def _change(health: TableHealth, earlier: EarlierLook) -> str:
    before, now = earlier.tables.get(health.table), trend.figures(health)
    if before is None:
        return tags.cell(_CHANGE, "new", order=0)
    score, files = trend.difference(before.score, now.score), trend.difference(before.data_files, now.data_files)
    said = [
        f"was {before.state}" if before.state != now.state else "",
        f"score {trend.signed(score)}" if score else "",
        f"{trend.signed(files)} {plurals.form(abs(files), 'file')}" if files else "",
    ]
    kind = "" if not score else "up" if score > 0 else "down"
    text = ", ".join(filter(None, said)) or "none"
    return tags.cell(_CHANGE, f'<span class="{kind}">{escape(text)}</span>', order=score or 0)


def _controls(diagnoses: Sequence[Diagnosis]) -> str:
    counts = Counter(states.state_of(each) for each in diagnoses)
    boxes = "".join(
        f'<label class="pill"><input type="checkbox" name="state" value="{state}">{state} ({counts[state]:,})</label>'
        for state in states.STATES
        if counts[state]
    )
    return (
        '<form class="tools" role="search" aria-label="Tables" hidden>'
        '<label>Search <input type="search" id="search" autocomplete="off" placeholder="part of a name"></label>'
        f'<fieldset><legend class="unseen">Only tables in these states</legend>{boxes}</fieldset>'
        '<label class="narrow">Sort by <select id="sort"></select></label>'
        '<output id="count" aria-live="polite"></output></form>'
    )


def _tile(value: str, name: str, step: str, kind: str = "") -> str:
    return f'<li class="tile {kind}"><b>{value}</b><span>{name}{step}</span></li>'


def _step(now: int, before: int | None) -> str:
    number = trend.difference(before, now)
    return f" <small>({trend.signed(number)})</small>" if number else ""


def _step_of(name: str, now: Sequence[trend.Figures], before: Sequence[trend.Figures] | None) -> str:
    return _step(_sum(now, name), None if before is None else _sum(before, name))


def _sum(tables: Sequence[trend.Figures], name: str) -> int:
    return sum(getattr(each, name) or 0 for each in tables)


def _names(tables: Sequence[str]) -> str:
    more = f" and {len(tables) - _MOST_NAMED:,} more" if len(tables) > _MOST_NAMED else ""
    return ", ".join(tags.name(name) for name in tables[:_MOST_NAMED]) + more
