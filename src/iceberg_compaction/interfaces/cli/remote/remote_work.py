"""Work of a service under a person's eyes: begun, drawn while it goes on, and shown as if it had been done here."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli import exits, output, progress
from iceberg_compaction.interfaces.cli.fleet import result_files
from iceberg_compaction.interfaces.client import service_client
from iceberg_compaction.model import maintenance, outcome
from iceberg_compaction.model.work import WorkState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iceberg_compaction.interfaces.cli.options import ConsoleOptions
    from iceberg_compaction.interfaces.client.service_client import Client
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOptions:
    """Which tables, and how work is begun."""

    table: Annotated[list[str], typer.Option("--table", "-t", metavar="NAME", help="A table; repeatable.")]
    catalog: Annotated[
        str | None, typer.Option(metavar="NAME", help="A catalog of the service; default: its first one.")
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="KEY=VALUE", help="An option of the command, such as max_cost=10; repeatable."
        ),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and do nothing.")] = False
    wait: Annotated[bool, typer.Option(help="Wait for the end.")] = True

    def given(self, **more: Any) -> dict[str, Any]:
        """The options by name."""
        from iceberg_compaction import settings

        pairs = settings.parse_pairs(self.option or (), option="--option")
        return {**pairs, **{name: value for name, value in more.items() if value is not None}}


def client(url: str) -> Client:
    """The service, with the token of ICEBERG_COMPACTION_TOKEN."""
    return service_client.Client(url, token=wiring.service_token())


def perform(service: Client, begun: Sequence[Work], console: ConsoleOptions, *, wait: bool) -> int:
    """Follow work that was begun to its end, show it, and return the exit code."""
    if not wait:
        output.output(console.output).queued(begun, single=len(begun) == 1)
        return exits.DONE
    ended = [_follow(service, work, console) for work in begun]
    results = [result for work in ended for result in outcomes(work)]
    output.output(console.output).outcomes(results, single=len(results) == 1)
    return result_files.exit_code(results, fail_on=())


def outcomes(work: Work) -> list[Outcome]:
    """How the runs of some work ended; work that has none has failed, or was cancelled."""
    if work.result is None:
        words = work.sentence or f"The work is {work.state.value}."
        return [outcome.Failed(table=work.request.table, sentence=words, run_id=work.run_id)]
    if "steps" in work.result:
        return [step.outcome for step in maintenance.TableMaintenance.model_validate(dict(work.result)).steps]
    return [outcome.parse(dict(work.result))]


def _follow(service: Client, work: Work, console: ConsoleOptions) -> Work:
    """The work when it has ended. Ctrl-C ends the watching, not the work."""
    with progress.progress(console, time.time) as shown:
        if shown.on_event is not None and work.state.is_open:
            try:
                for event in service.events(work.run_id):
                    shown.show(event, time.time())
            except errors.UnreachableError:
                pass  # it is waited for in another way
        ended = service.wait(work)
    if ended.state is WorkState.CANCELLED:
        raise errors.CancelledError(ended.sentence or "The work was cancelled.")
    return ended


def each(tables: Sequence[str], begin: Callable[[str], Work]) -> list[Work]:
    """Begin work on every table."""
    return [begin(table) for table in tables]
