"""Performs a plan without groups: it removes delete files that apply to no data file, and rewrites nothing. No engine
is needed, and the commit decides again which delete files these are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import events
from iceberg_compaction.model.proof import Proof, Side
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.operations import run_facts
from iceberg_compaction.operations.rewrite_files import perform_files, table_figures
from iceberg_compaction.operations.rewrite_files.change import replace_files
from iceberg_compaction.operations.rewrite_files.groups import prove_groups

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run


def drop_useless_deletes(table: Table, plan: Plan, run: Run, ledger: Ledger) -> None:
    """Commit the removal. Nothing is entered in the ledger if others have done the same meanwhile."""
    perform_files.check_same_table(table, plan)
    run.emit(events.Committing(table=plan.table, run_id=run.run_id))
    request = replace_files.ReplaceRequest(
        pin=plan.pin, groups=(), snapshot_properties=prove_groups.snapshot_properties(plan, run, batch=1), tidies=True
    )
    try:
        result = replace_files.replace(table, request, run)
    except errors.NothingLeftError:
        return
    nothing = Side()
    ledger.enter_commit(
        run_facts.CommitFacts(
            snapshot_id=result.snapshot_id,
            groups=(),
            files_added=0,
            bytes_added=0,
            proof=Proof(level=plan.policy.verify, expected_rows=0, source=nothing, sink=nothing, footers=nothing),
            effort=Effort(),
            attempts=result.attempts,
            removed_delete_files=result.removed_delete_files,
        )
    )
    if ledger.figures is not None:
        change = table_figures.of_groups(plan, (), result)
        ledger.figures = table_figures.after(ledger.figures, plan.sizes, change)
    run.emit(
        events.Committed(table=plan.table, run_id=run.run_id, snapshot_id=result.snapshot_id, after=ledger.figures)
    )
