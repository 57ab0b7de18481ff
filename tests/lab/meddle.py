"""Another writer that comes in between: in the child that compacts, right before its first commit is sent. So the
run loses a race, or finds a group in conflict, and has something to remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.factories import manifests, ports
from tests.lab import scene

if TYPE_CHECKING:
    from collections import Counter

    from tests.factories.reader import Row

    from iceberg_compaction import CatalogSettings

MOMENT = ports.Moment(call="catalog.commit_table")
FIRST = 5_000  # id of the rows that are appended
DAY = 1


def meddle(kind: str, settings: CatalogSettings, name: str) -> None:
    """`append`: rows are added to a day. `delete`: a row of every group is deleted by position, so that no group of the
    plan can be committed."""
    from iceberg_compaction.catalog import connect

    table = connect.connect(settings).load_table(name)
    if kind == "append":
        table.append(scene.rows(FIRST, 5, DAY))
    else:
        for day in range(scene.DAYS):
            table = manifests.add_position_delete(table, {scene.data_files(table, day)[1]: [0]})


def apply(kind: str, model: Counter[Row]) -> None:
    """What the other writer made of the rows."""
    if kind == "append":
        model.update((number, DAY, f"n{number}") for number in range(FIRST, FIRST + 5))
    if kind == "delete":
        for day in range(scene.DAYS):
            number = day * scene.ROWS_PER_DAY + scene.ROWS_PER_FILE
            del model[number, day, f"n{number}"]
