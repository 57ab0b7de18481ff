"""The sort order that a rewrite follows. A table and the schema that is written come in; an order goes out, or none. An
order of given terms has the id of the table's order that is the same, whichever it is, else 0 (R42)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg import transforms
from pyiceberg.table import sorting

from iceberg_compaction import errors
from iceberg_compaction.model import row_order_terms

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.sorting import SortOrder


_AD_HOC = 0  # what entries say of files that no order of the table describes


def followed(table: Table, schema: Schema) -> SortOrder | None:
    """The table's own sort order. None: it has none, or one that cannot be followed here; then rows keep their order,
    and the outputs claim none."""
    order = table.sort_order()
    return order if order.fields and _can_be_followed(order, schema) else None


def _can_be_followed(order: SortOrder, schema: Schema) -> bool:
    return all(
        not isinstance(field.transform, transforms.UnknownTransform) and schema.find_column_name(field.source_id)
        for field in order.fields
    )


def terms(order: SortOrder, schema: Schema) -> row_order_terms.Terms:
    """The terms of an order of the table; none if it cannot be followed under this schema."""
    if not _can_be_followed(order, schema):
        return ()
    return tuple(
        row_order_terms.SortTerm(
            column=schema.find_column_name(field.source_id) or "",
            field_id=field.source_id,
            transform=str(field.transform),
            descending=field.direction == sorting.SortDirection.DESC,
            nulls_first=field.null_order == sorting.NullOrder.NULLS_FIRST,
        )
        for field in order.fields
    )


def check(wanted: row_order_terms.Terms, schema: Schema) -> None:
    """ConfigError: a transform has no meaning for its column."""
    for term in wanted:
        kind = schema.find_type(term.field_id)
        if not transforms.parse_transform(term.transform).can_transform(kind):
            raise errors.ConfigError(
                f"The option sort-order applies {term.transform} to {term.column}, which is of type {kind}; that has "
                "no meaning."
            )


def given(table: Table, schema: Schema, wanted: row_order_terms.Terms) -> SortOrder:
    """The order of these terms. StalePlanError: the schema has lost one of their columns."""
    if lost := [term.column for term in wanted if not schema.find_column_name(term.field_id)]:
        raise errors.StalePlanError(f"The column {lost[0]}, which rows were to be sorted by, is gone; plan again.")
    key = row_order_terms.key(wanted)
    ids = [
        order_id for order_id, order in table.sort_orders().items() if row_order_terms.key(terms(order, schema)) == key
    ]
    own = table.sort_order().order_id  # of several equal ones
    return sorting.SortOrder(
        *(_field(term) for term in wanted),
        order_id=own if own in ids else min(ids, default=_AD_HOC),
    )


def _field(term: row_order_terms.SortTerm) -> sorting.SortField:
    return sorting.SortField(
        source_id=term.field_id,
        transform=transforms.parse_transform(term.transform),
        direction=sorting.SortDirection.DESC if term.descending else sorting.SortDirection.ASC,
        null_order=sorting.NullOrder.NULLS_FIRST if term.nulls_first else sorting.NullOrder.NULLS_LAST,
    )
