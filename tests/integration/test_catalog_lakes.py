"""The lakes that other tests stand on do what they promise."""

from __future__ import annotations

import pyarrow.compute as pc
from tests.factories import lake as lakes


def test_small_files_can_be_written_and_read(lake: lakes.Lake) -> None:
    table = lakes.make_table(lake.catalog, lake.name("numbers"))
    lakes.append_small_files(table, 3, rows_each=10)

    assert len(list(table.scan().plan_files())) == 3
    found = lake.catalog.load_table(lake.name("numbers")).scan().to_arrow().sort_by("amount")
    assert found.num_rows == 30
    assert found.column("name").null_count == 4


def test_given_data_is_cut_into_parts_without_loss(local_lake: lakes.Lake) -> None:
    data = lakes.rows(lakes.NUMBERS, 25)
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.cut"), 4, data=data)

    assert len(list(table.scan().plan_files())) == 4
    assert pc.sum(table.scan().to_arrow()["id"]) == pc.sum(data["id"])
