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
    engine: options.Engine = "spark",
    conf: Annotated[list[str] | None, typer.Option(metavar="K=V", help="A Spark setting; repeatable.")] = None,
) -> None:
    """Build a small real lake, show its health, compact it and prove that every row is still there.

    Examples:

        iceberg-compact demo

        iceberg-compact demo --keep lake
    """
    logs.configure(console)
    from contextlib import ExitStack
    from tempfile import TemporaryDirectory

    with ExitStack() as stack:
        engines = stack.enter_context(engine_start.starting(engine, conf))
        from iceberg_compaction.interfaces.cli import tour

        if keep is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="iceberg-compact-demo-")))
        else:
            folder = _new_folder(keep)
        outcomes = tour.guide(folder, engines, console)
    if keep is not None:
        tour.what_next(folder, engine, console)
    if not all(outcome.ok for outcome in outcomes):
        raise typer.Exit(exits.FAILED)


def _new_folder(folder: Path) -> Path:
    from iceberg_compaction import errors

    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise errors.ConfigError(f"The folder {folder} is not empty; name a new one for the demo's lake.")
    except OSError as error:
        raise errors.ConfigError(f"The folder {folder} cannot be used: {error.strerror}.") from error
    return folder.resolve()
