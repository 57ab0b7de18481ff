"""Files with rows on both sides of the bound are written anew without those that are past their time. The machinery is
that of a rewrite: workers drop the rows as if they were deleted, every other row is proved, and the snapshot is an
`overwrite`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.catalog import publish
from iceberg_compaction.metadata import look
from iceberg_compaction.model import policies
from iceberg_compaction.model.rewrite_plan import EmptyPlan
from iceberg_compaction.operations.operation import PlannedWork
from iceberg_compaction.operations.rewrite_files import perform_files
from iceberg_compaction.plan import build

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.model.past_rows import PastRows
    from iceberg_compaction.model.ttl_plan import TtlPlan
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

# Every file is written on its own terms: none is left out for its size.
_POLICY = policies.Policy(
    strategy=policies.Strategy.FULL, rewrite_all=True, keep_spec=True, copy_row_groups=policies.CopyMode.NEVER
)


def rewrite(plan: TtlPlan, past: PastRows, table: Table, run: Run, ledger: Ledger, engines: EngineFactory) -> None:
    """Write the files anew that the plan names, if they are still in the table. What was committed is in the ledger."""
    table = publish.reload(table)
    head = look.look(table, name=plan.table, branch=plan.branch, cache=run.cache)
    named = pa.array(plan.rewritten_paths, pa.string())
    chosen = pc.is_in(head.view.files["file_path"], value_set=named).combine_chunks()
    view = replace(head.view, selected=chosen, useless_deletes=0)
    made = build.build(view, _POLICY, plan_id=plan.id, now_ms=run.clock())
    if isinstance(made, EmptyPlan):
        return
    rewriting = made.model_copy(update={"past_rows": past})
    ledger.open(rewriting)
    with engines() as engine:
        perform_files.apply(table, PlannedWork(plan=rewriting, manifests=head.manifests), engine, run, ledger)
