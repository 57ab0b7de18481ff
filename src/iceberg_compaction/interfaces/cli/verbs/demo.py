"""`iceberg-compact demo`: a small lake is built, looked at, compacted through Spark and looked at again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from iceberg_compaction.interfaces.cli import engine_start, exits, logs, options, spread


@exits.reported
@spread.spread
def demo(
    console: options.ConsoleOptions,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Build the lake in this new folder, and leave it there.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --keep: build the lake of an earlier demo anew.")
    ] = False,
    engine: options.Engine = "spark",
    conf: Annotated[list[str] | None, typer.Option(metavar="K=V", help="A Spark setting; repeatable.")] = None,
) -> None:
    """Build a small real lake, show its health, compact it and prove that every row is still there.

    Examples:

        iceberg-compact demo

        iceberg-compact demo --keep lake

        iceberg-compact demo --keep lake --replace
    """
    logs.configure(console)
    from contextlib import ExitStack
    from tempfile import TemporaryDirectory

    from iceberg_compaction import errors
    from iceberg_compaction.interfaces import wiring

    if replace and keep is None:
        raise errors.ConfigError("--replace builds the lake of --keep anew; give both.")
    wiring.check_engine(engine)  # before there is a folder
    with ExitStack() as stack:
        if keep is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="iceberg-compact-demo-")))
        else:
            from iceberg_compaction.interfaces.cli import demo_folder

            folder = demo_folder.prepare(keep, replace=replace)
        engines = stack.enter_context(engine_start.starting(engine, conf))
        from iceberg_compaction.interfaces.cli import tour

        outcomes = tour.guide(folder, engines, console)
    if keep is None:
        tour.keep_next_time(console)
    else:
        tour.what_next(folder, engine, console)
    if not all(outcome.ok for outcome in outcomes):
        raise typer.Exit(exits.FAILED)
