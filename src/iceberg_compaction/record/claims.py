"""Claims of partitions. A run enters its partitions in the journal, and another run that plans meanwhile leaves them to
it. Claims save work and decide nothing: if two runs rewrite the same partition anyway, one of the commits is a
conflict."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.model import partition_key
from iceberg_compaction.record import processes

if TYPE_CHECKING:
    from iceberg_compaction.model.run_record import UnfinishedRun
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.record.runs import Run

# A run on another machine writes a heartbeat twice a minute. Taking a living run for dead costs a conflict at most.
SILENT_MS = 3 * 60_000
_log = logging.getLogger(__name__)


def leave_to_others(view: TableView, run: Run) -> TableView:
    """The same view, with the files of partitions marked that other runs on the branch claim."""
    if run.store is None or view.pin is None:
        return view
    try:
        unfinished = run.store.unfinished(view.pin.table_uuid)
    except errors.StoreError as error:
        _log.warning("The claims of other runs are not used: %s", error)
        return view
    at_work = [other for other in unfinished if _is_at_work(other, run, view.pin.branch)]
    partition_keys = {claim for other in at_work for claim in other.start.claims}
    if not partition_keys:
        return view
    return replace(view, claimed=pa.array(partition_key.lie_in(view.files, partition_keys)))


def _is_at_work(other: UnfinishedRun, run: Run, branch: str) -> bool:
    if other.start.branch != branch or other.start.run_id == run.run_id:
        return False
    return not processes.is_over(other, run.clock(), SILENT_MS)
