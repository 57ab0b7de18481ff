"""What all tasks of a run share, taken from the table once. A pyiceberg Table comes in, a value that travels to the
workers goes out: no catalog, and of its properties only those that files are opened with."""

from __future__ import annotations

import logging
from concurrent import futures
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema

from iceberg_compaction import errors
from iceberg_compaction.metadata import fetch, sort_order
from iceberg_compaction.model import policies, rewrite_task, writer_options
from iceberg_compaction.model.output_layout import RowOrder
from iceberg_compaction.observe.tracing import spans
from iceberg_compaction.storage import file_io

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.sorting import SortOrder

    from iceberg_compaction.model import rewrite_plan
    from iceberg_compaction.model.past_rows import PastRows

INLINE_BYTES = 10 * 10**6  # delete files of a run that together have less are read here and sent along
_READERS = 8
_log = logging.getLogger(__name__)
_NAME_MAPPING = "schema.name-mapping.default"


def build_context(
    table: Table, plan: rewrite_plan.Plan, run_id: str, deletes: Sequence[rewrite_task.DeleteFile] = ()
) -> rewrite_task.RewriteContext:
    """The context of a run that performs this plan and applies these delete files, each named once. The schema is the
    one that the plan is pinned to. UnsupportedError: a delete compares a field that no schema of the table knows."""
    schemas, specs = table.schemas(), table.specs()
    if plan.pin.schema_id not in schemas:
        raise errors.StalePlanError(f"Schema {plan.pin.schema_id} of {plan.table} is gone; plan again.")
    used = {spec_id for spec_id, _ in plan.partitions}
    output_spec_id = None if plan.layout.keep_spec or used == {plan.pin.spec_id} else plan.pin.spec_id
    used |= set() if output_spec_id is None else {output_spec_id}
    if missing := sorted(used - specs.keys()):
        raise errors.StalePlanError(f"Partition specs {missing} of {plan.table} are gone; plan again.")
    schema = schemas[plan.pin.schema_id]
    order = _row_order(table, schema, plan)
    return rewrite_task.RewriteContext(
        run_id=run_id,
        table=plan.table,
        table_location=table.location(),
        table_schema=schema.model_dump_json(),
        partition_specs={spec_id: specs[spec_id].model_dump_json() for spec_id in sorted(used)},
        output_spec_id=output_spec_id,
        sort_order=None if order is None else order.model_dump_json(),
        delete_fields=_delete_fields(table, schema, deletes),
        delete_contents=_contents(table, deletes),
        properties=_written_by(table, plan.policy),
        sizes=plan.sizes,
        verify=plan.policy.verify,
        # Rows that are copied as bytes are not looked at.
        copy_row_groups=policies.CopyMode.NEVER if plan.past_rows else plan.policy.copies,
        past_rows=plan.past_rows,
        min_row_group=plan.copying.least,
        io_properties=file_io.io_properties(table),
        trace=spans.carrier(),
    )


def _written_by(table: Table, policy: policies.Policy) -> dict[str, str]:
    """The properties that files are written by: the table's, and those of this run."""
    own = {key: value for key, value in table.properties.items() if key.startswith("write.") or key == _NAME_MAPPING}
    return own | writer_options.pairs(policy.write_options)


def _row_order(table: Table, schema: Schema, plan: rewrite_plan.Plan) -> SortOrder | None:
    match plan.layout.row_order:
        case RowOrder.TABLE:
            return sort_order.followed(table, schema)
        case RowOrder.GIVEN:
            return sort_order.given(table, schema, plan.layout.sort_terms)
        case RowOrder.INPUT:
            return None


