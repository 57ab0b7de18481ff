"""What all tasks of a run share, taken from the table once. A pyiceberg Table comes in, a value that travels to the
workers goes out: no catalog, and of its properties only those that files are opened with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import io as catalog_io
from iceberg_compaction.model import task as task_model

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.model import plan as plan_model

_NAME_MAPPING = "schema.name-mapping.default"


def build_context(table: Table, plan: plan_model.Plan, run_id: str) -> task_model.RewriteContext:
    """The context of a run that performs this plan. The schema is the one that the plan is pinned to."""
    if plan.pin is None:
        raise errors.StalePlanError(f"The plan for {plan.table} is pinned to no snapshot, so there is nothing to run.")
    schemas, specs = table.schemas(), table.specs()
    if plan.pin.schema_id not in schemas:
        raise errors.StalePlanError(f"Schema {plan.pin.schema_id} of {plan.table} is gone; plan again.")
    used = {spec_id for spec_id, _ in plan.partitions}
    if missing := sorted(used - specs.keys()):
        raise errors.StalePlanError(f"Partition specs {missing} of {plan.table} are gone; plan again.")
    return task_model.RewriteContext(
        run_id=run_id,
        table=plan.table,
        table_location=table.location(),
        table_schema=schemas[plan.pin.schema_id].model_dump_json(),
        partition_specs={spec_id: specs[spec_id].model_dump_json() for spec_id in sorted(used)},
        properties={
            key: value for key, value in table.properties.items() if key.startswith("write.") or key == _NAME_MAPPING
        },
        sizes=plan.sizes,
        verify=plan.policy.verify,
        io_properties=catalog_io.io_properties(table),
    )
