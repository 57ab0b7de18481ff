"""`iceberg-compact cache`: parsed manifests on local disk, shown or cleared."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, logs, options, spread


class Action(str, Enum):
    """What to do with the cache."""

    SHOW = "show"
    CLEAR = "clear"


@exits.reported
@spread.spread
def cache(
    console: options.ConsoleOptions,
    action: Annotated[Action, typer.Argument(help="Show what is kept, or remove all of it.")] = Action.SHOW,
) -> None:
    """Show or clear the manifests that were parsed before. Clearing costs time on the next look, and nothing else.

    Examples:

        iceberg-compact cache

        iceberg-compact cache clear --output json
    """
    logs.configure(console)
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output

    kept = wiring.manifest_cache()
    cleared = action is Action.CLEAR
    output.output(console.output).cache(kept.clear() if cleared else kept.figures(), cleared=cleared)
