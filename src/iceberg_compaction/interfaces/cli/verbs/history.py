"""`iceberg-compact history`: past runs and those at work, from the run store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, logs, options, spread

if TYPE_CHECKING:
    from iceberg_compaction.record.past_runs import HistoryFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """Which runs."""

    table: Annotated[
        list[str] | None,
        typer.Option("--table", "-t", metavar="NAME", help="Runs of this table, or of a pattern; repeatable."),
    ] = None
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            "--outcome",
            "--kind",
            metavar="KIND",
            help="Runs with this end: compacted, healthy, skipped, unsupported, conflict, failed, undone; repeatable.",
        ),
    ] = None
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Began since 12h, 7d, 2026-01-31 or 2026-01-31T08:00 (UTC).")
    ] = None
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Began until then; a date means its end.")] = None
    running: Annotated[bool, typer.Option("--running", help="Only runs without an end: at work, or died.")] = False
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most this many runs.")] = 20


@exits.reported
@spread.spread
def history(console: options.ConsoleOptions, filters: HistoryOptions, state: options.State = None) -> None:
    """Show past runs, the newest first, and runs that have not ended.

    Examples:

        iceberg-compact history

        iceberg-compact history --table 'shop.*' --outcome failed --since 7d

        iceberg-compact history --running

        iceberg-compact history --table shop.events --limit 5 --output json
    """
    logs.configure(console)
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.record import past_runs

    now_ms = wiring.now_ms()
    wanted = _filter(filters, now_ms)
    store = wiring.store_to_read(state)
    unfinished = past_runs.unfinished(store, wanted, now_ms) if store is not None and not wanted.kinds else []
    records = past_runs.select(store, wanted) if store is not None and not filters.running else []
    filtered = bool(filters.table or filters.outcome or filters.since or filters.until or filters.running)
    output.output(console.output).history(records, unfinished[: filters.limit], filtered=filtered)


def _filter(filters: HistoryOptions, now_ms: int) -> HistoryFilter:
    from iceberg_compaction import errors
    from iceberg_compaction.model import moments
    from iceberg_compaction.model.outcome import Kind
    from iceberg_compaction.record import past_runs

    kinds = {kind.value: kind for kind in Kind}
    for word in filters.outcome or ():
        if word.lower() not in kinds:
            raise errors.ConfigError(f"{word!r} is not the outcome of a run; choose one of {', '.join(kinds)}.")
    if filters.outcome and filters.running:
        raise errors.ConfigError("Runs without an end have no outcome; give either --running or --outcome.")
    since = None if filters.since is None else moments.parse_ms(filters.since, now_ms)
    until = None if filters.until is None else moments.parse_ms(filters.until, now_ms, end=True)
    if since is not None and until is not None and since > until:
        raise errors.ConfigError(f"--since {filters.since} is later than --until {filters.until}.")
    return past_runs.HistoryFilter(
        tables=tuple(filters.table or ()),
        kinds=frozenset(kinds[word.lower()] for word in filters.outcome or ()),
        since_ms=since,
        until_ms=until,
        limit=filters.limit,
    )
