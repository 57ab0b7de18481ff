"""Runs keep out of each other's way: a run writes into the journal which partitions it is at work on, and another one
that plans meanwhile leaves them to it. Nothing depends on this but time: what two runs do at once anyway is a conflict,
and the commit finds it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.record import processes

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from iceberg_compaction.model.run_record import UnfinishedRun
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.record.runs import Run

    Place = tuple[int, str]  # spec id and canonical JSON of a partition

# A run on another machine writes a heartbeat twice a minute. To take a living one for dead costs a conflict at most.
SILENT_MS = 3 * 60_000
_log = logging.getLogger(__name__)


def leave_to_others(view: TableView, run: Run) -> TableView:
    """The same table, with the files marked that other runs on the branch are at work on."""
    if run.store is None or view.pin is None:
        return view
    try:
        unfinished = run.store.unfinished(view.pin.table_uuid)
    except errors.StoreError as error:
        _log.warning("Nothing is known of other runs: %s", error)
        return view
    places = {place for other in unfinished if _is_at_work(other, run, view.pin.branch) for place in other.start.claims}
    if not places:
        return view
    return replace(view, claimed=pa.array(in_places(view.files, places)))


def _is_at_work(other: UnfinishedRun, run: Run, branch: str) -> bool:
    if other.start.branch != branch or other.start.run_id == run.run_id:
        return False
    return not processes.is_over(other, run.clock(), SILENT_MS)


def in_places(files: pa.Table, places: Collection[Place]) -> NDArray[np.bool_]:
    """Which files are in one of these partitions."""
    partitions = files["partition"].combine_chunks()
    names = partitions.dictionary.to_pylist()
    found = np.zeros(files.num_rows, np.bool_)
    for spec_id in {spec_id for spec_id, _ in places}:
        wanted = np.array([(spec_id, name) in places for name in names], np.bool_)
        found |= (files["spec_id"].to_numpy() == spec_id) & wanted[partitions.indices.to_numpy()]
    return found
