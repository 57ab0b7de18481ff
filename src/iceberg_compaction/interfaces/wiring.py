"""The composition root: which engine, which store, which clock and ids. Every outside asks here, so that they all run
the same thing. Imports are late, because Spark starts while the rest is imported."""

from __future__ import annotations

import logging
import os
import time
import uuid
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors, settings
from iceberg_compaction.observe.tracing import otel_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from iceberg_compaction.cancel import CancelToken
    from iceberg_compaction.execute.engine_choice import EngineChoice
    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.interfaces.cli.options import MetricsOptions
    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.interfaces.service.service_process import ServiceProcess
    from iceberg_compaction.interfaces.service.service_settings import ServiceSettings
    from iceberg_compaction.metadata.cache.arrow_cache import ArrowCache
    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.run_record import RunRecord
    from iceberg_compaction.observe.metrics.run_metrics import RunMetrics
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.record.runs import Run
    from iceberg_compaction.record.store import RunStore
    from iceberg_compaction.workflow.cancel_run import Canceller

_log = logging.getLogger(__name__)
ENGINES = ("spark", "inline", "auto")


def engine_factory(
    kind: str | Engine = "spark",
    *,
    session: SparkSession | None = None,
    conf: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> EngineFactory:
    """How to get an engine when one is needed: Spark (a given session, or one of its own), this process, or an engine
    that somebody has made."""
    if not isinstance(kind, str):
        if isinstance(kind, type) or not all(hasattr(kind, name) for name in ("cores", "start")):
            names = ", ".join(ENGINES)
            raise errors.ConfigError(
                f"An engine is one of {names}, or an object with cores() and start(), not a {type(kind).__name__}."
            )
        return lambda: nullcontext(kind)
    if kind not in ENGINES:
        return _installed_engine(kind)

    memory = settings.load_memory(environ)
    if kind == "auto":
        return _auto_engine(session, dict(conf or {}), environ)

    def make() -> Any:
        if kind == "inline":
            from iceberg_compaction.execute.engines.inline_engine import InlineEngine

            return nullcontext(InlineEngine(memory=memory))
        check_engine(kind)
        from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

        return SparkEngine(session=session, conf=dict(conf or {}), memory=memory)

    return make


def _auto_engine(session: SparkSession | None, conf: Mapping[str, str], environ: Mapping[str, str]) -> EngineFactory:
    """The engine that is chosen for each plan. Neither Spark nor Java is looked for before there is one."""
    inline = engine_factory("inline", environ=environ)
    spark = engine_factory("spark", session=session, conf=conf, environ=environ)

    def make() -> Any:
        from iceberg_compaction.execute.engines import auto_engine, process_cores, spark_state

        with inline() as here:
            return auto_engine.AutoEngine(
                inline=here,
                spark=spark,
                state=lambda: spark_state.read(conf, session),
                cores=process_cores.available(),
            )

    return make


def choose_engine(
    plan: Plan, *, conf: Mapping[str, str] | None = None, session: SparkSession | None = None
) -> EngineChoice:
    """Which engine `auto` would take for a plan now, and why. Starts nothing."""
    from iceberg_compaction.execute import engine_choice
    from iceberg_compaction.execute.engines import process_cores, spark_state
    from iceberg_compaction.operations import engine_for_work

    spark = spark_state.read(conf or {}, session)
    return engine_choice.choose(engine_for_work.figures_of(plan), cores=process_cores.available(), spark=spark)


def _installed_engine(name: str) -> EngineFactory:
    """The factory that an installed package has under this name: called without arguments, it returns an engine, or a
    context manager that yields one. ConfigError: there is none, or it is broken."""
    from iceberg_compaction.model import extensions

    factory = extensions.load(extensions.ENGINES, name, kind="an engine", ours=ENGINES)
    if not callable(factory):
        raise errors.ConfigError(f"The engine {name!r} is a {type(factory).__name__}, not a factory of an engine.")

    def make() -> Any:
        made = factory()
        return made if hasattr(made, "__enter__") else nullcontext(made)

    return make


@contextmanager
def starting(kind: str, *, conf: Mapping[str, str]) -> Iterator[EngineFactory]:
    """The same for a command that will probably need the engine: Spark starts from now on, beside everything else that
    the command does. Nothing of it is left at the end of the `with`, whether it was needed or not. For `auto` nothing
    starts before a plan needs it."""
    if kind != "spark":
        yield engine_factory(kind, conf=conf)
        return
    check_engine(kind)
    from iceberg_compaction.execute.engines.spark import early_start

    with early_start.EarlyStart(conf) as early:

        def make() -> Any:
            from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

            return SparkEngine(early=early, memory=settings.load_memory(os.environ))

        yield make


@contextmanager
def observing(flags: MetricsOptions, environ: Mapping[str, str] = os.environ) -> Iterator[RunMetrics | None]:
    """The metrics of a command, and OpenTelemetry as its variables say. None: nobody wants any. ConfigError: a setting
    cannot be meant."""
    if not any(name.startswith("OTEL_") for name in environ):
        with _metrics(flags, environ) as metrics:
            yield metrics
        return
    from iceberg_compaction.observe.tracing import otel_setup

    otel_setup.set_up(environ)
    otel_setup.join(environ)
    try:
        with _metrics(flags, environ) as metrics:
            yield metrics
    finally:
        otel_setup.flush(otel_setup.END_SECONDS)


@contextmanager
def _metrics(flags: MetricsOptions, environ: Mapping[str, str]) -> Iterator[RunMetrics | None]:
    given = {"port": flags.metrics_port, "file": flags.metrics_file, "push": flags.metrics_push}
    if not any(given.values()) and not otel_state.has_meter():
        yield None
        return
    from iceberg_compaction.observe.metrics import metric_settings, run_metrics

    chosen = metric_settings.load_metrics_settings(metric_settings.MetricsFlags(**given), environ)
    with run_metrics.RunMetrics(settings=chosen) as metrics:
        yield metrics


def check_engine(kind: str) -> None:
    """ConfigError: the packages that an engine needs are not installed."""
    if kind == "spark":
        from iceberg_compaction.execute.engines.spark import installed

        installed.check_installed()


def new_run(
    *,
    on_event: Callable[[Event], None] | None = None,
    store: RunStore | None = None,
    cancel: CancelToken | None = None,
    run_id: str | None = None,
) -> Run:
    """A run with a fresh id, unless one is given, and the machine's clock."""
    from iceberg_compaction.record import runs

    given: dict[str, Any] = {"on_event": on_event, "cancel": cancel}
    return runs.Run(
        run_id=run_id or uuid.uuid4().hex,
        clock=now_ms,
        store=store,
        cache=manifest_cache(),
        heartbeat_s=settings.load_heartbeat(os.environ),
        **{name: value for name, value in given.items() if value is not None},
    )


def new_secret() -> str:
    """256 bits of chance, for a token."""
    import secrets

    return secrets.token_urlsafe(32)


def service_settings(file: str | None, flags: Mapping[str, Any] | None = None) -> ServiceSettings:
    """The settings of the service: flags over the environment over a file. ConfigError: they cannot be used."""
    from iceberg_compaction.interfaces.service.service_settings import load

    return load(flags or {}, file, os.environ)


def service_token(environ: Mapping[str, str] = os.environ) -> str | None:
    """`ICEBERG_COMPACTION_TOKEN`: the token for a service."""
    return environ.get("ICEBERG_COMPACTION_TOKEN") or None


def service_house(chosen: ServiceSettings) -> ServiceHouse:
    """The parts of a service with these settings. ConfigError: there is no store, or it cannot be one."""
    from iceberg_compaction.interfaces.service import service_house

    return service_house.build(chosen)


def service_process(house: ServiceHouse, say: Callable[[str], None] | None = None) -> ServiceProcess:
    """This process as one of the service, with the metrics of its runs. `say`: takes lines for people."""
    from iceberg_compaction.interfaces.service.service_process import ServiceProcess
    from iceberg_compaction.observe.metrics import run_metrics

    metrics = run_metrics.RunMetrics()
    metrics.__enter__()
    return ServiceProcess(house=house, member=uuid.uuid4().hex, run_metrics=metrics, on_event=metrics.on_event, say=say)


def now_ms() -> int:
    """The machine's clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def canceller(store: RunStore, *, wait_s: float) -> Canceller:
    """The user of this process, who wants to cancel runs of the store."""
    import getpass

    from iceberg_compaction.workflow import cancel_run

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user that has no name
        user = f"user {os.getuid()}" if hasattr(os, "getuid") else "somebody"
    return cancel_run.Canceller(store=store, user=user, clock=now_ms, pause=time.sleep, wait_s=wait_s)


def default_namespace(environ: Mapping[str, str] = os.environ) -> str | None:
    """The namespace of tables that are named without one."""
    return settings.load_namespace(environ)


def default_options(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Options of policies that the environment has: the prices."""
    return {"prices": settings.load_prices(environ)} if environ.get("ICEBERG_COMPACTION_PRICES") else {}


def manifest_cache(environ: Mapping[str, str] = os.environ) -> ArrowCache:
    """The cache of parsed manifests that the user's settings name."""
    from iceberg_compaction.metadata.cache import arrow_cache

    chosen = settings.load_cache_settings(environ)
    if chosen.directory is not None:
        from iceberg_compaction.interfaces import user_folders

        # Only speed is lost, so nobody is told.
        if not user_folders.can_write(Path(chosen.directory, "entry")):
            _log.info("Parsed manifests are not kept: %s cannot be written.", chosen.directory)
            return arrow_cache.NO_CACHE
    if chosen.directory is not None and chosen.shared is not None:
        from iceberg_compaction.interfaces import cache_places
        from iceberg_compaction.metadata.cache import shared_cache

        shared = cache_places.open_place(chosen.shared)
        return shared_cache.SharedCache(Path(chosen.directory), chosen.capacity, shared)
    return arrow_cache.open_cache(chosen)


def run_store(given: str | Path) -> RunStore:
    """The run store in a file or at a URL."""
    from iceberg_compaction.interfaces import run_stores

    return run_stores.open_store(given, os.environ)


def past_run(store: RunStore | None, run_id: str) -> RunRecord | None:
    """A run of the history. None: the store does not have it, or cannot be read; the table knows as much."""
    if store is None:
        return None
    try:
        return store.run(run_id)
    except errors.StoreError as error:
        _log.warning("The run is looked up in the table alone: %s", error)
        return None


def undone_by(store: RunStore | None, table: str, run_id: str) -> str | None:
    """The run that undid a run, as far as the newest undos of the table say; None: none, or the store cannot say."""
    from iceberg_compaction.model import outcome

    try:
        records = [] if store is None else store.history(table, kind=outcome.Kind.UNDONE)
    except errors.StoreError as error:
        _log.warning("Earlier undos are not looked up: %s", error)
        return None
    undone = {each.run_id: each.outcome for each in records if isinstance(each.outcome, outcome.Undone)}
    return next((each for each, end in undone.items() if end.undone_run_id == run_id), None)


def store_to_read(given: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> RunStore | None:
    """The run store for a command that adds nothing to it: as given, else as the user's settings say. None: there is no
    home folder. ConfigError: the file is something else."""
    from iceberg_compaction.interfaces import run_stores

    return run_stores.store_to_read(given, environ)


def store_to_write(given: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> RunStore | None:
    """The same for a command whose runs should be remembered. None, after one line in the log: they cannot be."""
    from iceberg_compaction.interfaces import run_stores

    return run_stores.store_to_write(given, environ)
