"""What strategies ask about a table beside its files: the shape of its columns, and when its snapshots were committed.
Metadata comes in, values of the vocabulary go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg import types
from pyiceberg.table.snapshots import Operation

from iceberg_compaction.metadata import sort_order
from iceberg_compaction.model import row_order_terms, table_shape, table_view

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


def shape(table: Table) -> table_shape.TableShape:
    """The columns of the current schema and what the table is partitioned and sorted by."""
    schema = table.schema()
    own = sort_order.followed(table, schema)
    orders = {order_id: sort_order.terms(order, schema) for order_id, order in table.sort_orders().items()}
    return table_shape.TableShape(
        columns=tuple(_columns(schema.fields)),
        partition=tuple(
            table_shape.PartitionTerm(name=field.name, column=column, transform=str(field.transform))
            for field in table.spec().fields
            if (column := schema.find_column_name(field.source_id)) is not None
        ),
        sort_order=() if own is None else sort_order.terms(own, schema),
        sort_orders={order_id: terms for order_id, terms in orders.items() if terms},
    )


def _columns(fields: Iterable[types.NestedField], above: str = "") -> Iterator[table_shape.ColumnShape]:
    """The columns with one value per row: primitives, also inside structs."""
    for field in fields:
        name = f"{above}{field.name}"
        if isinstance(field.field_type, types.StructType):
            yield from _columns(field.field_type.fields, f"{name}.")
        elif field.field_type.is_primitive:
            yield table_shape.ColumnShape(name=name, field_id=field.field_id, type=str(field.field_type))


def commits(metadata: TableMetadata) -> pa.Table:
    """The snapshots that have a sequence number, in its order; those of format version 1 have none."""
    rows = []
    for snapshot in metadata.snapshots:
        if not snapshot.sequence_number:
            continue
        summary = snapshot.summary
        rows.append(
            {
                "sequence_number": snapshot.sequence_number,
                "snapshot_id": snapshot.snapshot_id,
                "timestamp_ms": snapshot.timestamp_ms,
                "rewrites": summary is not None and summary.operation == Operation.REPLACE,
                "sorted_by": None if summary is None else summary.additional_properties.get(row_order_terms.SORTED_BY),
            }
        )
    return pa.Table.from_pylist(rows, schema=table_view.COMMITS).sort_by("sequence_number")
