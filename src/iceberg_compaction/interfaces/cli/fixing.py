"""`doctor --fix-properties`: shows which properties would be set on which tables, asks, sets them. The question and the
answers are on standard error, so that standard output stays the health."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli import exits
from iceberg_compaction.model import plurals
from iceberg_compaction.model.table_health import TableHealth
from iceberg_compaction.workflow import fleet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.record.store import RunStore
    from iceberg_compaction.workflow.fleet import Diagnosis


def fix(catalog: Any, diagnoses: Sequence[Diagnosis], *, yes: bool) -> bool:
    """Whether all went well: nothing to set, everything set, or the answer was no."""
    curable = [one for one in diagnoses if isinstance(one, TableHealth) and one.fixes]
    if not curable:
        _say("No table property would help; nothing was set.")
        return True
    for health in curable:
        for one in health.fixes:
            old = "not set" if one.old is None else one.old
            _say(f"{health.table}: {one.name}: {old} -> {one.new}\n    {one.why}")
    if not yes and not _somebody_is_there():
        raise errors.ConfigError("Nothing was set, because no terminal is here to ask in; --yes sets these properties.")
    if not yes and not typer.confirm("Set these properties?", err=True):
        _say("Nothing was set.")
        return True
    store = wiring.store_to_write()
    return all([_set(catalog, health, store) for health in curable])  # noqa: C419 one failure does not stop the rest


def _set(catalog: Any, health: TableHealth, store: RunStore | None) -> bool:
    try:
        fleet.fix_properties(catalog, health, wiring.new_run(store=store))
    except errors.CompactionError as error:
        exits.complain(error)
        return False
    _say(f"{health.table}: {plurals.count(len(health.fixes), 'property', 'properties')} set.")
    return True


def _somebody_is_there() -> bool:
    return sys.stdin.isatty()


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
