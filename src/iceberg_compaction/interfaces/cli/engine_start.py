"""The engine of a command. It starts while the command imports, connects and plans, so this module imports little."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from iceberg_compaction.interfaces.cli import interrupt, logs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iceberg_compaction.operations.operation import EngineFactory


@contextmanager
def starting(engine: str, conf: Sequence[str] | None) -> Iterator[EngineFactory]:
    """The engine of the flags --engine and --conf, until the command has ended."""
    from iceberg_compaction import settings
    from iceberg_compaction.interfaces import wiring

    spark_conf = settings.parse_pairs(conf or (), option="--conf")
    logs.keep_secret(spark_conf)
    with interrupt.terminable(), wiring.starting(engine, conf=spark_conf) as engines:
        yield engines