def measuring_context(
    table: Table,
    run_id: str,
    schema: Schema,
    deletes: Sequence[rewrite_task.DeleteFile],
    past_rows: PastRows | None = None,
) -> rewrite_task.RewriteContext:
    """The context of tasks that read rows by this schema, apply these delete files, leave rows out that are past their
    time, and write nothing."""
    return rewrite_task.RewriteContext(
        run_id=run_id,
        table=".".join(table.name()),
        table_location=table.location(),
        table_schema=schema.model_dump_json(),
        partition_specs={spec_id: spec.model_dump_json() for spec_id, spec in sorted(table.specs().items())},
        delete_fields=_delete_fields(table, schema, deletes),
        delete_contents=_contents(table, deletes),
        properties={key: value for key, value in table.properties.items() if key == _NAME_MAPPING},
        sizes=policies.Sizes(min=1 << 20, target=1 << 30, max=1 << 31),
        verify=policies.ProofLevel.CHECKSUM,
        copy_row_groups=policies.CopyMode.NEVER,
        only_measured=True,
        past_rows=past_rows,
        io_properties=file_io.io_properties(table),
    )


def sketching_context(
    table: Table, run_id: str, schema: Schema, deletes: Sequence[rewrite_task.DeleteFile]
) -> rewrite_task.RewriteContext:
    """The context of tasks that count the distinct values of the columns of this schema."""
    measuring = measuring_context(table, run_id, schema, deletes)
    return measuring.model_copy(update={"only_measured": False, "sketched": True, "verify": policies.ProofLevel.COUNTS})


def position_context(
    table: Table,
    run_id: str,
    schema: Schema,
    deletes: Sequence[rewrite_task.DeleteFile],
    granularity: rewrite_task.Granularity,
) -> rewrite_task.RewriteContext:
    """The context of tasks that write position deletes for the rows that these delete files take."""
    measuring = measuring_context(table, run_id, schema, deletes)
    properties = {key: value for key, value in table.properties.items() if key.startswith("write.")}
    return measuring.model_copy(
        update={
            "only_measured": False,
            "position_deletes": granularity,
            "properties": measuring.properties | properties,
            "verify": policies.ProofLevel.COUNTS,
            "trace": spans.carrier(),
        }
    )


def _delete_fields(table: Table, schema: Schema, deletes: Sequence[rewrite_task.DeleteFile]) -> dict[int, str]:
    """The top-level columns, from older schemas, that are or hold the fields which equality deletes compare and the
    schema has lost (R23)."""
    compared = {field_id for delete in deletes for field_id in delete.equality_ids}
    columns = {}
    older = sorted(table.schemas().items(), reverse=True)
    for field_id in sorted(field_id for field_id in compared if schema.find_column_name(field_id) is None):
        holder = next((one for _, one in older if one.find_column_name(field_id) is not None), None)
        if holder is None:
            raise errors.UnsupportedError(
                f"Equality deletes of {'.'.join(table.name())} compare field {field_id}, which no schema of the table "
                "knows, so they cannot be applied."
            )
        (top,) = [field for field in holder.fields if Schema(field).find_column_name(field_id) is not None]
        columns[field_id] = top.model_dump_json()
    return columns


def _contents(table: Table, deletes: Sequence[rewrite_task.DeleteFile]) -> dict[str, bytes]:
    """The delete files themselves, if they are small together; else workers read those that they need."""
    if not deletes or sum(delete.file_size_in_bytes for delete in deletes) >= INLINE_BYTES:
        return {}
    paths = [delete.file_path for delete in deletes]
    with futures.ThreadPoolExecutor(min(_READERS, len(paths)), thread_name_prefix="deletes") as pool:
        contents = dict(zip(paths, pool.map(lambda path: _content(table, path), paths), strict=True))
    return {path: content for path, content in contents.items() if content is not None}


def _content(table: Table, path: str) -> bytes | None:
    """None: it cannot be read, which the groups that need it will say; others need not suffer."""
    try:
        return fetch.read_bytes(table.io, path, where=f"Delete file {path}")
    except errors.CompactionError as error:
        _log.debug("left to the workers: %s", error)
        return None
