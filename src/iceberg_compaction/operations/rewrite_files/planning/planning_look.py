"""The look that a plan is made on. A table and a policy come in; out goes the view of a branch with everything that the
policy's strategy and filters ask about: bounds of the column that rows are ordered by, ages, the shape of the table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iceberg_compaction.metadata import look, read_shape, sort_order
from iceberg_compaction.model import policies, writer_check
from iceberg_compaction.plan import plan_request

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.record.runs import Run


def look_for(table: Table, name: str, branch: str, policy: Policy, run: Run) -> look.TableLook:
    """The head of the branch as the policy sees it. ConfigError and UnsupportedError: rows of this table cannot be
    ordered as the policy wants, or an option is about a column that it has not."""
    writer_check.check_columns(policy, table.schema().column_names, name)
    shape = read_shape.shape(table)
    rows = plan_request.rows_by(name, shape, policy)
    if rows is not None:
        sort_order.check(rows.terms, table.schema())
    measured = None if rows is None else rows.measured
    seen = look.look(table, name=name, branch=branch, where=policy.where, cluster=measured, cache=run.cache)
    view = replace(seen.view, shape=shape, now_ms=run.clock())
    return replace(seen, view=with_delete_ways(table, view, policy))


def with_delete_ways(table: Table, view: TableView, policy: Policy) -> TableView:
    """The view with what could be done about deletes, if the policy leaves that to the planner."""
    if view.delete_files is None or view.unsupported or not policies.chooses_deletes(policy):
        return view
    from iceberg_compaction.operations.deletes import delete_ways  # most plans do without

    return delete_ways.add(table, view)
