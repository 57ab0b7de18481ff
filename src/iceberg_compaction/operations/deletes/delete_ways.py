"""What merging and conversion would do, for a planner that compares them with a rewrite. A view comes in and goes out
with it; nothing but metadata is read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.metadata.deletes import delete_scopes
from iceberg_compaction.model.delete_choice import DeleteWays
from iceberg_compaction.model.rewrite_task import Granularity
from iceberg_compaction.operations.deletes import choose_deletes

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.table import Table

    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.operations.deletes.choose_deletes import ChosenDeletes

GRANULARITY = "write.delete.granularity"


def add(table: Table, view: TableView) -> TableView:
    """The view of a table that has deletes with what could be done about them."""
    granularity = granularity_of(view.properties)
    merge = choose_deletes.DeleteGoal(dangling=False, convert=False)
    scope = choose_deletes.ChoiceScope(
        goal=merge, granularity=granularity, global_specs=delete_scopes.unpartitioned(table.specs())
    )
    chooser = choose_deletes.Chooser(view.files, scope)
    merged, converted = chooser.made(merge), chooser.made(choose_deletes.DeleteGoal(dangling=False))
    ways = DeleteWays(
        merged=merged.is_merged,
        merge_data=_data_of(merged),
        converted=converted.is_converted | converted.is_merged,
        convert_data=_data_of(converted),
        position=chooser.position,
        equality=chooser.equality,
        everywhere=chooser.everywhere,
        per_file=granularity is Granularity.FILE,
        key_share=_key_share(view, converted),
    )
    return replace(view, delete_ways=ways)


def granularity_of(properties: dict[str, str]) -> Granularity:
    """What new position delete files are for, by the properties of a table."""
    try:
        return Granularity(properties.get(GRANULARITY, Granularity.FILE.value).lower())
    except ValueError:
        return Granularity.FILE


def _data_of(chosen: ChosenDeletes) -> NDArray[np.bool_]:
    """The data files that get new deletes."""
    mask = np.zeros(chosen.live.num_rows, np.bool_)
    for group in chosen.groups:
        mask[group.data] = True
    return mask


def _key_share(view: TableView, chosen: ChosenDeletes) -> float:
    """The share of the table's columns that conversion has to read; all of them if their number is not known."""
    compared = view.files["equality_ids"].filter(pa.array(chosen.is_converted))
    columns = len(pc.unique(pc.list_flatten(compared)))
    return min(1.0, columns / view.columns) if view.columns else 1.0
