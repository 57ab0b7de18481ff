"""The composition root: which engine, which store, which clock and ids. Every outside asks here, so that they all run
the same thing."""

from __future__ import annotations

import os
import time
import uuid
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors, settings
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.record import runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from iceberg_compaction.cancel import CancelToken
    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.model.events import Event
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.record.store import RunStore

ENGINES = ("spark", "inline")


def engine_factory(
    kind: str | Engine = "spark", *, session: SparkSession | None = None, conf: Mapping[str, str] | None = None
) -> EngineFactory:
    """How to get an engine when one is needed: Spark (a given session, or one of its own), this process, or an engine
    that somebody has made."""
    if not isinstance(kind, str):
        return lambda: nullcontext(kind)
    if kind not in ENGINES:
        raise errors.ConfigError(f"{kind!r} is not an engine; choose one of {', '.join(ENGINES)}.")

    def make() -> Any:
        if kind == "inline":
            from iceberg_compaction.execute.engines.inline_engine import InlineEngine

            return nullcontext(InlineEngine())
        check_engine(kind)
        from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

        return SparkEngine(session=session, conf=dict(conf or {}))

    return make


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
) -> runs.Run:
    """A run with a fresh id and the machine's clock."""
    given: dict[str, Any] = {"on_event": on_event, "cancel": cancel}
    return runs.Run(
        run_id=uuid.uuid4().hex,
        clock=lambda: time.time_ns() // 1_000_000,
        store=store,
        cache=manifest_cache(),
        **{name: value for name, value in given.items() if value is not None},
    )


def manifest_cache(environ: Mapping[str, str] = os.environ) -> arrow_cache.ArrowCache:
    """The cache of parsed manifests that the user's settings name."""
    return arrow_cache.open_cache(settings.load_cache_settings(environ))


def run_store(path: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> RunStore:
    """The history of runs: a file given by name, else in the user's state folder."""
    if path is None:
        state = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", ".")) / ".local" / "state")
        path = environ.get("ICEBERG_COMPACTION_STATE") or str(Path(state) / "iceberg-compaction" / "runs.db")
    from iceberg_compaction.record import sql_store, sqlite_file

    return sql_store.SqlStore(sqlite_file.SqliteFile(Path(path)))
