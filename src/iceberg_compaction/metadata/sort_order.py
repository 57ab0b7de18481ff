"""The sort order that a rewrite follows. A table and the schema that is written come in; an order goes out, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg import transforms

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.sorting import SortOrder


def followed(table: Table, schema: Schema) -> SortOrder | None:
    """The table's own sort order. None: it has none, or one that cannot be followed here; then rows keep their order,
    and the outputs claim none."""
    order = table.sort_order()
    can_be_followed = all(
        not isinstance(field.transform, transforms.UnknownTransform) and schema.find_column_name(field.source_id)
        for field in order.fields
    )
    return order if order.fields and can_be_followed else None
