"""Files that no table refers to, of any age, beside the files of a table; and the operations that look for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.orphan_plan import OrphanGoal, OrphanPlan
from iceberg_compaction.operations.orphans.remove_orphans import RemoveOrphans
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.record.runs import Run

DAY_S = 24 * 3600
ANY_SHARE = OrphanGoal(force_share=True)


def folder(table: Table) -> Path:
    """The table's location on this machine."""
    return Path(table.location().removeprefix("file://"))


def strew(table: Table, name: str, *, days: float = 10, content: bytes = b"left over") -> str:
    """A file below the table's location that is so many days old; its path as the table would write it."""
    path = folder(table) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    age(path, days)
    return f"{table.location()}/{name}"


def age(path: Path, days: float) -> None:
    then = wiring.now_ms() / 1000 - days * DAY_S
    os.utime(path, (then, then))


def age_all(table: Table, days: float = 10) -> None:
    """All files of the table are so old."""
    for path in folder(table).rglob("*"):
        if path.is_file():
            age(path, days)


def every_file(table: Table) -> set[str]:
    """All files below the location, as the table would write them."""
    base = folder(table)
    return {f"{table.location()}/{path.relative_to(base)}" for path in base.rglob("*") if path.is_file()}


def house(catalog: Catalog) -> operate.House:
    return operate.House(catalog=catalog, engines=wiring.engine_factory("inline"))


def find(
    catalog: Catalog, name: str, goal: OrphanGoal | None = None, *, run: Run | None = None, **more: Any
) -> OrphanPlan:
    """The plan of a table's orphans."""
    operation = RemoveOrphans(table=name, goal=goal or OrphanGoal(), **more)
    return operate.plan_only(operation, house(catalog), run or wiring.new_run())


def remove(
    catalog: Catalog, name: str, goal: OrphanGoal | None = None, *, run: Run | None = None, **more: Any
) -> Outcome:
    """Removes a table's orphans, however many there are."""
    operation = RemoveOrphans(table=name, goal=goal or ANY_SHARE, **more)
    return operate.operate(operation, house(catalog), run or wiring.new_run())


def refusal(catalog: Catalog, name: str) -> str:
    """The sentence by which a search for orphans is refused."""
    with pytest.raises(errors.UnsupportedError) as refused:
        find(catalog, name)
    return str(refused.value)
