"""`iceberg-compact serve`: the service: REST, scheduler and workers in one process, or one of its replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iceberg_compaction.interfaces.cli import exits, lean_start, logs, options, spread

if TYPE_CHECKING:
    import threading

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.interfaces.service.service_settings import ServiceSettings

_SAME_SIGNAL_S = 1.0
_EXTRA = "pip install 'iceberg-compaction[service]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How the service is set up. Flags come before the environment, and that before the file."""

    settings: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", envvar="SERVICE_SETTINGS", help="All settings (YAML), such as several catalogs and tenants."
        ),
    ] = None
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Where to listen; default: this machine alone without tokens.")
    ] = None
    port: Annotated[int | None, typer.Option(help="The port; default: 8080.")] = None
    role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="all, api (no heavy work) or worker (no REST); default: all.")
    ] = None
    auth: Annotated[str | None, typer.Option(metavar="MODE", help="tokens, or none: everybody may do everything.")] = (
        None
    )
    engine: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the catalog that flags name; default: auto.")
    ] = None
    max_runs: Annotated[int | None, typer.Option(help="Runs at work at a time in this process; default: 2.")] = None
    grace: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long runs have to end after SIGTERM; default: 25s.")
    ] = None
    check: Annotated[bool, typer.Option("--check", help="Say what is wrong with the settings, and end.")] = False


@exits.reported
@spread.spread
def serve(
    catalog: options.CatalogOptions,
    console: options.ConsoleOptions,
    how: ServeOptions,
    policy_file: options.PolicyFile = None,
    environment: options.Environment = None,
    state: options.State = None,
) -> None:
    """Run the service: REST, a scheduler and workers.

    It works on one machine as it stands, and as several replicas on PostgreSQL, Redis or etcd.

    Examples:

        iceberg-compact serve --catalog-uri sqlite:///lake/catalog.db

        iceberg-compact serve --settings service.yaml --check

        iceberg-compact serve --settings service.yaml --role worker --store postgresql://db/compaction
    """
    logs.configure(console)
    lean_start.spare_pandas()
    _check_installed()
    from iceberg_compaction.interfaces import wiring

    flags = _flags(catalog, how, policy_file=policy_file, environment=environment, store=state)
    chosen = wiring.service_settings(how.settings, flags)
    _keep_secrets(chosen)
    house = wiring.service_house(chosen)
    if how.check:
        _check(house, console)
        return
    _serve(house, quiet=console.quiet)


def _flags(catalog: options.CatalogOptions, how: ServeOptions, **more: Any) -> dict[str, Any]:
    from iceberg_compaction import settings

    names = ("host", "port", "role", "auth", "max_runs", "grace")
    given = {name: getattr(how, name) for name in names} | more
    flags: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    flags["catalog"] = settings.CatalogFlags(
        name=catalog.catalog_name,
        uri=catalog.catalog_uri,
        type=catalog.catalog_type,
        warehouse=catalog.warehouse,
        properties=catalog.catalog_property or (),
        spark_catalog=catalog.spark_catalog,
        conf=catalog.conf or (),
    )
    more_of_it = {"engine": how.engine, "namespace": catalog.namespace}
    flags["of_catalog"] = {name: value for name, value in more_of_it.items() if value is not None}
    return flags


def _keep_secrets(chosen: ServiceSettings) -> None:
    for entry in chosen.catalogs.values():
        logs.keep_secret({**entry.spark_conf, **entry.properties, "uri": entry.uri or ""})


def _check(house: ServiceHouse, console: options.ConsoleOptions) -> None:
    import sys

    from iceberg_compaction.interfaces import documents
    from iceberg_compaction.interfaces.service import service_check

    parts = []
    for part in service_check.check(house):
        parts.append(part.model_copy(update={"sentence": logs.clean(part.sentence)}))
        if console.output is options.Format.TABLE:
            typer.echo(f"{'ok' if part.ok else 'wrong':5}  {part.part}: {parts[-1].sentence}")
    if console.output is options.Format.JSON:
        sys.stdout.write(documents.text([part.model_dump(mode="json") for part in parts]))
    if not all(part.ok for part in parts):
        raise typer.Exit(exits.FAILED)


def _serve(house: ServiceHouse, *, quiet: bool) -> None:
    """Until a signal comes. A second one ends the process at once. `quiet`: the end of each run is not told."""
    import threading

    from iceberg_compaction.interfaces import wiring

    stop = threading.Event()
    process = wiring.service_process(house, None if quiet else _say)
    _on_signals(stop)
    process.start()
    _say(f"Serving at {process.address} ({house.settings.role.value}). {process.sentence}{_looked_after(house)}")
    try:
        while not stop.wait(1.0):
            if not process.is_alive:
                from iceberg_compaction import errors

                raise errors.SetupError("The HTTP server has ended; the log says why.")
        _say(f"Ending within {house.settings.grace:g} seconds.")
        if not process.stop():
            _say("Runs that did not end in time are gone on with by others, or after the next start.")
    except KeyboardInterrupt:
        _say("Ended at once. Runs at work are gone on with by others, or after the next start.")
        raise typer.Exit(exits.CANCELLED) from None


def _on_signals(stop: threading.Event) -> None:
    """The first signal sets `stop`; a later one is a KeyboardInterrupt. Whoever signals a process and its group sends
    two at the same time, which are one."""
    import signal
    import time

    first: list[float] = []

    def handle(*_: Any) -> None:
        first.append(time.monotonic())
        stop.set()
        if first[-1] - first[0] > _SAME_SIGNAL_S:
            raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)


def _looked_after(house: ServiceHouse) -> str:
    """That tables are worked on though nobody asks for it."""
    from iceberg_compaction.interfaces.service.service_settings import ServiceRole

    if house.settings.role is ServiceRole.API or not house.settings.scheduler.enabled:
        return ""
    return f" Tables of {', '.join(house.settings.catalogs)} are compacted when they are due."


def _say(sentence: str) -> None:
    logs.write(logs.clean(sentence), source="serve")


def _check_installed() -> None:
    from importlib.util import find_spec

    from iceberg_compaction import errors

    for name in ("fastapi", "uvicorn", "prometheus_client"):
        if find_spec(name) is None:
            raise errors.SetupError(f"The service needs {name}, which this Python does not have: {_EXTRA}.")
