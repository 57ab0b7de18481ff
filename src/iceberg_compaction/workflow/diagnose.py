"""The health of one table, from metadata alone. Tables that cannot be rewritten yet still have a health."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from iceberg_compaction.catalog import load_tables
from iceberg_compaction.inspect import assess, delete_cost, health_request
from iceberg_compaction.metadata import look, snapshot_log
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.model.policies import Policy, Strategy
from iceberg_compaction.model.table_view import DATA
from iceberg_compaction.plan import plan_request, quick_look

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from iceberg_compaction.model.table_health import TableHealth
    from iceberg_compaction.model.table_view import TableView

_MANY_DELETES = Policy(strategy=Strategy.DELETE_FILES, delete_file_threshold=health_request.MANY_DELETES)


def diagnose(
    catalog: Catalog,
    name: str,
    policy: Policy,
    *,
    branch: str = "main",
    worst: int = health_request.WORST,
    cache: arrow_cache.ArrowCache = arrow_cache.NO_CACHE,
) -> TableHealth:
    """Assess the table's health by a policy. `worst`: the number of partitions to name."""
    table = load_tables.load_table(catalog, name)
    view = look.look(table, name=name, branch=branch, cache=cache).view
    request = health_request.Checkup(
        policy=policy,
        sizes=plan_request.resolve(view, policy).sizes,
        sick=quick_look.needs_work(view, policy),
        delete_heavy=view.delete_files is not None and quick_look.needs_rewrite(view, _MANY_DELETES),
        applied=_applied_deletes(view),
        history=snapshot_log.read_history(table, branch=branch),
        worst=worst,
    )
    return assess.assess(view, request)


def _applied_deletes(view: TableView) -> delete_cost.AppliedCounts | None:
    """Count the delete files that apply to each data file, if there are any."""
    if view.delete_files is None:
        return None
    per_data_file = view.delete_files.filter(pc.equal(view.files["content"].combine_chunks(), DATA))
    dangling = pc.sum(view.dangling).as_py() or 0
    return delete_cost.AppliedCounts(per_data_file=per_data_file.to_numpy(), dangling=dangling)
